"""What is taken into a transaction, and what brokers hear who ask whether it was."""

from __future__ import annotations

import pytest

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions import partitions
from barnabas.core.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tests.core.transactions.driving import T0, T1, T2, WALL_START_MS, Driver

E = ErrorCode
OFFSETS = TopicPartition("__consumer_offsets", 12)


@pytest.mark.parametrize(
    ("state", "producer", "error"),
    [
        (EMPTY, Producer(5, 3), E.NONE),
        (EMPTY, Producer(5, 2), E.PRODUCER_FENCED),
        (EMPTY, Producer(5, 4), E.PRODUCER_FENCED),
        (EMPTY, Producer(6, 3), E.INVALID_PRODUCER_ID_MAPPING),
        (ONGOING, Producer(5, 3), E.NONE),
        (ONGOING, Producer(5, 2), E.PRODUCER_FENCED),
        (PREPARE_COMMIT, Producer(5, 3), E.CONCURRENT_TRANSACTIONS),
        (PREPARE_ABORT, Producer(5, 2), E.CONCURRENT_TRANSACTIONS),
        (PREPARE_ABORT, Producer(6, 0), E.CONCURRENT_TRANSACTIONS),
        (COMPLETE_ABORT, Producer(5, 3), E.NONE),
        (COMPLETE_COMMIT, Producer(5, 3), E.NONE),
        (COMPLETE_COMMIT, Producer(5, 2), E.PRODUCER_FENCED),
        (DEAD, Producer(5, 3), E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_who_may_add(state: TransactionState, producer: Producer, error: ErrorCode) -> None:
    driver = Driver()
    driver.given(state, Producer(5, 3))
    driver.now_ms = 50
    assert driver.add(producer, T0, T1) == error
    assert driver.carry(driver.shard.add_offsets("id", producer, OFFSETS, 4, driver.now)) == error
    if error is E.NONE:
        metadata = driver.metadata()
        assert (metadata.state, metadata.partitions) == (ONGOING, frozenset({T0, T1, OFFSETS}))
        assert metadata.started_ms == WALL_START_MS + (0 if state is ONGOING else 50)
    else:
        assert len(driver.log) == 1


def test_an_id_that_nobody_knows() -> None:
    driver = Driver()
    assert driver.add(Producer(5, 3), T0) == E.INVALID_PRODUCER_ID_MAPPING
    assert driver.add(Producer(5, 3), T0, name="") == E.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, E.INVALID_PRODUCER_EPOCH),
        (1, E.INVALID_PRODUCER_EPOCH),
        (2, E.PRODUCER_FENCED),
        (3, E.PRODUCER_FENCED),
        (4, E.PRODUCER_FENCED),
        (5, E.PRODUCER_FENCED),
    ],
)
def test_old_clients_know_another_word_for_fenced(version: int, error: ErrorCode) -> None:
    driver = Driver()
    driver.given()
    assert driver.add(Producer(5, 1), T0, version=version) == error
    assert driver.carry(driver.shard.add_offsets("id", Producer(5, 1), OFFSETS, version, driver.now)) == error


@pytest.mark.parametrize(("version", "client"), [(0, 0), (3, 0), (4, 2), (5, 2)])
def test_the_version_tells_by_which_rules_the_client_acts(version: int, client: int) -> None:
    driver = Driver()
    driver.given(client=2 - client)
    driver.add(Producer(5, 3), T0, version=version)
    assert driver.metadata().client_version == client


def test_what_is_in_the_transaction_already_is_not_written_again() -> None:
    driver = Driver()
    driver.given(ONGOING, partitions=(T0, T1))
    assert driver.add(Producer(5, 3), T0) == E.NONE
    assert len(driver.log) == 1
    assert driver.add(Producer(5, 3), T0, T2) == E.NONE
    assert driver.metadata().partitions == {T0, T1, T2}


@pytest.mark.parametrize(
    ("state", "producer", "errors"),
    [
        (ONGOING, Producer(5, 3), {T0: E.NONE, T2: E.TRANSACTION_ABORTABLE}),
        (ONGOING, Producer(5, 2), {T0: E.PRODUCER_FENCED, T2: E.PRODUCER_FENCED}),
        (ONGOING, Producer(6, 3), {T0: E.INVALID_PRODUCER_ID_MAPPING, T2: E.INVALID_PRODUCER_ID_MAPPING}),
        (PREPARE_ABORT, Producer(5, 3), {T0: E.CONCURRENT_TRANSACTIONS, T2: E.CONCURRENT_TRANSACTIONS}),
        (PREPARE_COMMIT, Producer(5, 2), {T0: E.PRODUCER_FENCED, T2: E.PRODUCER_FENCED}),
        (COMPLETE_COMMIT, Producer(5, 3), {T0: E.TRANSACTION_ABORTABLE, T2: E.TRANSACTION_ABORTABLE}),
    ],
)
def test_verification(state: TransactionState, producer: Producer, errors: dict[TopicPartition, ErrorCode]) -> None:
    driver = Driver()
    driver.given(state, partitions=() if state is COMPLETE_COMMIT else (T0, T1))
    step = driver.shard.verify_partitions("id", producer, [T0, T2])
    assert (step.response, step.records) == (errors, ())


def test_verification_of_an_id_that_nobody_knows() -> None:
    shard = Driver().shard
    assert shard.verify_partitions("id", Producer(5, 3), [T0]).response == {T0: E.INVALID_PRODUCER_ID_MAPPING}
    assert shard.verify_partitions("", Producer(5, 3), [T0]).response == {T0: E.INVALID_REQUEST}


def test_the_shapes_of_requests_and_responses() -> None:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[1, 0])]
    old = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=5,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=topics,
    )
    (transaction,) = partitions.transactions(old, 3)
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("id", 5, 3)
    assert partitions.partitions_of(transaction) == {T0, T1}
    new = AddPartitionsToTxnRequest(transactions=[transaction, transaction])
    assert len(partitions.transactions(new, 4)) == 2

    transaction.topics.append(AddPartitionsToTxnTopic(name="none of it"))
    result = partitions.result(transaction, {T1: E.NONE, T0: E.TRANSACTION_ABORTABLE})
    assert [t.name for t in result.topic_results] == ["t", "none of it"]
    answered = [(p.partition_index, p.partition_error_code) for p in result.topic_results[0].results_by_partition]
    assert answered == [(1, 0), (0, 120)]
    assert partitions.response([result], 3).results_by_topic_v3_and_below == result.topic_results
    assert partitions.response([result], 4).results_by_transaction == [result]
    transaction.verify_only = True
    assert [t.name for t in partitions.result(transaction, {T1: E.NONE, T0: E.NONE}).topic_results] == ["t"]
