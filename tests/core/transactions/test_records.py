"""What stands in the log, byte for byte, and what comes out of logs that another Kafka wrote."""

from __future__ import annotations

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions import records
from barnabas.core.transactions.metadata import TransactionMetadata
from barnabas.core.transactions.states import (
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS_STATES,
    TransactionState,
)
from barnabas.wire.coordinator_records import CoordinatorRecord, encode_coordinator_key, encode_coordinator_value
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.records.group_metadata_key import GroupMetadataKey
from barnabas.wire.records.transaction_log_key import TransactionLogKey
from barnabas.wire.records.transaction_log_value import PartitionsSchema, TransactionLogValue
from tests.core.transactions.driving import T0, T1, Driver

FULL = TransactionMetadata(
    "id", 5, 32767, 60_000, 0x0102, PREPARE_COMMIT, frozenset({T1, T0}), 0x0101, 4, 6, 2
)  # fmt: skip


def test_a_key() -> None:
    assert encode_coordinator_key(records.tombstone("id").key) == bytes.fromhex("0000 0002 6964")
    assert records.tombstone("id").value is None


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (
            0,
            "0000 0000000000000005 7fff 0000ea60 02 00000001 0001 74 00000002 00000000 00000001 "
            "0000000000000102 0000000000000101",
        ),
        (
            1,
            "0001 0000000000000005 7fff 0000ea60 02 02 02 74 03 00000000 00000001 00 "
            "0000000000000102 0000000000000101 03 00 08 0000000000000004 01 08 0000000000000006 02 02 0002",
        ),
        (
            2,
            "0001 0000000000000005 7fff 0000ea60 02 02 02 74 03 00000000 00000001 00 "
            "0000000000000102 0000000000000101 03 00 08 0000000000000004 01 08 0000000000000006 02 02 0002",
        ),
    ],
)
def test_a_value(level: int, expected: str) -> None:
    record = records.transaction(FULL, level)
    assert record.value is not None
    assert encode_coordinator_value(record.value, record.value_version) == bytes.fromhex(expected)


def test_an_empty_transaction_has_no_list_of_partitions_and_others_have() -> None:
    driver = Driver()
    producer = driver.initialised()
    driver.add(producer, T0)
    driver.end(producer, commit=True)
    driver.complete()
    values = [record.value for record in driver.log]
    assert all(isinstance(value, TransactionLogValue) for value in values)
    assert [getattr(v, "transaction_status") for v in values] == [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]  # noqa: B009
    assert [getattr(v, "transaction_partitions") for v in values] == [  # noqa: B009
        None,
        [PartitionsSchema(topic="t", partition_ids=[0])],
        [PartitionsSchema(topic="t", partition_ids=[0])],
        [],
    ]
    assert [getattr(v, "previous_producer_id") for v in values] == [1000] * 4  # noqa: B009


def test_a_value_says_all() -> None:
    value = records.transaction(FULL, 2).value
    assert isinstance(value, TransactionLogValue)
    assert records.metadata_from("id", value) == FULL


def test_a_dead_id_is_kept_until_its_tombstone() -> None:
    driver = Driver()
    driver.given(DEAD)
    assert driver.metadata().state is DEAD
    driver.write(records.tombstone("id"))
    driver.write(records.tombstone("id"))
    assert not driver.shard.image.transactions


def test_the_index_follows() -> None:
    driver = Driver()
    driver.given(ONGOING)
    assert not driver.shard.image.ending
    driver.given(PREPARE_ABORT)
    assert dict(driver.shard.image.ending) == {"id": 1}
    driver.write(records.tombstone("id"))
    assert not driver.shard.image.ending


def test_a_state_that_does_not_exist_stops_the_load() -> None:
    value = TransactionLogValue(transaction_status=9)
    with pytest.raises(ProtocolError, match="in state 9"):
        Driver().shard.replay(CoordinatorRecord(TransactionLogKey(transactional_id="id"), value, 0), At(0))


def test_records_of_other_kinds_stay_in_the_log() -> None:
    shard = Driver().shard
    assert not shard.replay(CoordinatorRecord(GroupMetadataKey(group="g"), None), At(0))
    assert not shard.image.transactions


@pytest.mark.parametrize("before", TransactionState)
@pytest.mark.parametrize("after", TransactionState)
def test_no_move_but_the_legal_ones(before: TransactionState, after: TransactionState) -> None:
    metadata = TransactionMetadata("id", 5, 3, 60_000, 0, before)
    if before in PREVIOUS_STATES[after]:
        moved = metadata.moved(after, 9)
        assert (moved.state, moved.updated_ms, moved.previous_producer_id) == (after, 9, 5)
        assert moved.producer == Producer(5, 3)
    else:
        with pytest.raises(ApiError) as refused:
            metadata.moved(after, 9)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
