"""The socket that `barnabas sessions` speaks to: a file, so that the system says who may use it.

One line of JSON in, one out: `{"list": true}` gives `{"sessions": [...]}`; `{"expire": CONNECTION}` gives
`{"expired": true or false}`; what is not understood gives `{"error": ...}`. docs/decisions/sessions.md says why so.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.model.config import ConfigError
from barnabas.server.network.sessions import expire, sessions

if TYPE_CHECKING:
    from barnabas.server.network.listeners import ServedListener

log = structlog.get_logger("kafka.network.SocketServer")

KEY: Final = "barnabas.sessions.socket"
_OWNER_ONLY: Final = 0o600
_MAX_LINE_BYTES: Final = 4096


class SessionSocket:
    """Listens on a path until it is stopped."""

    def __init__(self, path: str, listeners: Sequence[ServedListener]) -> None:
        """path: of the file; listeners: a list that may still grow."""
        self._path = Path(path)
        self._listeners = listeners
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; ConfigError when it cannot be. What an earlier run left behind is replaced."""
        try:
            with suppress(FileNotFoundError):
                if not stat.S_ISSOCK(self._path.lstat().st_mode):
                    raise ConfigError(f"{KEY}={self._path}: there is something else of that name")
                self._path.unlink()
            before = os.umask(0o177)  # the file is nobody else's from its first moment on
            try:
                self._server = await asyncio.start_unix_server(self._serve, self._path, limit=_MAX_LINE_BYTES)
            finally:
                os.umask(before)
            self._path.chmod(_OWNER_ONLY)
        except OSError as e:
            raise ConfigError(f"{KEY}={self._path}: {e.strerror or e}") from None

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            writer.write(json.dumps(self._answer(line)).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError) as e:
            log.info("a request for sessions was not answered", why=str(e))
        finally:
            writer.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            wanted = json.loads(line)
        except ValueError:
            wanted = None
        match wanted:
            case {"list": True}:
                return {"sessions": [asdict(one) for one in sessions(self._listeners)]}
            case {"expire": str(connection)}:
                found = expire(self._listeners, connection)
                log.warning("session ended by hand", connection=connection, found=found)
                return {"expired": found}
            case _:
                return {"error": 'want {"list": true} or {"expire": "<connection>"}'}
