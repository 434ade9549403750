"""One connection as frames in and buffers out, over uvloop (design D4).

Bytes are received into one buffer and handed on as views of it, so that a frame is parsed where it lies: a view is
valid only until the receiver returns. Answers go out by `net.outgoing`; while one waits for the peer to read, no
further frame is delivered. Nothing here knows what a frame means.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from barnabas.net.outgoing import Outgoing, Part, PlainOutgoing, TlsOutgoing
from barnabas.wire.errors import ProtocolError

_LENGTH: Final = struct.Struct(">i")
INITIAL_BUFFER_BYTES: Final = 8 * 1024
READ_AHEAD_BYTES: Final = 256 * 1024
"""How much a held connection may receive before its socket is no longer read."""

UNSEEN_BYTES: Final = 64 * 1024
"""The most memory that is taken for a frame of which less than a quarter has come."""


class ReceiveBudget:
    """How many bytes of requests may be in memory at once (`queued.max.request.bytes`), over all connections.

    As in Kafka a request is let in while anything is left, so the bound is passed by one request at most.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def left(self) -> int:
        """Give what is left; below nothing while the last request goes over."""
        return self._left

    def take(self, size: int, when_room: Callable[[], None]) -> bool:
        """Take `size` bytes; when nothing is left, remember `when_room` and say False."""
        if self._left <= 0:
            self._waiting.append(when_room)
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        """Give them back, and wake who waited."""
        self._left += size
        while self._waiting and self._left > 0:
            self._waiting.popleft()()


class Receiver(Protocol):
    """What a connection's owner does with frames."""

    def max_frame_bytes(self) -> int:
        """Give the largest frame that may be taken now."""
        ...

    def connected(self, connection: FramedConnection) -> None:
        """Learn the connection, once it stands (after the TLS handshake, if there is one)."""
        ...

    def frame(self, frame: memoryview) -> None:
        """Take one whole frame, without its length; the view is valid until this returns."""
        ...

    def disconnected(self, reason: str) -> None:
        """Learn that the connection is gone, and why; "" when the peer just closed it."""
        ...


