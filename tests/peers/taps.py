"""Proxies that pass everything on and write down what was asked: of ZooKeeper, and of brokers without encryption."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Collection, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar

from barnabas.testing.ports import HOST, free_ports

T = TypeVar("T")
_WAIT_S: Final = 60
_INT: Final = struct.Struct("!i")
_HEAD: Final = struct.Struct("!ii")
_WELCOME: Final = struct.Struct("!iiq")
_STEP: Final = struct.Struct("!i?i")
_REQUEST: Final = struct.Struct("!hhih")

CREATE, DELETE, SET_DATA, SET_ACL, CHECK, MULTI = "create", "delete", "setData", "setACL", "check", "multi"
WRITES: Final = frozenset({CREATE, DELETE, SET_DATA, SET_ACL})
_NAMES: Final = {
    1: CREATE, 2: DELETE, 3: "exists", 4: "getData", 5: SET_DATA, 6: "getACL", 7: SET_ACL, 8: "getChildren",
    9: "sync", 12: "getChildren2", 13: CHECK, 14: MULTI, 15: CREATE, 19: CREATE, 21: CREATE,
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """What a session asked of ZooKeeper; operations of a multi stand one by one. path: with the chroot."""

    name: str
    path: str
    session: int

    @property
    def writes(self) -> bool:
        """Say whether it changes a znode."""
        return self.name in WRITES


@dataclass(frozen=True)
class Request:
    """What a client or another broker asked of a broker."""

    api_key: int
    version: int
    client_id: str


class _Reader(Protocol):
    """Reads one connection."""

    def asked(self, frame: bytes) -> None:
        """A frame went to the server."""

    def answered(self, frame: bytes) -> None:
        """A frame came from it."""


class _ZooKeeperReader:
    def __init__(self, found: list[Operation]) -> None:
        self._found = found
        self._greeted = False
        self._session = 0

    def asked(self, frame: bytes) -> None:
        if not self._greeted:
            self._greeted = True
            return
        _, kind = _HEAD.unpack_from(frame)
        if kind in _NAMES:
            self._found += [Operation(name, path, self._session) for name, path in _operations(kind, frame)]

    def answered(self, frame: bytes) -> None:
        if not self._session:
            _, _, self._session = _WELCOME.unpack_from(frame)


class _KafkaReader:
    def __init__(self, found: list[Request]) -> None:
        self._found = found

    def asked(self, frame: bytes) -> None:
        api_key, version, _, size = _REQUEST.unpack_from(frame)
        name = frame[_REQUEST.size : _REQUEST.size + max(size, 0)].decode()
        self._found.append(Request(api_key, version, name))

    def answered(self, frame: bytes) -> None:
        pass


def _operations(kind: int, frame: bytes) -> Iterator[tuple[str, str]]:
    if _NAMES[kind] != MULTI:
        yield _NAMES[kind], _text(frame, _HEAD.size)[0]
        return
    at = _HEAD.size
    while True:
        step, done, _ = _STEP.unpack_from(frame, at)
        if done:
            return
        path, at = _text(frame, at + _STEP.size)
        yield _NAMES[step], path
        at = _after(step, frame, at)


def _after(step: int, frame: bytes, at: int) -> int:
    """Give where an operation of a multi ends whose path ends at `at`."""
    name = _NAMES[step]
    if name in (CREATE, SET_DATA):
        at = _skip(frame, at)
    if name == CREATE:
        (count,) = _INT.unpack_from(frame, at)
        at += _INT.size
        for _ in range(count):
            at = _skip(frame, _skip(frame, at + _INT.size))
        at += 8 if step == 21 else 0  # how long it lives
    return at + _INT.size  # a version, or the flags


def _text(frame: bytes, at: int) -> tuple[str, int]:
    end = _skip(frame, at)
    return frame[at + _INT.size : end].decode(), end


def _skip(frame: bytes, at: int) -> int:
    size: int = _INT.unpack_from(frame, at)[0]
    return at + _INT.size + max(size, 0)


class Tap:
    """One way in. port: where to connect to instead of the server."""

    def __init__(self, target: int) -> None:
        self._target = target
        (self.port,) = free_ports(1)

    def reader(self) -> _Reader:
        """Give who reads a new connection."""
        raise NotImplementedError

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes and goes until one side ends it."""
        ends = [writer]
        taken = self.reader()
        try:
            from_server, to_server = await asyncio.open_connection(HOST, self._target)
            ends.append(to_server)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass(reader, to_server, taken.asked))
                both.create_task(_pass(from_server, writer, taken.answered))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for one in ends:
                one.transport.abort()


class ZooKeeperTap(Tap):
    """Before a server of ZooKeeper. operations: in the order in which they came."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.operations: list[Operation] = []

    def reader(self) -> _Reader:
        """Give who reads a new connection."""
        return _ZooKeeperReader(self.operations)

    def forget(self) -> None:
        """Forget what was."""
        self.operations.clear()

    def writes(self, chroot: str, below: Collection[str]) -> list[Operation]:
        """Give who changed what, of these paths and below."""
        tops = [f"{chroot}{path}" for path in below]
        return [
            one
            for one in tuple(self.operations)
            if one.writes and any(one.path == top or one.path.startswith(f"{top}/") for top in tops)
        ]


class KafkaTap(Tap):
    """Before a broker's listener. requests: in the order in which they came."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.requests: list[Request] = []

    def reader(self) -> _Reader:
        """Give who reads a new connection."""
        return _KafkaReader(self.requests)

    def forget(self) -> None:
        """Forget what was."""
        self.requests.clear()


class Taps:
    """Runs taps in a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="taps")
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, tap: Tap) -> None:
        """Let clients in."""
        self._servers.append(self._call(asyncio.start_server(tap.serve, HOST, tap.port)))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)  # whom it has let in by now is being served after it
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a transport that is aborted closes its socket in the next turn


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Any) -> None:
    while True:
        size = await reader.readexactly(_INT.size)
        frame = await reader.readexactly(_INT.unpack(size)[0])
        seen(frame)
        writer.write(size + frame)
        await writer.drain()
