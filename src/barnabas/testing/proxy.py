"""A TCP proxy that makes a network bad: it holds bytes back, delays them, narrows the way, and cuts connections.

What a real network does to TCP is what happens here: while a way is held nothing gets through, and when it opens again
everything does, in order; a connection that is made meanwhile just does not get on. Only `cut` and `reset` end
connections. Where nobody listens, connections are refused: the one that finds that out is ended, and then the proxy
does not listen either until somebody does.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

_FRAME_SIZE: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">hhi")
_CORRELATION: Final = struct.Struct(">i")
_TLS_HANDSHAKE: Final = 0x16
_LOOK_S: Final = 0.05
"""Between two looks whether a target that refused connections takes them again."""


class Way:
    """The way of bytes from one party to another, over whichever connections. Everything may be changed at any time."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.bytes_per_s = 0.0
        """0 for no limit."""
        self._held = False
        self._free_at = 0.0
        self._ends: set[_End] = set()

    @property
    def held(self) -> bool:
        """Say whether nothing gets through."""
        return self._held

    def hold(self) -> None:
        """Let nothing through until `release`."""
        self._held = True
        for end in self._ends:
            end.update_reading()

    def release(self) -> None:
        """Let everything through again, what was held first."""
        self._held = False
        for end in tuple(self._ends):
            end.flush()
            end.update_reading()

    def due(self, now: float, size: int) -> float:
        """Give when bytes that came in now are to be passed on."""
        if not self.bytes_per_s:
            return now + self.delay_s
        self._free_at = max(self._free_at, now) + size / self.bytes_per_s
        return self._free_at + self.delay_s

    def enter(self, end: _End) -> None:
        """Take in one side of a connection."""
        self._ends.add(end)

    def leave(self, end: _End) -> None:
        """Forget it."""
        self._ends.discard(end)


@dataclass(slots=True)
class Cut:
    """End the connection at a request: before it is delivered, or after it was served, when its answer comes back.

    api_key: -1 for any. count: so many that match are left in peace before. done: it has happened.
    """

    api_key: int
    count: int
    answered: bool
    done: bool = False

    def matches(self, api_key: int) -> bool:
        """Say whether this request is the one."""
        if self.done or self.api_key not in (-1, api_key):
            return False
        self.count -= 1
        return self.count < 0


class Link(Protocol):
    """What the proxy asks of those who know who is who."""

    out: Way
    back: Way
    cuts: list[Cut]

    def entered(self, connection: Connection) -> None:
        """A connection of this link begins."""

    def left(self, connection: Connection) -> None:
        """It has ended."""


class _Frames:
    """Finds the frames in a stream. Bytes that are not whole frames yet wait here."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer += data
        found = []
        while len(self._buffer) >= _FRAME_SIZE.size:
            whole = _FRAME_SIZE.size + _FRAME_SIZE.unpack_from(self._buffer)[0]
            if len(self._buffer) < whole:
                break
            found.append(bytes(self._buffer[:whole]))
            del self._buffer[:whole]
        return found


class _End(asyncio.Protocol):
    """One side of a connection: what it receives goes over its way to the other side."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._other_is_full = False
        self.way: Way | None = None
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's transports are not subclasses
        self._connection.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._connection.is_over:
            return
        for part in self._connection.passed(self, data):
            self._send(part)

    def eof_received(self) -> bool:
        self._send(None)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if not self._connection.is_over:
            self._send(None)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.block(full=True)

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.block(full=False)

    def block(self, *, full: bool) -> None:
        """The other side takes nothing more for now, or again."""
        self._other_is_full = full
        self.update_reading()

    def update_reading(self) -> None:
        """Read from the socket only what can be passed on: held bytes belong into the kernel's buffers."""
        if self.transport is None or self.transport.is_closing():
            return
        if self._other_is_full or self.way is None or self.way.held:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def join(self, way: Way, other: _End) -> None:
        """Begin to pass on."""
        self.way, self.other = way, other
        way.enter(self)
        self.flush()
        self.update_reading()

    def abort(self) -> None:
        """End the connection on this side, at once."""
        if self._timer is not None:
            self._timer.cancel()
        self._queue.clear()
        if self.transport is not None:
            self.transport.abort()

    def leave(self) -> None:
        """Pass nothing on any more."""
        if self.way is not None:
            self.way.leave(self)
            self.way = None

    def flush(self) -> None:
        """Pass on what is due."""
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._queue and self.way is not None and not self.way.held:
            due, data = self._queue[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self.flush)
                return
            self._queue.popleft()
            self._deliver(data)

    def _send(self, data: bytes | None) -> None:
        if self.way is None or self.way.held or self._queue or self.way.delay_s or self.way.bytes_per_s:
            due = self.way.due(asyncio.get_running_loop().time(), len(data or b"")) if self.way is not None else 0.0
            self._queue.append((due, data))
            if self._timer is None:
                self.flush()
        else:
            self._deliver(data)

    def _deliver(self, data: bytes | None) -> None:
        if data is None:
            self._connection.end_of(self)
        elif self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)


