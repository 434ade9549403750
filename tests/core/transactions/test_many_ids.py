"""Ten thousand transactional ids on one coordinator: work goes by what there is to do, not by how many there are."""

from __future__ import annotations

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions import shard as shards
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.ending import Ending
from barnabas.core.transactions.shard import TransactionShard
from barnabas.core.transactions.states import COMPLETE_COMMIT, ONGOING, PREPARE_COMMIT
from tests.core.transactions.driving import T0, T1, Driver
from tests.core.work import Sizes, lines_run

MANY, FEW = 10_000, 100
OPEN = 20


def with_ids(count: int, config: TransactionConfig | None = None) -> Driver:
    """Give a shard with so many ids, of which OPEN are in a transaction that is not due."""
    driver = Driver(config or TransactionConfig())
    for n in range(count):
        driver.given(COMPLETE_COMMIT, Producer(n, 3), name=f"id-{n:05}")
    for n in range(OPEN):
        driver.given(ONGOING, Producer(n, 3), name=f"id-{n:05}", partitions=(T0,), timeout_ms=800_000)
    return driver


@pytest.fixture(scope="module")
def sizes() -> Sizes[Driver]:
    """A shard with few ids and one with many, for tests that leave them as they are."""
    return Sizes(with_ids(FEW), with_ids(MANY))


def test_loading_takes_each_record_in_once_and_all_alike() -> None:
    """Lines a record: those of the last thousand are no more than those of the first."""
    log = with_ids(MANY).log
    shard = TransactionShard(TransactionConfig(), 1, lambda: 1, lambda: 2)

    def load(begin: int, end: int) -> int:
        return lines_run(lambda: [shard.replay(log[n], At(n)) for n in range(begin, end)])

    first = load(0, 1_000)
    load(1_000, MANY - 1_000)
    assert load(MANY - 1_000, MANY) == first
    assert shard.held() == MANY


def test_a_pass_over_open_transactions_does_not_look_at_those_at_rest(sizes: Sizes[Driver]) -> None:
    few, many = sizes.lines_run(lambda driver: driver.advance(driver.config.abort_timed_out_interval_ms))
    assert few == many


def test_a_pass_looks_at_none_of_ten_thousand_open_transactions_but_those_whose_time_is_over() -> None:
    work = []
    for count in (FEW, MANY):
        driver = Driver()
        for n in range(count):
            driver.given(ONGOING, Producer(n, 3), name=f"id-{n:05}", partitions=(T0,), timeout_ms=800_000)
        for n in range(3):
            driver.given(ONGOING, Producer(n, 3), name=f"late-{n}", partitions=(T0,), timeout_ms=1_000)
        work.append(lines_run(lambda d=driver: d.advance(d.config.abort_timed_out_interval_ms)))  # type: ignore[misc]
        assert driver.shard.tally.time_outs == 3
    assert work[0] == work[1]


def test_whom_to_tell_is_found_without_a_look_at_who_was_told_or_is_not_committed() -> None:
    """Many wait for their markers already, and as many are decided and not committed yet."""
    work = []
    for count in (FEW, MANY):
        driver = Driver()
        for n in range(count):
            driver.given(PREPARE_COMMIT, Producer(n, 3), name=f"told-{n}", partitions=(T0,))
        assert len(driver.shard.decided(driver.shard.image)) == count
        driver.given(PREPARE_COMMIT, Producer(count, 3), name="id", partitions=(T0,))
        committed = driver.shard.image
        for n in range(count):
            driver.given(PREPARE_COMMIT, Producer(n, 3), name=f"later-{n}", partitions=(T0,))
        found: list[Ending] = []
        work.append(lines_run(lambda d=driver, f=found, c=committed: f.extend(d.shard.decided(c))))  # type: ignore[misc]
        assert [one.transactional_id for one in found] == ["id"]
        assert len(driver.shard.decided(driver.shard.image)) == count
    assert work[0] == work[1]


def test_a_transaction_costs_the_same_among_many(sizes: Sizes[Driver]) -> None:
    def transaction(driver: Driver) -> None:
        producer = driver.initialised(name="one more")
        driver.add(producer, T0, T1, name="one more")
        driver.end(producer, commit=True, name="one more")
        driver.complete()
        assert driver.metadata("one more").state is COMPLETE_COMMIT

    few, many = sizes.lines_run(transaction)
    assert few == many


def test_ids_that_nobody_uses_go_in_passes_that_visit_each_once() -> None:
    config = TransactionConfig(
        id_expiration_ms=10**9, remove_expired_interval_ms=1_000, abort_timed_out_interval_ms=10**9
    )
    work = []
    for count in (MANY, 2 * MANY):
        driver = with_ids(count, config)
        driver.now_ms = 999
        first = lines_run(lambda d=driver: d.advance(1))  # type: ignore[misc]
        rest = lines_run(lambda d=driver, n=count: d.advance(shards.PAUSE_MS * (n // shards.EXPIRIES_A_PASS - 1)))  # type: ignore[misc]
        work.append((first, first + rest))
    (one_pass, round_), (other_pass, other_round) = work
    assert one_pass == other_pass, "a pass is bounded"
    assert other_round == pytest.approx(2 * round_, rel=0.01)
    assert one_pass < 10 * shards.EXPIRIES_A_PASS


def test_taking_over_finds_what_was_ending_and_nothing_else() -> None:
    driver = with_ids(MANY)
    driver.given(PREPARE_COMMIT, Producer(7, 3), name="id-00777", partitions=(T0,))
    driver.take_over()
    found: list[Ending] = []
    assert lines_run(lambda: found.extend(driver.shard.decided(driver.shard.image))) < 50
    assert [one.transactional_id for one in found] == ["id-00777"]
