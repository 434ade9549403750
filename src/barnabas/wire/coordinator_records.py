"""Records of `__consumer_offsets` and `__transaction_state`: key = type and body, value = version and body."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import Message, decode, encode_into
from barnabas.wire.primitives import Buffer, Records
from barnabas.wire.record_rows import GROUP_KEYS, GROUP_VALUES, TRANSACTION_KEYS, TRANSACTION_VALUES

_INT16: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0
"""Of the body of a key: Kafka changes the record type instead."""


class CoordinatorRecord(NamedTuple):
    """A record and its versions. value: None deletes the key (a tombstone)."""

    key: Message
    value: Message | None
    value_version: int = -1


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of a type, or with a value of a version, that a newer node wrote. value_version: -1 if not read."""

    record_type: int
    value_version: int = -1


def encode_coordinator_key(key: Message) -> bytes:
    """Give the key's bytes: its record type, then its fields."""
    return _prefixed(key.API_KEY, key, _KEY_VERSION)


def encode_coordinator_value(value: Message, version: int) -> bytes:
    """Give the value's bytes: its version, then its fields."""
    return _prefixed(version, value, version)


def encode_coordinator_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Give the key's bytes and the value's, None for a tombstone."""
    key, value, version = record
    return encode_coordinator_key(key), None if value is None else encode_coordinator_value(value, version)


def decode_group_record(key: Buffer, value: Buffer | None) -> CoordinatorRecord | UnknownRecord:
    """Give a record of `__consumer_offsets`; ProtocolError when it is damaged."""
    return _decode(GROUP_KEYS, GROUP_VALUES, key, value)


def decode_transaction_record(key: Buffer, value: Buffer | None) -> CoordinatorRecord | UnknownRecord:
    """Give a record of `__transaction_state`; ProtocolError when it is damaged."""
    return _decode(TRANSACTION_KEYS, TRANSACTION_VALUES, key, value)


def _decode(
    keys: Mapping[int, type[Message]], values: Mapping[int, type[Message]], key: Buffer, value: Buffer | None
) -> CoordinatorRecord | UnknownRecord:
    record_type = _first_int16(key, "key")
    key_class = keys.get(record_type)
    if key_class is None:
        return UnknownRecord(record_type)
    decoded_key = decode(key_class, _KEY_VERSION, key, _INT16.size)
    if value is None:
        return CoordinatorRecord(decoded_key, None)
    version = _first_int16(value, "value")
    value_class = values[record_type]
    if not value_class.MIN_VERSION <= version <= value_class.MAX_VERSION:
        return UnknownRecord(record_type, version)
    return CoordinatorRecord(decoded_key, decode(value_class, version, value, _INT16.size), version)


def _prefixed(number: int, body: Message, version: int) -> bytes:
    parts: list[Records] = [_INT16.pack(number)]
    encode_into(body, version, parts)
    return b"".join(parts)  # type: ignore[arg-type]  # keys and values hold no records


def _first_int16(data: Buffer, what: str) -> int:
    if len(data) < _INT16.size:
        raise ProtocolError(f"the {what} of a coordinator record is shorter than two bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
