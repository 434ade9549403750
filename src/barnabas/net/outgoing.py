"""What a connection has yet to send, in order: bytes and stretches of files, never more in memory than a chunk.

Plaintext goes straight to the socket, stretches of files by `sendfile`. TLS goes through the transport a chunk at a
time, the next one when the last one is nearly sent, so that a client that does not read costs a chunk and not an
answer. What is not in the page cache is read by a thread first: the loop never waits for a disk
(docs/decisions/cold_reads.md).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeGuard, cast

from barnabas.wire.primitives import Records

MAX_IOV: Final = 512
SENDFILE_BYTES: Final = 1024 * 1024
"""How much of a file one `sendfile` takes, and one look at the page cache stands for."""
TLS_CHUNK_BYTES: Final = 256 * 1024
COPIED_BYTES: Final = 16 * 1024
"""A stretch up to this is cheaper read and sent with what stands around it than by a `sendfile` of its own."""
PAGE_BYTES: Final = 4096


class FileRegion(Protocol):
    """A stretch of a file that stands for its bytes: the shape of `storage.file_region.FileRegion`."""

    @property
    def position(self) -> int:
        """Where the stretch begins in the file."""
        ...

    def fileno(self) -> int:
        """Give the descriptor to read from; open as long as the region lives."""
        ...

    def read(self) -> bytes:
        """Give the bytes themselves."""
        ...

    def __len__(self) -> int: ...


Part = Records
"""A piece of an answer: bytes, or a region of a file."""
Bytes = bytes | bytearray | memoryview


def is_region(part: Part) -> TypeGuard[FileRegion]:
    """Say whether a part is a file's (every `Region` that reaches a connection is one)."""
    return not isinstance(part, Bytes)


