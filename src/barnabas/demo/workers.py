"""The two Connect workers of the demonstration, `barnabas connect` as child processes, one group between them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.client.config import load_properties_file
from barnabas.demo import plugin
from barnabas.demo.folder import Folder
from barnabas.demo.node import DemoError, tail
from barnabas.demo.principals import READER, WORKER, WORKERS
from barnabas.demo.rest import Rest, UnreachableError
from barnabas.model.config import format_properties
from barnabas.net.dev_ca import DevCa, write_private
from barnabas.server.dev_node import DevFiles

COUNT: Final = 2
STOP_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.1
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For work of a minute: what the JVM's better compiler and collector gain does not make up for what they cost."""
SETTINGS: Final = {
    "group.id": WORKERS,
    "connect.protocol": "sessioned",
    **{f"{kind}.storage.topic": f"{WORKERS}-{kind}" for kind in ("config", "offset", "status")},
    **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "key.converter": _STRING,
    "value.converter": _STRING,
    "listeners": "https://127.0.0.1:0",
    "listeners.https.ssl.keystore.type": "PEM",
    "listeners.https.ssl.truststore.type": "PEM",
    # As short as the node allows, and no wait for a worker that is gone: here nobody is to wait for the new owner.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
}


@dataclass
class Worker:
    """One worker. url, id: where it is reached, and what the group calls it; empty before it has joined."""

    number: int
    process: subprocess.Popen[bytes]
    ready_file: Path
    log: Path
    url: str = ""
    id: str = ""

    @property
    def lives(self) -> bool:
        """Say whether the process runs."""
        return self.process.poll() is None

    def look(self) -> bool:
        """Say whether it has joined its group; DemoError when it has ended instead."""
        if not self.lives:
            raise DemoError(f"Connect worker {self.number} has ended; the end of {self.log}:\n{tail(self.log)}")
        ready = _read(self.ready_file)
        self.url, self.id = ready.get("url", ""), ready.get("worker_id", "")
        return bool(self.id)

    def kill(self) -> None:
        """Kill it as no worker can notice: SIGKILL."""
        self.process.kill()
        self.process.wait()


@dataclass
class Workers:
    """Both. rest: how they are asked."""

    rest: Rest
    living: list[Worker] = field(default_factory=list)

    def joined(self) -> bool:
        """Say whether all are in their group; DemoError when one has ended."""
        there = [worker.look() for worker in self.living]
        return all(there)

    def kill(self, id: str) -> Worker:
        """Kill the one that the group calls so; give it."""
        victim = next(worker for worker in self.living if worker.id == id)
        victim.kill()
        self.living.remove(victim)
        return victim

    def end(self) -> None:
        """Tell all to stop: their tasks end at a batch boundary, and they leave the group."""
        for worker in self.living:
            if worker.lives:
                worker.process.terminate()

    def wait(self) -> None:
        """Wait until they have stopped, not for ever."""
        for worker in self.living:
            try:
                worker.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                worker.kill()
        self.living.clear()


@contextmanager
def running(folder: Folder, master: str, batch: int) -> Iterator[Workers]:
    """Give two workers that start; they are stopped in the end. master: Spark's; batch: records in a batch at most."""
    folder.workers.mkdir(mode=0o700, parents=True, exist_ok=True)
    rest = _rest(folder)
    settings = _settings(folder, rest, master, batch)
    workers = Workers(rest)
    try:
        for number in range(1, COUNT + 1):
            workers.living.append(_start(folder, number, settings))
        yield workers
    finally:
        workers.end()
        workers.wait()


def _start(folder: Folder, number: int, settings: Mapping[str, str]) -> Worker:
    file, ready_file, log = (folder.workers / f"worker-{number}.{kind}" for kind in ("properties", "ready.json", "log"))
    write_private(file, format_properties(settings).encode())
    path = os.pathsep.join(filter(None, [str(folder.workers / "plugin"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "barnabas.cli.main", "connect", str(file), "--ready-file", str(ready_file)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"JDK_JAVA_OPTIONS": _JVM, **os.environ, "PYTHONPATH": path},
        )
    return Worker(number, process, ready_file, log)


def _settings(folder: Folder, rest: Rest, master: str, batch: int) -> dict[str, str]:
    """Make what workers need and give the settings that they share; passwords stay in files of their own."""
    files, certificate, scratch = DevFiles(folder.node), folder.workers / "rest.pem", folder.workers / "scratch"
    rest.ensure_user()
    write_private(certificate, DevCa.load(files.directory / "ca.key.pem", files.ca).issue_server().store)
    plugin.install(folder.workers / "plugin")
    shutil.rmtree(scratch, ignore_errors=True)  # a worker that was killed has left its own
    scratch.mkdir()
    return {
        **SETTINGS,
        **_client_settings(folder.client_file(WORKER)),
        **{f"consumer.{key}": value for key, value in _client_settings(folder.client_file(READER)).items()},
        "consumer.max.poll.records": str(batch),
        "listeners.https.ssl.keystore.location": str(certificate),
        "listeners.https.ssl.truststore.location": str(files.ca),
        "barnabas.rest.users.file": str(rest.users),
        "barnabas.spark.master": master,
        "barnabas.spark.checkpoint.dir": str(scratch),
    }


def _client_settings(path: Path) -> dict[str, str]:
    return {
        key: f"${{file:{path}:{key}}}" if key == "sasl.password" else value
        for key, value in load_properties_file(path).items()
    }


def _rest(folder: Folder) -> Rest:
    return Rest(DevFiles(folder.node).ca, folder.workers / "users.properties")


def end_earlier(folder: Folder) -> None:
    """Kill workers that a run which was itself killed has left behind, where they still answer as such."""
    for ready_file in sorted(folder.workers.glob("worker-*.ready.json")):
        ready = _read(ready_file)
        deadline = time.monotonic() + _END_TIMEOUT_S
        while ready and _answers(ready["url"], _rest(folder)):
            if time.monotonic() > deadline:
                raise DemoError(f"a Connect worker of an earlier run, process {ready['pid']}, does not end: kill it")
            try:
                os.kill(ready["pid"], signal.SIGKILL)
            except ProcessLookupError:
                break
            time.sleep(_POLL_S)
        ready_file.unlink(missing_ok=True)


def _answers(url: str, rest: Rest) -> bool:
    try:
        return rest.ask(url, timeout_s=_END_TIMEOUT_S).status == 200
    except UnreachableError:
        return False


def _read(ready_file: Path) -> dict[str, Any]:
    """Give what a ready file says; nothing while there is none."""
    try:
        found: dict[str, Any] = json.loads(ready_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
