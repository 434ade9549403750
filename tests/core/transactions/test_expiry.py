"""What time does: transactions that are open for too long, ids that nobody uses."""

from __future__ import annotations

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions import shard as shards
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.metadata import NO_TIMEOUT_MS
from barnabas.core.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from barnabas.wire.errors import ErrorCode
from tests.core.transactions.driving import T0, Driver

E = ErrorCode
WEEK_MS = 7 * 24 * 60 * 60_000


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_transaction_is_aborted_by_the_first_pass_after_its_time(level: int) -> None:
    driver = Driver(level=level)
    driver.now_ms = 5
    producer = driver.initialised(transaction_timeout_ms=19_995)
    driver.add(producer, T0, version=3)
    driver.advance(29_994)
    assert driver.metadata().state is ONGOING
    driver.advance(1)
    assert driver.metadata().state is PREPARE_ABORT
    assert driver.metadata().producer == (1000, 1)
    assert driver.end(producer, commit=True, version=4).error_code == E.PRODUCER_FENCED
    assert driver.shard.tally.time_outs == 1


@pytest.mark.parametrize("state", [EMPTY, PREPARE_ABORT, PREPARE_COMMIT, COMPLETE_ABORT, COMPLETE_COMMIT])
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    driver = Driver()
    driver.given(state, timeout_ms=10)
    driver.advance(100_000)
    assert len(driver.log) == 1


def test_passes_are_bounded_and_go_on() -> None:
    driver = Driver()
    late = shards.ABORTS_A_PASS * 2 + 10
    for n in range(late):
        driver.given(ONGOING, Producer(n, 3), name=f"id-{n:04}", timeout_ms=late - n)
    driver.advance(10_000)
    assert len(driver.log) == late + shards.ABORTS_A_PASS
    assert driver.metadata(f"id-{late - 1:04}").state is PREPARE_ABORT, "overdue longest"
    driver.advance(shards.PAUSE_MS * 2)
    assert all(m.state is PREPARE_ABORT for m in driver.shard.image.transactions.values())


def test_without_a_producer_id_the_next_pass_tries_again() -> None:
    driver = Driver(ids_left=0)
    driver.given(ONGOING, Producer(5, 32766), timeout_ms=10, name="exhausted")
    driver.given(ONGOING, Producer(6, 3), timeout_ms=10)
    driver.advance(10_000)
    assert driver.metadata().state is PREPARE_ABORT
    assert driver.metadata("exhausted").state is ONGOING
    driver.ids_left = 1
    driver.advance(10_000)
    assert driver.metadata("exhausted").state is PREPARE_ABORT


def test_ids_that_nobody_used_for_long_are_forgotten() -> None:
    config = TransactionConfig(abort_timed_out_interval_ms=WEEK_MS * 2, remove_expired_interval_ms=WEEK_MS)
    driver = Driver(config)
    states = [EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT]
    for state in states:
        driver.given(state, name=state.name)
    driver.now_ms = 500
    driver.given(name="younger")
    driver.now_ms = 0
    driver.advance(WEEK_MS - 1)
    assert len(driver.shard.image.transactions) == len(states) + 1
    driver.advance(1)
    assert set(driver.shard.image.transactions) == {"ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", "younger"}
    assert driver.shard.held() == 4
    driver.advance(WEEK_MS)
    assert "younger" not in driver.shard.image.transactions
    driver.take_over()
    assert set(driver.shard.image.transactions) == {"ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT"}


def test_expiry_visits_all_in_bounded_parts() -> None:
    driver = Driver(TransactionConfig(id_expiration_ms=1_000, remove_expired_interval_ms=5_000))
    for n in range(shards.EXPIRIES_A_PASS + 1):
        driver.given(name=f"id-{n:05}")
    driver.advance(5_000)
    assert len(driver.shard.image.transactions) == 1
    driver.advance(shards.PAUSE_MS)
    assert not driver.shard.image.transactions
    assert driver.shard.tally.ids_expired == shards.EXPIRIES_A_PASS + 1


def test_an_unloaded_shard_has_nothing_to_do() -> None:
    driver = Driver()
    driver.given(ONGOING)
    driver.shard.unload(driver.now)
    assert driver.shard.next_deadline_ms() is None
    assert driver.shard.held() == 0


def test_an_abort_that_the_log_refuses_is_tried_again() -> None:
    driver = Driver()
    driver.given(ONGOING, timeout_ms=10)
    before = driver.shard.image
    driver.now_ms = 10_000
    step = driver.shard.tick(driver.now)
    assert step is not None
    driver.shard.replay(step.records[0], At(1))
    driver.shard.image = before  # as the shell does when the log has not taken it
    driver.advance(10_000)
    assert driver.metadata().state is PREPARE_ABORT


def test_a_transaction_whose_end_the_log_refuses_times_out_as_before() -> None:
    driver = Driver()
    producer = driver.initialised(transaction_timeout_ms=60_000)
    driver.add(producer, T0)
    before = driver.shard.image
    driver.end(producer, commit=True)
    driver.shard.image = before
    del driver.log[2:]
    driver.advance(80_000)
    assert driver.metadata().state is PREPARE_ABORT


def test_a_transaction_that_waits_for_its_owner_for_ever_does_not_time_out() -> None:
    driver = Driver()
    driver.given(ONGOING, timeout_ms=NO_TIMEOUT_MS)
    driver.advance(WEEK_MS)
    assert driver.metadata().state is ONGOING
