"""The frame around each record of `__cluster_metadata`: frame version, record type, record version, body."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import Message, decode, encode_into
from barnabas.wire.primitives import Buffer, Records, read_uvarint, uvarint
from barnabas.wire.record_rows import METADATA

_FRAME_VERSION: Final = 1
_HEADS: Final[dict[tuple[int, int], bytes]] = {}


def encode_metadata_record(record: Message, version: int) -> bytes:
    """Give the value of the record in the log."""
    head = _HEADS.get((record.API_KEY, version))
    if head is None:
        if METADATA.get(record.API_KEY) is not type(record):
            raise ProtocolError(f"{record.NAME} is no metadata record")
        head = uvarint(_FRAME_VERSION) + uvarint(record.API_KEY) + uvarint(version)
        _HEADS[record.API_KEY, version] = head
    parts: list[Records] = [head]
    encode_into(record, version, parts)
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray))


def decode_metadata_record(value: Buffer) -> tuple[Message, int]:
    """Give the record and its version; ProtocolError for a frame, type or version that we do not know.

    A node that cannot read a metadata record must not go on, so nothing is passed over here.
    """
    try:
        frame_version, pos = read_uvarint(value, 0)
        api_key, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except IndexError:
        raise ProtocolError("a metadata record is shorter than its frame") from None
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"a metadata record has frame version {frame_version}, only {_FRAME_VERSION} is known")
    cls = METADATA.get(api_key)
    if cls is None:
        raise ProtocolError(f"a metadata record has the unknown type {api_key}")
    return decode(cls, version, value, pos), version
