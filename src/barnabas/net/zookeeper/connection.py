"""One connection to one ZooKeeper server: frames, answers in the order of requests, watches that come between.

Requests are written without waiting for the answers of those before, so that as many as wanted are under way.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, cast

from kazoo.protocol import serialization as wire

from barnabas.core.zookeeper.errors import ConnectionLossError, error_for
from barnabas.net.zookeeper.requests import Request

if TYPE_CHECKING:
    import ssl

_INT: Final = struct.Struct("!i")
_HEAD: Final = struct.Struct("!iii")
"""Of a request: the size of what follows it, the xid, the type."""
_REPLY_HEAD: Final = struct.Struct("!iqi")
_WATCH_XID: Final = -1
_PING_XID: Final = -2
_SET_WATCHES_XID: Final = -8
_PING_TYPE: Final = 11
_SET_WATCHES_TYPE: Final = 101
_XIDS: Final = {_PING_TYPE: _PING_XID, _SET_WATCHES_TYPE: _SET_WATCHES_XID}
"""Of requests that have one that is always the same."""
_LAST_XID: Final = 0x7FFF_FFFF
MAX_ANSWER_BYTES: Final = 4 << 20
"""As Kafka lets ZooKeeper answer it (`jute.maxbuffer` of its clients)."""

OnWatch = Callable[[int, str], None]
"""Takes the number of what happened and the whole path."""
Accepted = Callable[[int], None]
"""Takes the number of the error, 0 for none, at the moment of the answer: before any watch of the same moment."""
Answer = tuple[int, bytes]
"""The number of the error, 0 for none, and what follows the header."""
_Taken = Callable[[int, bytes], None]


class Connection(asyncio.Protocol):
    """Use `open`. `lost` is done when the connection is gone; its result says why."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_watch: OnWatch, limit_bytes: int) -> None:
        self._loop = loop
        self._on_watch = on_watch
        self._limit_bytes = limit_bytes
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._outgoing: list[bytes] = []
        self._waiting: deque[tuple[int, _Taken]] = deque()
        self._hello: asyncio.Future[bytes] | None = None
        self._xid = 0
        self._why = ""
        self.lost: asyncio.Future[str] = loop.create_future()
        self.last_zxid = 0
        """The newest transaction that the server has told of."""
        self.written_at = self.heard_at = loop.time()

    @classmethod
    async def open(
        cls, host: str, port: int, tls: ssl.SSLContext | None, on_watch: OnWatch, limit_bytes: int = MAX_ANSWER_BYTES
    ) -> Connection:
        """Connect; OSError (and of it ssl.SSLError) when that does not come about."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(lambda: cls(loop, on_watch, limit_bytes), host, port, ssl=tls)
        return protocol

    async def hello(self, request: wire.Connect) -> wire.Connect:
        """Ask for a session, as the first thing; ConnectionLossError when the server hangs up."""
        self._hello = self._loop.create_future()
        body = request.serialize()
        self._write(_INT.pack(len(body)) + body)
        answer, _ = wire.Connect.deserialize(await self._hello, 0)
        return cast(wire.Connect, answer)

    def ask(self, request: Request, accepted: Accepted | None = None) -> asyncio.Future[bytes]:
        """Send a request; the answer is what follows its header, or a ZooKeeperError without a path."""
        answer: asyncio.Future[bytes] = self._loop.create_future()
        if self.lost.done():
            answer.set_exception(ConnectionLossError())
            return answer

        def taken(code: int, body: bytes) -> None:
            if accepted is not None:
                accepted(code)
            if answer.done():
                return
            if code:
                answer.set_exception(error_for(code))
                answer.exception()  # whoever has stopped waiting is not to be told by the collector
            else:
                answer.set_result(body)

        self._send(request.type, request.serialize(), taken, _XIDS.get(request.type))
        return answer

    def ask_all(self, kind: int, bodies: Iterable[bytes]) -> asyncio.Future[list[Answer]]:
        """Send many requests of one type; their answers, in their order. ConnectionLossError's number for the lost."""
        answered: asyncio.Future[list[Answer]] = self._loop.create_future()
        answers: list[Answer] = []
        asked = 0

        def taken(code: int, body: bytes) -> None:
            answers.append((code, body))
            if len(answers) == asked and not answered.done():
                answered.set_result(answers)

        for body in bodies:
            asked += 1
            if self.lost.done():
                answers.append((ConnectionLossError.code, b""))
            else:
                self._send(kind, body, taken)
        if len(answers) == asked:
            answered.set_result(answers)
        return answered

    def abort(self, why: str) -> None:
        """Give the connection up at once."""
        self._why = self._why or why
        if self._transport is not None:
            self._transport.abort()

    @property
    def outstanding(self) -> int:
        """How many answers are still to come."""
        return len(self._waiting)

    def _next_xid(self) -> int:
        self._xid = self._xid % _LAST_XID + 1
        return self._xid

    def _send(self, kind: int, body: bytes | bytearray, taken: _Taken, xid: int | None = None) -> None:
        xid = xid or self._next_xid()
        self._waiting.append((xid, taken))
        self._write(_HEAD.pack(_HEAD.size - _INT.size + len(body), xid, kind) + body)

    def _write(self, frame: bytes) -> None:
        # What is asked in one turn of the loop goes out together.
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(frame)

    def _flush(self) -> None:
        data, self._outgoing = b"".join(self._outgoing), []
        if self._transport is not None and not self._transport.is_closing():
            self.written_at = self._loop.time()
            self._transport.write(data)

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        why = self._why or (str(exc) if exc else "the server closed the connection")
        if not self.lost.done():
            self.lost.set_result(why)
        while self._waiting:
            self._waiting.popleft()[1](ConnectionLossError.code, b"")
        if self._hello is not None and not self._hello.done():
            self._hello.set_exception(ConnectionLossError())
            self._hello.exception()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self.heard_at = self._loop.time()
        self._received += data
        at, held = 0, self._received
        while len(held) - at >= _INT.size:
            (size,) = _INT.unpack_from(held, at)
            if not 0 <= size <= self._limit_bytes:
                self.abort(f"an answer of {size} bytes; {self._limit_bytes} are allowed")
                return
            if len(held) - at - _INT.size < size:
                break
            at += _INT.size + size
            try:
                self._frame(bytes(held[at - size : at]))
            except (struct.error, ValueError) as e:
                self.abort(f"an answer that is none: {e}")
            if self._why:
                return
        del held[:at]

    def _frame(self, frame: bytes) -> None:
        if self._hello is not None:
            if not self._hello.done():
                self._hello.set_result(frame)
            self._hello = None
            return
        xid, zxid, code = _REPLY_HEAD.unpack_from(frame)
        if xid == _WATCH_XID:
            event, _ = wire.Watch.deserialize(frame, _REPLY_HEAD.size)
            self._on_watch(event.type, event.path)
            return
        self.last_zxid = max(self.last_zxid, zxid)
        if not self._waiting or self._waiting[0][0] != xid:
            self.abort(f"an answer to request {xid}, which is not the next one")
            return
        self._waiting.popleft()[1](code, frame[_REPLY_HEAD.size :])
