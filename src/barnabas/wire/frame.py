"""Bytes in any pieces -> whole frames of bounded size: four bytes of length, then that many bytes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import Buffer, Records

_PREFIX: Final = 4


class FrameParser:
    """Cuts a stream into frames. Feed it what arrives; it never holds more than one unfinished frame.

    max_size may be changed between frames (a connection is held to less before it has authenticated).
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._pending = bytearray()
        self._wanted = _PREFIX

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """Give the frames that are complete now, without their length; ProtocolError for an impossible length.

        The iterator must be used up before the next call. A frame that came whole is cut from `data` directly.
        """
        if not self._pending:
            used = yield from self._whole_frames(data)
            if used == len(data):
                return
            data = memoryview(data)[used:]
        self._pending += data
        while len(self._pending) >= self._wanted:
            size = self._size_of(self._pending, 0)
            end = _PREFIX + size
            self._wanted = end
            if len(self._pending) < end:
                return
            frame = bytes(memoryview(self._pending)[_PREFIX:end])
            del self._pending[:end]
            self._wanted = _PREFIX
            yield frame

    @property
    def unfinished(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return len(self._pending)

    def _whole_frames(self, data: Buffer) -> Generator[bytes, None, int]:
        pos, end = 0, len(data)
        while end - pos >= _PREFIX:
            after = pos + _PREFIX + self._size_of(data, pos)
            if after > end:
                break
            yield bytes(data[pos + _PREFIX : after])
            pos = after
        return pos

    def _size_of(self, data: Buffer, pos: int) -> int:
        size = int.from_bytes(data[pos : pos + _PREFIX], "big", signed=True)
        if size < 0:
            raise ProtocolError(f"a frame cannot have {size} bytes")
        if size > self.max_size:
            raise ProtocolError(f"a frame of {size} bytes is larger than the {self.max_size} allowed")
        return size


def encode_frame(parts: Sequence[Records]) -> list[Records]:
    """Give the parts with their common length before them."""
    return [sum(map(len, parts)).to_bytes(_PREFIX, "big"), *parts]
