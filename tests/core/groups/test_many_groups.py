"""Ten thousand groups on one coordinator: work goes by what there is to do, not by how many there are."""

from __future__ import annotations

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.shard import GroupShard
from tests.core.groups.driving import Driver
from tests.core.work import Sizes, lines_run

MANY, FEW = 10_000, 100


def with_groups(count: int) -> Driver:
    """Give a shard with so many groups, each of which has committed an offset."""
    driver = Driver()
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
