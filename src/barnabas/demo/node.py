"""The secured node of the demonstration: `barnabas run` as a child process, or the one that an earlier run left."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.client.config import ClientConfig, load_properties_file
from barnabas.demo.folder import Folder

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05


class DemoError(Exception):
    """A step that did not work; the message says which and why."""


@dataclass
class DemoNode:
    """A running node. process: None when it was running before; admin_file: client settings of the super user."""

    bootstrap: str
    pid: int
    admin_file: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def admin(self) -> ClientConfig:
        """Give the super user's settings."""
        return ClientConfig.from_properties(load_properties_file(self.admin_file), bootstrap_servers=self.bootstrap)

    def stop(self) -> None:
        """Shut the node down, if this run started it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(folder: Folder) -> DemoNode:
    """Give the node that serves `folder`, started if it does not run; DemoError when it does not come up."""
    running = _read_ready(folder)
    if running is not None and _serves(running):
        return running
    folder.root.mkdir(parents=True, exist_ok=True)
    folder.ready_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "barnabas.cli.main", "run", "--dir", str(folder.node)]
    with folder.node_log.open("ab") as log:
        process = subprocess.Popen(
            [*command, "--ready-file", str(folder.ready_file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us: we decide whether the node stays
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while (ready := _read_ready(folder)) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise DemoError(f"the node did not come up; the end of {folder.node_log}:\n{tail(folder.node_log)}")
        time.sleep(_POLL_S)
    ready.process = process
    return ready


def _read_ready(folder: Folder) -> DemoNode | None:
    """Give what the ready file says; None while there is none, or half of one."""
    try:
        ready: dict[str, Any] = json.loads(folder.ready_file.read_text(encoding="utf-8"))
        return DemoNode(ready["bootstrap"], ready["pid"], Path(ready["client_configs"]["librdkafka"]))
    except (OSError, ValueError, KeyError):
        return None


def _serves(node: DemoNode) -> bool:
    """Say whether the process of a ready file lives and listens: a killed node leaves its file behind."""
    host, _, port = node.bootstrap.split(",")[0].rpartition(":")
    try:
        os.kill(node.pid, 0)
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def tail(path: Path) -> str:
    """Give the last lines of a log."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
