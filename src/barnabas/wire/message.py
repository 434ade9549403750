"""Encode and decode messages: the one door to the codec, so that another could stand behind it.

A message is declared once for all versions (`barnabas.wire.declaration`, modules below `messages` and
`records`). Its writer and reader are compiled for a version when that version is first used.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

from barnabas.wire.declaration import Message, field_specs
from barnabas.wire.decoder import decoder
from barnabas.wire.encoder import encoder
from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import Buffer, Records

__all__ = ["Message", "decode", "decode_from", "encode", "encode_into"]

_M = TypeVar("_M", bound=Message)
_BAD_BYTES: Final = (IndexError, struct.error)
_BAD_VALUE: Final = (struct.error, TypeError, AttributeError, ValueError, OverflowError)
_encoders: dict[tuple[type[Message], int], Any] = {}
_decoders: dict[tuple[type[Message], int], Any] = {}


def encode(msg: Message, version: int) -> bytes:
    """Give the message's bytes in that version; ProtocolError when it cannot be said in it."""
    parts: list[Records] = []
    encode_into(msg, version, parts)
    if len(parts) == 1 and isinstance(parts[0], bytearray):
        return bytes(parts[0])
    return b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in parts)


def encode_into(msg: Message, version: int, parts: list[Records]) -> None:
    """Append the message's bytes to parts, the value of each `records` field as it is, uncopied."""
    compiled = _encoders.get((msg.__class__, version))
    if compiled is None:
        compiled = _compile(_encoders, encoder, msg.__class__, version)
    try:
        compiled(msg, parts)
    except _BAD_VALUE as e:
        raise ProtocolError(f"{msg.NAME} v{version} cannot be encoded: {e}") from e
    except ProtocolError as e:
        raise ProtocolError(f"{msg.NAME} v{version} cannot be encoded: {e}") from None


def decode(cls: type[_M], version: int, buf: Buffer, offset: int = 0) -> _M:
    """Give the message that stands in buf from offset to its end; ProtocolError for anything else.

    `records` fields are memoryviews of buf.
    """
    made, end = decode_from(cls, version, buf, offset)
    if end != len(buf):
        raise ProtocolError(f"{cls.NAME} v{version} is followed by {len(buf) - end} bytes that do not belong to it")
    return made


def decode_from(cls: type[_M], version: int, buf: Buffer, offset: int = 0) -> tuple[_M, int]:
    """Give the message that begins at offset, and the position after it."""
    compiled = _decoders.get((cls, version))
    if compiled is None:
        compiled = _compile(_decoders, _reader, cls, version)
    try:
        return compiled(buf, offset)  # type: ignore[no-any-return]
    except _BAD_BYTES:
        raise ProtocolError(f"{cls.NAME} v{version} cannot be decoded: the message ends too early") from None
    except ProtocolError as e:
        raise ProtocolError(f"{cls.NAME} v{version} cannot be decoded: {e}") from None


def _reader(cls: type[Message], version: int) -> Any:
    read = decoder(cls, version)
    if _has_records(cls):
        # Slices of these stay views of the frame; everything else is quicker to slice as bytes.
        return lambda buf, offset: read(memoryview(buf), offset, len(buf))

    def read_bytes(buf: Buffer, offset: int) -> tuple[Message, int]:
        made, end = read(bytes(buf) if not offset else bytes(memoryview(buf)[offset:]), 0, len(buf) - offset)
        return made, end + offset

    return read_bytes


def _has_records(cls: Any) -> bool:
    return any(f.kind == "records" or (f.struct is not None and _has_records(f.struct)) for f in field_specs(cls))


def _compile(table: dict[tuple[type[Message], int], Any], make: Any, cls: type[Message], version: int) -> Any:
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise ProtocolError(f"{cls.NAME} has versions {cls.MIN_VERSION} to {cls.MAX_VERSION}, not {version}")
    compiled = table[cls, version] = make(cls, version)
    return compiled