class Connection:
    """One connection through the proxy: a side towards who made it, and one towards the target."""

    def __init__(
        self, identify: Callable[[tuple[str, int]], Link], target: tuple[str, int], refused: Callable[[], None]
    ) -> None:
        """refused: told when nobody listens at the target."""
        self._identify = identify
        self._target = target
        self._refused = refused
        self._link: Link | None = None
        self._near = _End(self)
        self._far = _End(self)
        self._requests, self._answers = _Frames(), _Frames()
        self._framed: bool | None = None
        self._cut_at: tuple[Cut, int] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._over = False

    @property
    def is_over(self) -> bool:
        """Say whether nothing is passed on any more."""
        return self._over

    @property
    def near(self) -> asyncio.Protocol:
        """Give the protocol for the accepted side."""
        return self._near

    def opened(self, end: _End) -> None:
        """A side is connected."""
        if end is self._near and self._near.transport is not None:
            self._near.transport.pause_reading()
            self._link = self._identify(self._near.transport.get_extra_info("peername"))
            self._link.entered(self)
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._far, *self._target)
        except OSError as e:
            self.abort()
            if isinstance(e, ConnectionRefusedError):
                self._refused()
            return
        if self._over:
            self.abort()
        elif self._link is not None:
            self._near.join(self._link.out, self._far)
            self._far.join(self._link.back, self._near)

    def passed(self, end: _End, data: bytes) -> list[bytes | None]:
        """Give what is to be passed on of `data`, None for the end of the connection.

        Whole frames where frames can be seen, so that one can be cut.
        """
        if self._framed is None:
            # TLS cannot be looked into; a Kafka frame's size never begins with this byte.
            self._framed = data[:1] != bytes([_TLS_HANDSHAKE])
        if not self._framed or self._link is None:
            return [data]
        parts: list[bytes | None] = []
        for frame in (self._requests if end is self._near else self._answers).feed(data):
            if self._is_cut(end, frame):
                self._framed = False
                return [*parts, None]
            parts.append(frame)
        return parts

    def _is_cut(self, end: _End, frame: bytes) -> bool:
        assert self._link is not None
        if end is self._far:
            answered = _CORRELATION.unpack_from(frame, _FRAME_SIZE.size)[0]
            if self._cut_at is not None and self._cut_at[1] == answered:
                self._cut_at[0].done = True
                return True
            return False
        api_key, _, correlation_id = _REQUEST_HEAD.unpack_from(frame, _FRAME_SIZE.size)
        cut = next((c for c in self._link.cuts if c.matches(api_key)), None)
        if cut is None:
            return False
        self._link.cuts.remove(cut)
        if cut.answered:
            self._cut_at = (cut, correlation_id)
            return False
        cut.done = True
        return True

    def end_of(self, end: _End) -> None:
        """A side has said its last, and it got through: close the other once that has sent everything."""
        other = end.other
        if other is not None and other.transport is not None:
            other.transport.close()
        if end.transport is not None:
            end.transport.close()
        self._finish()

    def abort(self) -> None:
        """End both sides at once."""
        self._near.abort()
        self._far.abort()
        self._finish()

    def _finish(self) -> None:
        if not self._over:
            self._over = True
            self._near.leave()
            self._far.leave()
            if self._link is not None:
                self._link.left(self)


class Proxy:
    """Listens for one target. identify: gives, from a peer's address, the link that the connection belongs to."""

    def __init__(
        self, listen: tuple[str, int], target: tuple[str, int], identify: Callable[[tuple[str, int]], Link]
    ) -> None:
        self._listen = listen
        self._target = target
        self._identify = identify
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._identify, self._target, self._refused).near, *self._listen, backlog=512
        )

    async def stop(self) -> None:
        """Listen no more; connections stay until somebody ends them."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _refused(self) -> None:
        if self._server is not None:
            self._close()
            self._watch = asyncio.get_running_loop().create_task(self._listen_again())

    async def _listen_again(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if await self._is_there():
                break
        self._watch = None
        await self.start()

    async def _is_there(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(*self._target)
        except OSError:
            return False
        writer.close()
        return True
