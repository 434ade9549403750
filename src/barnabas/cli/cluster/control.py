"""How another terminal speaks to the process that runs a cluster: a socket in its directory, a line each way."""

from __future__ import annotations

import json
import os
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.cli.errors import CliError

_SOCKET: Final = "control.sock"
_LONGEST: Final = 100
"""Bytes that a socket's path may have; a longer one lies in the directory for temporary files, named in a file."""
_ANSWER_SECONDS: Final = 180


class Answer(NamedTuple):
    """What came of a command. rows: for a table; error: why it was refused, empty when it was not."""

    text: str = ""
    rows: list[dict[str, Any]] | None = None
    error: str = ""


Handler = Callable[[list[str]], Answer]


class ControlServer:
    """Takes commands from other terminals, each on a thread of its own."""

    def __init__(self, directory: Path, handle: Handler) -> None:
        self._pointer = directory / _SOCKET
        self._pointer.unlink(missing_ok=True)
        path, self._temporary = self._pointer, None
        if len(os.fsencode(path)) > _LONGEST:
            self._temporary = tempfile.mkdtemp(prefix="barnabas-")
            path = Path(self._temporary) / _SOCKET
            self._pointer.symlink_to(path)

        class _Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline()
                if line:
                    self.wfile.write(json.dumps(handle(json.loads(line))).encode() + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(str(path), _Connection)
        self._server.daemon_threads = True
        path.chmod(0o600)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()
        self._pointer.unlink(missing_ok=True)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def ask(directory: Path, words: list[str]) -> Answer:
    """Have the process that runs the cluster in a directory do something; CliError when none does, or it refuses."""
    path = (directory / _SOCKET).resolve()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(words).encode() + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline()
        except OSError:
            raise CliError(f"The cluster in {directory} takes no commands now: it is starting or stopping.") from None
    if not line:
        raise CliError(f"The process that runs the cluster in {directory} ended before it answered.")
    answer = Answer(*json.loads(line))
    if answer.error:
        raise CliError(answer.error)
    return answer