class Outgoing:
    """The queue of one connection. waiting: whether anything is left that could not be sent at once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, drained: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        """drained: called when nothing is left any more; failed: called with the reason when nothing more can go."""
        self._loop = loop
        self._drained = drained
        self._failed = failed
        self._parts: deque[Part] = deque()
        self._region_at = 0
        self._reading = False
        self._closed = False
        self.waiting = False

    def send(self, parts: Sequence[Part]) -> None:
        """Send, after what is left."""
        self._parts.extend([part for part in parts if len(part)])
        if not self.waiting:
            self._flush()

    def close(self) -> None:
        """Forget what is left: the connection is gone."""
        self._closed = True
        self._parts.clear()

    def _flush(self) -> None:
        """Send what can be sent now: nothing, while there is no connection yet."""

    def _later(self) -> None:
        """Go on where `_flush` left off."""
        if not self._closed:
            self._flush()
            if not self.waiting:
                self._drained()

    def _in_thread(self, region: FileRegion, length: int) -> None:
        """Read what the page cache lacks, then go on; `region` stays open meanwhile."""
        self._reading = True
        position = region.position + self._region_at
        work = self._loop.run_in_executor(None, _read, region, position, length)
        work.add_done_callback(self._was_read)

    def _was_read(self, work: asyncio.Future[bytes]) -> None:
        self._reading = False
        if self._closed or work.cancelled():
            return
        error = work.exception()
        if error is not None:
            self._failed(f"cannot read what is to be sent: {error}")
            return
        self._take(work.result())
        self._later()

    def _take(self, data: bytes) -> None:
        """Learn what a thread has read at the place where the first region goes on."""


class PlainOutgoing(Outgoing):
    """Writes to the socket itself."""

    def __init__(
        self, fd: int, loop: asyncio.AbstractEventLoop, *, drained: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        super().__init__(loop, drained=drained, failed=failed)
        self._fd = fd
        self._socket: socket.socket | None = None
        self._warm_to = -1

    def send(self, parts: Sequence[Part]) -> None:
        """Send, after what is left; most answers are one piece, which the socket takes whole."""
        if len(parts) == 1 and not self.waiting and isinstance(parts[0], bytes):
            answer = parts[0]
            try:
                sent = os.write(self._fd, answer) if answer else 0
            except BlockingIOError:
                sent = 0
            except OSError as e:
                self._failed(f"cannot send: {e}")
                return
            if sent == len(answer):
                return
            parts = [memoryview(answer)[sent:]]
        super().send(parts)

    def close(self) -> None:
        """Forget what is left, and the socket."""
        super().close()
        self._fd = -1
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _flush(self) -> None:
        parts = self._parts
        try:
            while parts:
                sent_all = self._send_region() if is_region(parts[0]) else self._send_buffers()
                if not sent_all:
                    self.waiting = True
                    if not self._reading:
                        self._loop.add_writer(self._duplicate().fileno(), self._writable)
                    return
        except OSError as e:
            self._failed(f"cannot send: {e}")
            return
        self.waiting = False

    def _send_buffers(self) -> bool:
        batch: list[Bytes] = []
        more = False
        for i, part in enumerate(self._parts):
            if not isinstance(part, Bytes):
                copied = _copied(cast("FileRegion", part))
                if copied is None:
                    more = True
                    break
                self._parts[i] = part = copied
            batch.append(part)
            if len(batch) == MAX_IOV:
                break
        try:
            if more:
                sent = self._duplicate().sendmsg(batch, (), socket.MSG_MORE)
            elif len(batch) == 1:
                sent = os.write(self._fd, batch[0])
            else:
                sent = os.writev(self._fd, batch)
        except BlockingIOError:
            return False
        return self._drop(sent)

    def _drop(self, sent: int) -> bool:
        """Forget `sent` bytes; say whether they ended where a part ends."""
        parts = self._parts
        while sent:
            part = parts[0]
            if sent < len(part):
                parts[0] = memoryview(cast("bytes", part))[sent:]
                return False
            sent -= len(part)
            parts.popleft()
        return True

    def _send_region(self) -> bool:
        region = cast("FileRegion", self._parts[0])
        fd = region.fileno()
        if fd < 0:  # not in a kernel's file: a twin in memory
            self._parts[0] = region.read()
            return True
        while left := len(region) - self._region_at:
            position, length = region.position + self._region_at, min(left, SENDFILE_BYTES)
            if self._region_at > self._warm_to and not in_page_cache(fd, position, length):
                self._in_thread(region, length)
                return False
            try:
                sent = os.sendfile(self._fd, fd, position, length)
            except BlockingIOError:
                return False
            if not sent:
                raise OSError("the file ends before the region does")
            self._region_at += sent
        self._region_at, self._warm_to = 0, -1
        self._parts.popleft()
        return True

    def _take(self, data: bytes) -> None:
        # Once read it is not looked for again, lest a machine short of memory goes round in circles.
        self._warm_to = self._region_at + len(data) - 1

    def _duplicate(self) -> socket.socket:
        # uvloop guards the transport's own descriptor; it watches a duplicate of it gladly.
        if self._socket is None:
            self._socket = socket.socket(fileno=os.dup(self._fd))
        return self._socket

    def _writable(self) -> None:
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
        self._later()


class TlsOutgoing(Outgoing):
    """Hands chunks to a transport that encrypts them."""

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        loop: asyncio.AbstractEventLoop,
        *,
        drained: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        super().__init__(loop, drained=drained, failed=failed)
        self._transport = transport
        self._full = False

    def pause(self) -> None:
        """Learn that the transport holds enough."""
        self._full = self.waiting = True

    def resume(self) -> None:
        """Learn that the transport has room again."""
        self._full = False
        if not self._reading:
            self._later()

    def _flush(self) -> None:
        try:
            while self._parts and not self._full and not self._reading:
                chunk = self._next_chunk()
                if chunk:
                    self._transport.write(chunk)
        except OSError as e:
            self._failed(f"cannot read what is to be sent: {e}")
            return
        self.waiting = bool(self._parts) or self._full or self._reading

    def _next_chunk(self) -> bytes:
        """Join what stands next, as far as it is at hand; what is not is asked for."""
        parts, found, size = self._parts, [], 0
        while parts and size < TLS_CHUNK_BYTES:
            part = parts[0]
            if isinstance(part, Bytes):
                parts.popleft()
                found.append(part)
            else:
                data = self._at_hand(cast("FileRegion", part))
                if data is None:
                    break
                found.append(data)
                part = data
            size += len(part)
        return b"".join(found)

    def _at_hand(self, region: FileRegion) -> Bytes | None:
        fd = region.fileno()
        if fd < 0:
            self._parts.popleft()
            return region.read()
        length = min(len(region) - self._region_at, TLS_CHUNK_BYTES)
        data = read_cached(fd, region.position + self._region_at, length)
        if data is None:
            self._in_thread(region, length)
            return None
        if not data:
            raise OSError("the file ends before the region does")
        self._past(len(data))
        return data

    def _take(self, data: bytes) -> None:
        self._past(len(data))
        self._transport.write(data)

    def _past(self, count: int) -> None:
        """Forget `count` bytes of the region that stands first."""
        self._region_at += count
        if self._region_at >= len(self._parts[0]):
            self._region_at = 0
            self._parts.popleft()


def _copied(region: FileRegion) -> Bytes | None:
    """Give the bytes of a small region that is at hand."""
    fd, length = region.fileno(), len(region)
    if length > COPIED_BYTES or fd < 0:
        return None
    data = read_cached(fd, region.position, length)
    return data if data is not None and len(data) == length else None


def read_cached(fd: int, position: int, length: int) -> Bytes | None:
    """Give up to `length` bytes as far as the page cache has them; None when it lacks the first."""
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return None
    except OSError:  # a file system that cannot say: read as ever
        return os.pread(fd, length, position)
    return buffer if count == length else memoryview(buffer)[:count]


def in_page_cache(fd: int, position: int, length: int) -> bool:
    """Say whether the first and the last byte can be had without waiting for a disk; True where nobody can say."""
    probe = bytearray(1)
    try:
        os.preadv(fd, [probe], position, os.RWF_NOWAIT)
        if length > PAGE_BYTES:
            os.preadv(fd, [probe], position + length - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _read(region: FileRegion, position: int, length: int) -> bytes:
    data = os.pread(region.fileno(), length, position)
    if not data:
        raise OSError("the file ends before the region does")
    return data
