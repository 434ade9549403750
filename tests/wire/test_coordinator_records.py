from __future__ import annotations

from random import Random

import pytest

from barnabas.wire.coordinator_records import (
    CoordinatorRecord,
    UnknownRecord,
    decode_group_record,
    decode_transaction_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.wire.errors import ProtocolError
from barnabas.wire.record_rows import GROUP_KEYS, GROUP_VALUES, TRANSACTION_KEYS, TRANSACTION_VALUES
from barnabas.wire.records.offset_commit_key import OffsetCommitKey
from barnabas.wire.records.offset_commit_value import OffsetCommitValue
from barnabas.wire.records.transaction_log_key import TransactionLogKey
from tests.wire.instances import Maker

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def test_keys_begin_with_their_type_and_values_with_their_version() -> None:
    assert encode_coordinator_key(KEY) == b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
    value = OffsetCommitValue(offset=9, metadata="m", commit_timestamp=5)
    assert encode_coordinator_value(value, 1)[:10] == b"\0\x01" + bytes(7) + b"\x09"


@pytest.mark.parametrize(
    ("keys", "values", "decode"),
    [
        (GROUP_KEYS, GROUP_VALUES, decode_group_record),
        (TRANSACTION_KEYS, TRANSACTION_VALUES, decode_transaction_record),
    ],
    ids=["groups", "transactions"],
)
def test_every_record_survives(keys: dict, values: dict, decode: object) -> None:  # type: ignore[type-arg]
    assert callable(decode)
    assert keys.keys() == values.keys()
    for record_type, key_class in keys.items():
        key = Maker(0, Random(1)).make(key_class)
        value_class = values[record_type]
        for version in range(value_class.MIN_VERSION, value_class.MAX_VERSION + 1):
            value = Maker(version, Random(version)).make(value_class)
            data = encode_coordinator_key(key), encode_coordinator_value(value, version)
            assert decode(*data) == CoordinatorRecord(key, value, version)


def test_no_value_is_a_tombstone() -> None:
    assert decode_group_record(encode_coordinator_key(KEY), None) == CoordinatorRecord(KEY, None)


def test_what_newer_nodes_wrote_is_reported() -> None:
    assert decode_group_record(b"\x03\xe7anything", b"\0\0") == UnknownRecord(999)
    assert decode_group_record(encode_coordinator_key(KEY), b"\0\x63x") == UnknownRecord(1, 99)
    assert decode_transaction_record(b"\0\x01rest", None) == UnknownRecord(1)


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\x01\0\x05g"])
def test_damage_is_a_protocol_error(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_group_record(key, None)
    with pytest.raises(ProtocolError):
        decode_transaction_record(encode_coordinator_key(TransactionLogKey(transactional_id="t")), b"\0\0\x01")
