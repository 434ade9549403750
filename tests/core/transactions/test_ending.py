"""EndTxn in each state, by old and new rules, and the way from the decision to its completion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.core.coordinators.step import Producer
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
from barnabas.wire.errors import ErrorCode
from tests.core.transactions.driving import T0, T1, WALL_START_MS, Driver

E = ErrorCode
LAST = 32766
BEGINS = "begins"
Result = ErrorCode | str
COMMIT, ABORT = True, False


def asked(driver: Driver, epoch: int, commit: bool, version: int) -> Result:
    before = len(driver.log)
    response = driver.end(Producer(5, epoch), commit=commit, version=version)
    if response.error_code != E.NONE:
        assert (response.producer_id, response.producer_epoch) == (-1, -1)
    begins = len(driver.log) > before
    assert not begins or driver.metadata().state is (PREPARE_COMMIT if commit else PREPARE_ABORT)
    return BEGINS if begins else ErrorCode(response.error_code)


@pytest.mark.parametrize(
    ("state", "epoch", "aborts", "commits"),
    [
        (EMPTY, 3, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
        (EMPTY, 2, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (ONGOING, 3, BEGINS, BEGINS),
        (ONGOING, 2, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (ONGOING, 4, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (PREPARE_ABORT, 3, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (PREPARE_COMMIT, 3, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (PREPARE_COMMIT, 2, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (COMPLETE_ABORT, 3, E.NONE, E.INVALID_TXN_STATE),
        (COMPLETE_COMMIT, 3, E.INVALID_TXN_STATE, E.NONE),
        (COMPLETE_COMMIT, 2, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (DEAD, 3, E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_by_the_old_rules(state: TransactionState, epoch: int, aborts: Result, commits: Result) -> None:
    for commit, outcome in ((ABORT, aborts), (COMMIT, commits)):
        driver = Driver()
        driver.given(state, Producer(5, 3))
        assert asked(driver, epoch, commit, 4) == outcome


@pytest.mark.parametrize(
    ("state", "epoch", "aborts", "commits"),
    [
        (EMPTY, 3, BEGINS, E.INVALID_TXN_STATE),
        (EMPTY, 2, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (ONGOING, 3, BEGINS, BEGINS),
        (ONGOING, 2, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (ONGOING, 4, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (PREPARE_ABORT, 2, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (PREPARE_COMMIT, 2, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (PREPARE_COMMIT, 0, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (COMPLETE_ABORT, 3, BEGINS, E.INVALID_TXN_STATE),
        (COMPLETE_ABORT, 2, E.NONE, E.INVALID_TXN_STATE),
        (COMPLETE_ABORT, 1, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (COMPLETE_COMMIT, 3, BEGINS, E.INVALID_TXN_STATE),
        (COMPLETE_COMMIT, 2, E.INVALID_TXN_STATE, E.NONE),
        (COMPLETE_COMMIT, 4, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (DEAD, 3, E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_by_the_rules_of_transaction_version_2(
    state: TransactionState, epoch: int, aborts: Result, commits: Result
) -> None:
    for commit, outcome in ((ABORT, aborts), (COMMIT, commits)):
        driver = Driver()
        driver.given(state, Producer(5, 3), client=2)
        assert asked(driver, epoch, commit, 5) == outcome


@pytest.mark.parametrize("version", range(6))
def test_strangers(version: int) -> None:
    driver = Driver()
    assert asked(driver, 3, COMMIT, version) == E.INVALID_PRODUCER_ID_MAPPING
    assert driver.end(Producer(5, 3), commit=True, name="", version=version).error_code == E.INVALID_REQUEST
    driver.given(ONGOING)
    assert driver.end(Producer(6, 3), commit=True, version=version).error_code == E.INVALID_PRODUCER_ID_MAPPING
    fenced = E.INVALID_PRODUCER_EPOCH if version < 2 else E.PRODUCER_FENCED
    assert asked(driver, 2, COMMIT, version) == fenced


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("commit", [COMMIT, ABORT])
def test_a_transaction_of_an_old_client(level: int, commit: bool) -> None:
    driver = Driver(level=level)
    producer = driver.initialised()
    assert driver.add(producer, T0, T1, version=3) == E.NONE
    driver.now_ms = 40
    response = driver.end(producer, commit=commit, version=4)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (E.NONE, -1, -1)
    (ending,) = driver.endings()
    assert ending.producer == producer
    assert (ending.commit, ending.partitions, ending.transaction_version) == (commit, frozenset({T0, T1}), 0)
    assert ending.coordinator_epoch == driver.epoch
    driver.complete()
    metadata = driver.metadata()
    assert (metadata.state, metadata.producer) == (COMPLETE_COMMIT if commit else COMPLETE_ABORT, producer)
    assert (metadata.partitions, metadata.started_ms) == (frozenset(), WALL_START_MS)
    assert driver.end(producer, commit=commit, version=4).error_code == E.NONE
    assert driver.end(producer, commit=not commit, version=4).error_code == E.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [COMMIT, ABORT])
def test_a_transaction_of_a_new_client_bumps_the_epoch(commit: bool) -> None:
    driver = Driver()
    producer = driver.initialised()
    driver.add(producer, T0)
    response = driver.end(producer, commit=commit)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (E.NONE, 1000, 1)
    (ending,) = driver.endings()
    assert (ending.producer, ending.transaction_version) == (Producer(1000, 1), 2)
    assert driver.end(producer, commit=commit).error_code == E.CONCURRENT_TRANSACTIONS
    driver.complete()
    again = driver.end(producer, commit=commit)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (E.NONE, 1000, 1)
    driver.take_over()
    again = driver.end(producer, commit=commit)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (E.NONE, 1000, 1)
    assert driver.end(producer, commit=not commit).error_code == E.INVALID_TXN_STATE


def test_exhausted_epochs_end_in_a_new_producer_id() -> None:
    driver = Driver()
    driver.given(producer=Producer(5, LAST))
    driver.add(Producer(5, LAST), T0)
    response = driver.end(Producer(5, LAST), commit=True)
    assert (response.producer_id, response.producer_epoch) == (1000, 0)
    (ending,) = driver.endings()
    assert ending.producer == (5, LAST + 1)
    # The client knows the new producer id before it is in force.
    assert driver.add(Producer(1000, 0), T0) == E.CONCURRENT_TRANSACTIONS
    assert driver.end(Producer(1000, 0), commit=True).error_code == E.CONCURRENT_TRANSACTIONS
    assert driver.init(Producer(1000, 0)).error_code == E.CONCURRENT_TRANSACTIONS
    driver.take_over()
    driver.complete()
    assert driver.metadata().producer == (1000, 0)
    again = driver.end(Producer(5, LAST), commit=True)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (E.NONE, 1000, 0)
    assert driver.end(Producer(5, LAST), commit=False).error_code == E.INVALID_TXN_STATE
    assert driver.end(Producer(5, LAST - 1), commit=True).error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert driver.add(Producer(1000, 0), T0) == E.NONE


def test_exhausted_epochs_without_a_producer_id_at_hand() -> None:
    driver = Driver(ids_left=0)
    driver.given(ONGOING, Producer(5, LAST))
    assert driver.end(Producer(5, LAST), commit=True).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.metadata().state is ONGOING


def test_an_abort_without_partitions_begins_now() -> None:
    driver = Driver()
    producer = driver.initialised()
    driver.now_ms = 70
    driver.end(producer, commit=False)
    assert driver.metadata().started_ms == WALL_START_MS + 70
    (ending,) = driver.endings()
    assert ending.partitions == frozenset()
    driver.complete()
    assert driver.metadata().producer == (1000, 1)


def test_a_downgraded_feature_still_completes_what_is_prepared() -> None:
    driver = Driver()
    producer = driver.initialised()
    driver.add(producer, T0)
    driver.end(producer, commit=True)
    driver.level = 0
    driver.complete()
    assert driver.log[-1].value_version == 0
    assert (driver.metadata().state, driver.metadata().producer) == (COMPLETE_COMMIT, Producer(1000, 1))


def test_what_was_prepared_is_taken_up_after_a_hand_over() -> None:
    driver = Driver()
    for name, state in (("a", PREPARE_COMMIT), ("b", ONGOING), ("c", PREPARE_ABORT), ("d", COMPLETE_COMMIT)):
        driver.given(state, name=name, partitions=(T0,))
    driver.take_over()
    found = driver.endings()
    assert [(e.transactional_id, e.commit) for e in found] == [("a", True), ("c", False)]


def test_markers_of_another_time_complete_nothing() -> None:
    driver = Driver()
    driver.given(PREPARE_COMMIT, Producer(5, 3), partitions=(T0,))
    (ending,) = driver.endings()
    for stale in (
        replace(ending, producer=Producer(5, 2)),
        replace(ending, producer=Producer(4, 3)),
        replace(ending, commit=False),
        replace(ending, offset=ending.offset + 1),
        replace(ending, coordinator_epoch=ending.coordinator_epoch - 1),
        replace(ending, transactional_id="other"),
    ):
        assert driver.shard.marked(stale, driver.now).records == ()
    driver.carry(driver.shard.marked(ending, driver.now))
    assert driver.metadata().state is COMPLETE_COMMIT
    assert driver.shard.marked(ending, driver.now).records == ()


def test_late_markers_do_not_complete_a_later_transaction_that_is_equal_in_all_but_time() -> None:
    driver = Driver()
    producer = driver.initialised()
    sent = []
    for _ in range(2):
        driver.add(producer, T0, version=3)
        driver.end(producer, commit=True, version=4)
        sent += driver.endings()
        if len(sent) == 1:
            driver.complete()
    first, second = sent
    assert driver.shard.marked(first, driver.now).records == ()
    assert len(driver.shard.marked(second, driver.now).records) == 1


def test_what_is_counted() -> None:
    driver = Driver()
    producer = driver.initialised()
    driver.add(producer, T0)
    response = driver.end(producer, commit=True)
    driver.complete()
    driver.end(producer, commit=True)
    driver.end(Producer(response.producer_id, response.producer_epoch), commit=False)
    assert (driver.shard.tally.commits, driver.shard.tally.aborts) == (1, 1)
