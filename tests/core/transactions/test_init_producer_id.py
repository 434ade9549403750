"""InitProducerId of transactional ids: who becomes the producer, and who is sent away."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.config import TransactionConfig
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
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from tests.core.transactions.driving import NOBODY, T0, WALL_START_MS, Driver

E = ErrorCode
LAST = 32766


@pytest.mark.parametrize(
    ("name", "expected", "fields", "error"),
    [
        ("", NOBODY, {}, E.INVALID_REQUEST),
        (None, NOBODY, {}, E.INVALID_REQUEST),
        ("id", Producer(5, -1), {}, E.INVALID_REQUEST),
        ("id", Producer(-1, 3), {}, E.INVALID_REQUEST),
        ("id", NOBODY, {"transaction_timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT),
        ("id", NOBODY, {"transaction_timeout_ms": -1}, E.INVALID_TRANSACTION_TIMEOUT),
        ("id", NOBODY, {"transaction_timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT),
        ("id", NOBODY, {"transaction_timeout_ms": 900_000}, E.NONE),
        ("id", NOBODY, {"enable2_pc": True}, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("id", NOBODY, {"keep_prepared_txn": True}, E.UNSUPPORTED_VERSION),
    ],
)
def test_what_a_request_may_ask(name: str | None, expected: Producer, fields: dict[str, Any], error: ErrorCode) -> None:
    driver = Driver()
    response = driver.init(expected, name=name, version=6, **fields)
    assert response.error_code == error
    if error is not E.NONE:
        assert (response.producer_id, response.producer_epoch) == NOBODY
        assert not driver.log


def test_two_phase_commit_has_no_time_out() -> None:
    driver = Driver(TransactionConfig(two_phase_commit_enable=True))
    producer = driver.initialised(version=6, enable2_pc=True, transaction_timeout_ms=7)
    assert driver.metadata().timeout_ms == 2**31 - 1
    driver.add(producer, T0)
    driver.advance(10**7)
    assert driver.metadata().state is ONGOING


def test_the_first_producer_has_epoch_0_and_each_later_one_the_next() -> None:
    driver = Driver()
    assert driver.initialised() == (1000, 0)
    assert driver.initialised(transaction_timeout_ms=7) == (1000, 1)
    assert driver.metadata().timeout_ms == 7
    assert driver.initialised(name="other") == (1001, 0)


def test_without_a_producer_id_at_hand_the_client_tries_again() -> None:
    driver = Driver(ids_left=0)
    assert driver.init().error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert not driver.log
    driver.ids_left = 1
    assert driver.initialised() == (1000, 0)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("state", [EMPTY, COMPLETE_ABORT, COMPLETE_COMMIT])
@pytest.mark.parametrize(
    ("expected", "after"),
    [
        (NOBODY, Producer(5, 4)),
        (Producer(5, 3), Producer(5, 4)),
        (Producer(5, 2), None),
        (Producer(5, 4), None),
        (Producer(6, 3), None),
        (Producer(6, LAST), None),
    ],
)
def test_a_settled_id(level: int, state: TransactionState, expected: Producer, after: Producer | None) -> None:
    driver = Driver(level=level)
    driver.given(state, Producer(5, 3))
    response = driver.init(expected)
    if after is None:
        assert response.error_code == E.PRODUCER_FENCED
        assert len(driver.log) == 1
    else:
        assert (response.error_code, response.producer_id, response.producer_epoch) == (E.NONE, *after)
        assert driver.metadata().state is EMPTY
        assert driver.metadata().started_ms == -1


@pytest.mark.parametrize(("version", "error"), [(3, E.INVALID_PRODUCER_EPOCH), (4, E.PRODUCER_FENCED)])
def test_old_clients_know_another_word_for_fenced(version: int, error: ErrorCode) -> None:
    driver = Driver()
    driver.given()
    assert driver.init(Producer(5, 1), version=version).error_code == error


@pytest.mark.parametrize("expected", [NOBODY, Producer(5, 3), Producer(9, 9)])
@pytest.mark.parametrize("state", [PREPARE_ABORT, PREPARE_COMMIT])
def test_while_a_transaction_ends_everybody_waits(state: TransactionState, expected: Producer) -> None:
    driver = Driver()
    driver.given(state, Producer(5, 3))
    assert driver.init(expected).error_code == E.CONCURRENT_TRANSACTIONS
    assert len(driver.log) == 1


def test_a_dead_id_is_nobodys_fault() -> None:
    driver = Driver()
    driver.given(DEAD)
    assert driver.init().error_code == E.UNKNOWN_SERVER_ERROR


def test_a_lost_answer_can_be_asked_for_again() -> None:
    driver = Driver()
    first = driver.initialised()
    assert driver.initialised(first) == (1000, 1)
    assert driver.initialised(first) == (1000, 1)
    assert driver.initialised(Producer(1000, 1)) == (1000, 2)
    assert driver.init(first).error_code == E.PRODUCER_FENCED


def test_a_bump_that_did_not_get_into_the_log_is_not_believed() -> None:
    driver = Driver()
    first = driver.initialised()
    second = driver.initialised(first)
    request = InitProducerIdRequest(
        transactional_id="id", transaction_timeout_ms=1, producer_id=second.producer_id, producer_epoch=second.epoch
    )
    assert driver.shard.init_producer_id(request, 5, driver.now).records, "which are lost"
    assert driver.init(first).error_code == E.PRODUCER_FENCED
    assert driver.initialised(second) == (1000, 2)


def test_a_bump_that_the_log_refused_does_not_give_its_epoch_to_two() -> None:
    driver = Driver()
    first = driver.initialised()
    request = InitProducerIdRequest(
        transactional_id="id", transaction_timeout_ms=1, producer_id=first.producer_id, producer_epoch=first.epoch
    )
    assert driver.shard.init_producer_id(request, 5, driver.now).records, "which are lost"
    assert driver.initialised() == (1000, 1), "of somebody new"
    assert driver.init(first).error_code == E.PRODUCER_FENCED


def test_an_end_that_the_log_refused_does_not_give_its_epoch_to_two() -> None:
    driver = Driver()
    first = driver.initialised()
    request = EndTxnRequest(transactional_id="id", producer_id=first.producer_id, producer_epoch=first.epoch)
    assert driver.shard.end_txn(request, 5, driver.now).records, "which are lost"
    assert driver.initialised() == (1000, 1), "of somebody new"
    assert driver.init(first).error_code == E.PRODUCER_FENCED


def test_after_somebody_new_the_producer_of_before_is_fenced() -> None:
    driver = Driver()
    first = driver.initialised()
    driver.initialised(first)
    driver.initialised()
    assert driver.init(Producer(1000, 1)).error_code == E.PRODUCER_FENCED
    assert driver.init(first).error_code == E.PRODUCER_FENCED


def test_a_retry_after_a_hand_over_is_fenced_as_no_record_tells_it_from_a_zombie() -> None:
    driver = Driver()
    first = driver.initialised()
    driver.initialised(first)
    driver.take_over()
    assert driver.init(first).error_code == E.PRODUCER_FENCED


def test_a_producer_whose_id_was_forgotten_gets_a_new_one() -> None:
    driver = Driver()
    assert driver.initialised(Producer(5, 3)) == (1000, 0)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("expected", [NOBODY, Producer(5, LAST)])
def test_exhausted_epochs_need_a_new_producer_id(level: int, expected: Producer) -> None:
    driver = Driver(level=level)
    driver.given(producer=Producer(5, LAST))
    assert driver.initialised(expected) == (1000, 0)


@pytest.mark.parametrize("level", [0, 2])
def test_a_lost_answer_with_a_new_producer_id_can_be_asked_for_again(level: int) -> None:
    driver = Driver(level=level)
    driver.given(producer=Producer(5, LAST))
    driver.initialised(Producer(5, LAST))
    assert driver.initialised(Producer(5, LAST)) == (1000, 0)
    assert driver.init(Producer(5, LAST - 1)).error_code == E.PRODUCER_FENCED
    assert driver.init(Producer(5, LAST)).error_code == E.PRODUCER_FENCED, "it asked once already"
    driver.add(Producer(1000, 0), T0)
    driver.end(Producer(1000, 0), commit=True, version=3)
    driver.complete()
    assert driver.init(Producer(5, LAST)).error_code == E.PRODUCER_FENCED


def test_a_lost_answer_with_the_last_epoch_can_be_asked_for_again() -> None:
    driver = Driver()
    driver.given(producer=Producer(5, LAST - 1))
    assert driver.initialised(Producer(5, LAST - 1)) == (5, LAST)
    assert driver.initialised(Producer(5, LAST - 1)) == (5, LAST)


@pytest.mark.parametrize(
    ("level", "epoch", "aborting", "then"),
    [
        (0, 3, (5, 4), (5, 5)),
        (1, 3, (5, 4), (5, 5)),
        (2, 3, (5, 4), (5, 5)),
        (1, LAST, (5, LAST + 1), (1000, 0)),
        (1, LAST + 1, (5, LAST + 1), (1000, 0)),
        (2, LAST, (5, LAST + 1), (1000, 1)),
        (2, LAST + 1, (5, LAST + 1), (1000, 1)),
    ],
)
def test_an_open_transaction_is_aborted_first(
    level: int, epoch: int, aborting: tuple[int, int], then: tuple[int, int]
) -> None:
    driver = Driver(level=level)
    driver.given(ONGOING, Producer(5, epoch), partitions=(T0,))
    assert driver.init().error_code == E.CONCURRENT_TRANSACTIONS
    assert driver.metadata().state is PREPARE_ABORT
    assert driver.metadata().producer == aborting
    assert driver.metadata().client_version == (2 if level == 2 else 0)
    (ending,) = driver.endings()
    assert ending.producer == aborting
    assert ending.partitions == {T0}
    assert not ending.commit
    assert driver.init().error_code == E.CONCURRENT_TRANSACTIONS
    driver.complete()
    assert driver.metadata().started_ms == WALL_START_MS
    assert driver.initialised() == then


def test_an_open_transaction_of_another_producer_is_not_touched() -> None:
    driver = Driver()
    driver.given(ONGOING, Producer(5, 3))
    assert driver.init(Producer(6, 3)).error_code == E.PRODUCER_FENCED
    assert driver.metadata().state is ONGOING


@pytest.mark.parametrize(("level", "recovers"), [(1, False), (2, True)])
def test_a_producer_that_timed_out_recovers_with_its_own_epoch(level: int, recovers: bool) -> None:
    driver = Driver(level=level)
    driver.given(ONGOING, Producer(5, 3))
    driver.advance(100_000)
    driver.complete()
    response = driver.init(Producer(5, 3))
    if recovers:
        assert (response.producer_id, response.producer_epoch) == (5, 4)
    else:
        assert response.error_code == E.PRODUCER_FENCED