class FramedConnection(asyncio.BufferedProtocol):
    """A connection that speaks length-prefixed frames."""

    def __init__(
        self,
        receiver: Receiver,
        loop: asyncio.AbstractEventLoop,
        *,
        tls: bool,
        budget: ReceiveBudget | None = None,
    ) -> None:
        self._receiver = receiver
        self._loop = loop
        self._tls = tls
        self._budget = budget
        self._taken = 0
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(INITIAL_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._holds = 0
        self._reading = True
        self._delivering = False
        self._outgoing = Outgoing(loop, drained=self._drained, failed=self._cannot_send)
        self._closing = False
        self.reason = ""
        self.when_sent: Callable[[], None] | None = None
        """Called once, when all that waits has gone out, or never will."""
        self.last_active = loop.time()
        self.peer: tuple[str, int] = ("", 0)

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.peer = (peer[0], peer[1])
        ends: tuple[Callable[[], None], Callable[[str], None]] = self._drained, self._cannot_send
        if self._tls:
            self._outgoing = TlsOutgoing(self._transport, self._loop, drained=ends[0], failed=ends[1])
        else:
            fd = transport.get_extra_info("socket").fileno()
            self._outgoing = PlainOutgoing(fd, self._loop, drained=ends[0], failed=ends[1])
        self._receiver.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the loop: where the next bytes go."""
        if self._end == len(self._buffer):
            self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: so many bytes have come."""
        self._end += nbytes
        self.last_active = self._loop.time()
        if self._holds or self._outgoing.waiting:
            if self._end - self._start > READ_AHEAD_BYTES:
                self._read(False)
            return
        self._deliver()

    def eof_received(self) -> bool:
        """Called by the loop: the peer sends no more; let the transport close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: it is over."""
        self._closing = True
        self._outgoing.close()
        self._tell_sent()
        self._give_back()
        self._receiver.disconnected(self.reason or (str(exc) if exc else ""))

    def pause_writing(self) -> None:
        """Called by the loop (TLS): enough is waiting to be sent."""
        if isinstance(self._outgoing, TlsOutgoing):
            self._outgoing.pause()

    def resume_writing(self) -> None:
        """Called by the loop (TLS): there is room again."""
        if isinstance(self._outgoing, TlsOutgoing):
            self._outgoing.resume()

    # --- the owner's side

    @property
    def transport(self) -> asyncio.Transport:
        """Give the transport, for what only it knows (the TLS session)."""
        assert self._transport is not None
        return self._transport

    @property
    def closing(self) -> bool:
        """Say whether the connection is gone or about to be."""
        return self._closing

    def hold(self) -> None:
        """Deliver no frame until `release`; holds count."""
        self._holds += 1

    def release(self) -> None:
        """Take one hold back; frames that came meanwhile are delivered in a later turn of the loop."""
        self._holds -= 1
        if not self._holds and not self._closing and (self._end > self._start or not self._reading):
            self._loop.call_soon(self._continue)

    def send(self, parts: Sequence[Part]) -> bool:
        """Send an answer, in order; an answer that cannot be sent at once waits, and so do further frames.

        Says whether it has gone out, or never will: nothing is sent to a connection that is being closed.
        """
        if self._closing:
            return True
        self._outgoing.send(parts)
        return not self._outgoing.waiting

    def close(self, reason: str) -> None:
        """Close once everything has been sent; `reason` reaches the owner."""
        if self._closing:
            return
        self._closing = True
        self.reason = reason
        if not self._outgoing.waiting and self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once."""
        self._closing = True
        self.reason = self.reason or reason
        if self._transport is not None:
            self._transport.abort()

    def shrink(self) -> None:
        """Give a large receive buffer back when nothing lies in it."""
        if self._start == self._end and len(self._buffer) > INITIAL_BUFFER_BYTES and not self._delivering:
            self._replace_buffer(INITIAL_BUFFER_BYTES)

    # --- receiving

    def _continue(self) -> None:
        if self._holds or self._outgoing.waiting or self._closing:
            return
        self._deliver()
        if not self._holds and not self._outgoing.waiting:
            self._read(True)

    def _read(self, wanted: bool) -> None:
        if wanted != self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._end - self._start >= 4 and not (self._holds or self._outgoing.waiting or self._closing):
                (size,) = _LENGTH.unpack_from(self._view, self._start)
                if size < 0 or size > self._receiver.max_frame_bytes():
                    raise ProtocolError(
                        f"frame of {size} bytes; at most {self._receiver.max_frame_bytes()} are taken here"
                    )
                begin = self._start + 4
                if self._budget is not None and not self._taken and not self._take(size):
                    break
                if self._end - begin < size:
                    self._want(size + 4)
                    break
                self._start = begin + size
                self._receiver.frame(self._view[begin : self._start])
                self._give_back()
        except ProtocolError as e:
            self.abort(str(e))
        finally:
            self._delivering = False
        if self._start == self._end:
            self._start = self._end = 0

    def _take(self, size: int) -> bool:
        assert self._budget is not None
        if not self._budget.take(size, self.release):
            self.hold()
            self._read(False)
            return False
        self._taken = size
        return True

    def _give_back(self) -> None:
        if self._budget is not None and self._taken:
            taken, self._taken = self._taken, 0
            self._budget.give(taken)

    def _want(self, size: int) -> None:
        """Make room for a frame of `size` bytes from where it starts, little at first: a peer that announces much and
        sends nothing is to cost next to nothing, whoever it is."""
        size = min(size, max(UNSEEN_BYTES, 4 * (self._end - self._start)))
        if len(self._buffer) - self._start >= size:
            return
        if len(self._buffer) >= size:
            self._compact()
        else:
            self._replace_buffer(size)

    def _make_room(self) -> None:
        if self._start:
            self._compact()
        else:
            self._replace_buffer(2 * len(self._buffer))

    def _compact(self) -> None:
        length = self._end - self._start
        self._view[:length] = bytes(self._view[self._start : self._end])
        self._start, self._end = 0, length

    def _replace_buffer(self, size: int) -> None:
        length = self._end - self._start
        fresh = bytearray(size)
        view = memoryview(fresh)
        view[:length] = self._view[self._start : self._end]
        self._buffer, self._view = fresh, view
        self._start, self._end = 0, length

    # --- sending

    def _drained(self) -> None:
        """All that waited has gone out: close if that was wanted, or go on with what came meanwhile."""
        self.last_active = self._loop.time()
        self._tell_sent()
        if not self._closing:
            self._loop.call_soon(self._continue)
        elif self._transport is not None:
            self._transport.close()

    def _tell_sent(self) -> None:
        if self.when_sent is not None:
            told, self.when_sent = self.when_sent, None
            told()

    def _cannot_send(self, why: str) -> None:
        self.abort(why)
