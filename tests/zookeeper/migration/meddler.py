"""A proxy before a ZooKeeper server that holds a client's changes back at some point, and ends sessions."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Final, Self, TypeVar

from barnabas.testing.ports import HOST, free_ports

T = TypeVar("T")
_SET_ACL: Final = 7
_CLOSE: Final = -11
_WAIT_S: Final = 120.0
_SIZE: Final = struct.Struct("!i")
_HEAD: Final = struct.Struct("!ii")
_CONNECT: Final = struct.Struct("!iqiqi16s")
_ANSWER: Final = struct.Struct("!iiqi")


class Meddler:
    """Use as a context manager. It lets `changes` requests to set an ACL through, and holds the next one back.

    port: where clients go; held: set when one is held back; sessions: ids that clients were given, in order.
    """

    def __init__(self, server_port: int, changes: int) -> None:
        (self.port,) = free_ports(1)
        self.held = threading.Event()
        self.sessions: list[int] = []
        self._server_port = server_port
        self._left = changes
        self._open = asyncio.Event()
        self._welcome = asyncio.Event()
        self._welcome.set()
        self._passwords: dict[int, bytes] = {}
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="meddler")

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, HOST, self.port))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self) -> None:
        """Wait until a change is held back."""
        assert self.held.wait(_WAIT_S), "no change came"

    def let_go(self) -> None:
        """Let what is held back through, and all that follows."""
        self._loop.call_soon_threadsafe(self._open.set)

    def end_session(self) -> list[int]:
        """Have the server end the oldest session, and cut all connections; what follows is let through.

        Give the sessions until then.
        """
        return self._call(self._end_session())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            await self._welcome.wait()
            to_reader, to_writer = await asyncio.open_connection(HOST, self._server_port)
            ends.append(to_writer)
            self._writers += ends
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(reader, to_writer))
                both.create_task(self._answers(to_reader, writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for one in ends:
                one.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = True
        while True:
            frame = await _frame(reader)
            if not first and _HEAD.unpack_from(frame)[1] == _SET_ACL and not self._open.is_set():
                if not self._left:
                    self.held.set()
                    await self._open.wait()
                self._left -= 1
            first = False
            writer.write(_SIZE.pack(len(frame)) + frame)
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await _frame(reader)
        _, _, session, size = _ANSWER.unpack_from(hello)
        if session:  # 0 says that the one that was asked for has expired
            self.sessions.append(session)
        self._passwords[session] = hello[20 : 20 + size]
        writer.write(_SIZE.pack(len(hello)) + hello)
        while True:
            writer.write(await _some(reader))
            await writer.drain()

    async def _end_session(self) -> list[int]:
        self._welcome.clear()  # else the client would come back and take its session over again
        for one in self._writers:
            one.transport.abort()
        before = list(self.sessions)
        while await self._close(before[0]):
            pass
        self._open.set()
        self._welcome.set()
        return before

    async def _close(self, session: int) -> bool:
        """Close a session, and say whether there was one: whoever comes with its id and password takes it over."""
        reader, writer = await asyncio.open_connection(HOST, self._server_port)
        try:
            hello = _CONNECT.pack(0, 0, 30_000, session, 16, self._passwords[session])
            writer.write(_SIZE.pack(len(hello)) + hello)
            if not _ANSWER.unpack_from(await _frame(reader))[2]:
                return False
            writer.write(_SIZE.pack(_HEAD.size) + _HEAD.pack(1, _CLOSE))
            await _frame(reader)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
        return True

    async def _stop(self) -> None:
        self._server.close()
        self._open.set()
        self._welcome.set()
        for one in self._writers:
            one.transport.abort()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    return await reader.readexactly(size)


async def _some(reader: asyncio.StreamReader) -> bytes:
    data = await reader.read(65536)
    if not data:
        raise asyncio.IncompleteReadError(b"", None)
    return data
