"""Ten thousand groups on one coordinator: work goes by what there is to do, not by how many there are."""

from __future__ import annotations

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.retention import AT_ONCE
from barnabas.core.groups.shard import GroupShard
from tests.core.groups.driving import Driver
from tests.core.work import Sizes, lines_run

MANY, FEW = 10_000, 100
EXPIRING = GroupConfig(offsets_retention_ms=100_000, offsets_retention_check_interval_ms=10_000)


def with_groups(count: int, config: GroupConfig | None = None) -> Driver:
    """Give a shard with so many groups, each of which has committed an offset."""
    driver = Driver(config or GroupConfig())
    for n in range(count):
        driver.commit({("t", 0): n}, group=f"group-{n:05}")
    return driver


@pytest.fixture(scope="module")
def sizes() -> Sizes[Driver]:
    """A shard with few groups and one with many."""
    return Sizes(with_groups(FEW), with_groups(MANY))


def test_loading_takes_each_record_in_once_and_all_alike(sizes: Sizes[Driver]) -> None:
    records = with_groups(MANY).records
    shard = GroupShard(GroupConfig(), sizes.small.new_uuid)

    def load(begin: int, end: int) -> int:
        return lines_run(lambda: [shard.replay(records[n], At(n)) for n in range(begin, end)])

    first = load(0, 1_000)
    load(1_000, len(records) - 1_000)
    assert load(len(records) - 1_000, len(records)) == first


def test_time_that_passes_costs_nothing_while_nothing_is_due(sizes: Sizes[Driver]) -> None:
    few, many = sizes.lines_run(lambda driver: driver.advance(100))
    assert few == many


def test_a_life_of_a_group_costs_the_same_among_many(sizes: Sizes[Driver]) -> None:
    def life(driver: Driver) -> None:
        member = driver.join(group="one more", version=3)
        driver.advance(3_000)
        (joined,) = [member.response]
        driver.sync_all([joined], group="one more")
        for _ in range(10):
            driver.heartbeat(joined.member_id, joined.generation_id, group="one more")
            driver.commit({("t", 1): 7}, group="one more", member_id=joined.member_id, generation=joined.generation_id)
            driver.advance(1_000)
        driver.advance(11_000)  # its session ends

    few, many = sizes.lines_run(life)
    assert few == many
    assert few < 5_000


def clean_up(driver: Driver, ms: int) -> list[int]:
    """Let time pass in which there is nothing but retention; give how many records each step of it wrote."""
    steps = []
    end = driver.now_ms + ms
    while (due := driver.shard.next_deadline_ms()) is not None and due <= end:
        driver.now_ms = due
        step = driver.shard.tick(driver.now)
        assert step is not None
        assert driver.shard.tick(driver.now) is None, "the next step waits, so that requests are served"
        driver.carry(step)
        steps.append(len(step.records))
    driver.now_ms = end
    return steps


def test_offsets_and_groups_expire_a_few_at_a_time() -> None:
    driver = with_groups(1_000, EXPIRING)
    written = clean_up(driver, EXPIRING.offsets_retention_ms + 1_000)
    assert driver.shard.held() == 0
    assert sum(written) == 2 * 1_000  # an offset and its group, each once
    assert max(written) <= AT_ONCE + 1


def test_a_step_of_retention_costs_the_same_among_many_groups() -> None:
    few, many = with_groups(1_000), with_groups(2_000)
    for driver in (few, many):
        driver.now_ms = driver.shard.next_deadline_ms() or 0
        driver.shard.tick(driver.now)  # the first of the round lists the groups
        driver.now_ms = driver.shard.next_deadline_ms() or 0
    assert lines_run(lambda: few.shard.tick(few.now)) == lines_run(lambda: many.shard.tick(many.now))


def test_a_group_with_many_offsets_counts_by_these() -> None:
    driver = Driver(EXPIRING)
    for n in range(3):
        driver.commit({("t", p): 0 for p in range(AT_ONCE)}, group=f"group-{n}")
    written = clean_up(driver, EXPIRING.offsets_retention_ms + 1_000)
    assert [count for count in written if count] == [AT_ONCE + 1] * 3


def test_rounds_begin_at_the_interval_whatever_comes_and_goes_in_them() -> None:
    driver = with_groups(1_000, EXPIRING)
    begins = EXPIRING.offsets_retention_ms
    driver.advance(begins)
    driver.commit({("t", 0): 7}, group="group-00999")  # it was to be looked at in this round
    driver.carry(driver.shard.delete_groups(["group-00998"]))
    driver.commit({("t", 0): 7}, group="late")
    driver.advance(EXPIRING.offsets_retention_check_interval_ms - 1)
    assert sorted(driver.shard.image.groups) == ["group-00999", "late"]
    assert driver.shard.next_deadline_ms() == begins + EXPIRING.offsets_retention_check_interval_ms
    driver.advance(EXPIRING.offsets_retention_ms)
    driver.advance(EXPIRING.offsets_retention_check_interval_ms)
    assert driver.shard.held() == 0


def test_a_round_that_takes_longer_than_the_interval_is_brought_to_its_end() -> None:
    driver = with_groups(1_000, GroupConfig(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=15))
    driver.advance(1_000 + 500)
    assert driver.shard.held() == 0


def test_whoever_takes_over_in_a_round_begins_anew() -> None:
    driver = with_groups(1_000, EXPIRING)
    driver.advance(EXPIRING.offsets_retention_ms)
    left = driver.shard.held()
    assert 0 < left < 1_000
    successor = Driver(EXPIRING, now_ms=driver.now_ms)
    for offset, record in enumerate(driver.records):
        successor.shard.replay(record, At(offset))
    assert successor.shard.held() == left
    successor.advance(2 * EXPIRING.offsets_retention_check_interval_ms)
    assert successor.shard.held() == 0
