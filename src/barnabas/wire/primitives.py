"""Each Kafka primitive: the names that declarations use, and how a single value is read and written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated, Final, Protocol, TypeAlias

from barnabas.wire.errors import ProtocolError

int8: TypeAlias = Annotated[int, "int8"]
int16: TypeAlias = Annotated[int, "int16"]
uint16: TypeAlias = Annotated[int, "uint16"]
int32: TypeAlias = Annotated[int, "int32"]
uint32: TypeAlias = Annotated[int, "uint32"]
int64: TypeAlias = Annotated[int, "int64"]
float64: TypeAlias = Annotated[float, "float64"]


class Region(Protocol):
    """Bytes that live elsewhere, for example in a file: only the shell that sends them looks inside."""

    def __len__(self) -> int: ...

    def read(self) -> bytes:
        """Give the bytes."""
        ...


Records: TypeAlias = bytes | bytearray | memoryview | Region
"""The value of a `records` field: decoded ones are memoryviews of the frame, encoded ones travel as they are."""
Buffer: TypeAlias = bytes | bytearray | memoryview

FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""How `struct` spells the primitives of fixed width, big-endian."""

MAX_STRING_BYTES: Final = 0x7FFF
"""The longest string Kafka reads or writes, in either encoding."""


def uvarint(value: int) -> bytes:
    """Give the unsigned varint of a non-negative number below 2^64."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if value < 0:
        raise ProtocolError(f"a varint cannot hold {value}")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Give an unsigned varint of at most 32 bits and the position after it; IndexError past the end."""
    value = buf[pos]
    return (value, pos + 1) if value < 0x80 else uvarint_rest(buf, pos + 1, value)


def uvarint_rest(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """Finish a varint whose first byte had its high bit set; give the value and the position after it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, pos
    raise ProtocolError("a varint is longer than five bytes")


def zigzag(value: int) -> bytes:
    """Give the signed (zigzag) varint of a number of at most 64 bits."""
    value = value << 1 ^ value >> 63
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    return uvarint(value)


def read_zigzag(buf: Buffer, pos: int) -> tuple[int, int]:
    """Give a signed varint of at most 64 bits and the position after it; IndexError past the end."""
    raw = buf[pos]
    pos += 1
    if raw > 0x7F:
        raw &= 0x7F
        shift = 7
        while True:
            byte = buf[pos]
            pos += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise ProtocolError("a varint is longer than ten bytes")
        raw &= 0xFFFFFFFFFFFFFFFF
    return raw >> 1 ^ -(raw & 1), pos


_ONE_BYTE: Final = [bytes([n]) for n in range(128)]


class ArrayFormats(dict[int, Callable[..., tuple[int, ...]]]):
    """Readers or writers of n fixed-width numbers at once, kept for small n only: a peer chooses n."""

    __slots__ = ("code", "method")

    def __init__(self, code: str, method: str) -> None:
        self.code = code
        self.method = method

    def __missing__(self, n: int) -> Callable[..., tuple[int, ...]]:
        made: Callable[..., tuple[int, ...]] = getattr(struct.Struct(f">{n}{self.code}"), self.method)
        if n <= 64:
            self[n] = made
        return made
