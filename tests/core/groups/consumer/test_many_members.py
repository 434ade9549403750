"""A hundred members in one group: a heartbeat goes by what changed, a join takes a glance at each of the others."""

from __future__ import annotations

import pytest

from barnabas.core.groups.config import Bounded, ConsumerGroupConfig, GroupConfig
from barnabas.core.groups.consumer.group import ConsumerGroupState
from tests.core.groups.consumer.driving import Consumer, ConsumerDriver
from tests.core.work import Sizes

AT_ONCE = GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=Bounded(0, 0, 15_000)))
LINES_A_MEMBER = 40


def settled(members: int) -> tuple[ConsumerDriver, list[Consumer]]:
    """Give a group of so many members, each of which holds one of as many partitions."""
    driver = ConsumerDriver(AT_ONCE)
    driver.cluster.create("t", members)
    consumers = [Consumer(f"member-{n:03}", names=["t"]) for n in range(members)]
    for _ in range(4):
        for consumer in consumers:
            driver.beat(consumer)
    assert driver.group().state is ConsumerGroupState.STABLE
    assert all(len(consumer.held) == 1 for consumer in consumers)
    return driver, consumers


@pytest.fixture(scope="module")
def sizes() -> Sizes[tuple[ConsumerDriver, list[Consumer]]]:
    """A group of few and one of many."""
    return Sizes(settled(50), settled(100))


def test_a_heartbeat_costs_the_same_among_many(sizes: Sizes[tuple[ConsumerDriver, list[Consumer]]]) -> None:
    few, many = sizes.lines_run(lambda of: of[0].beat(of[1][7]))
    assert few == many


def test_a_join_takes_a_glance_at_each_other_member(sizes: Sizes[tuple[ConsumerDriver, list[Consumer]]]) -> None:
    def join_and_leave(of: tuple[ConsumerDriver, list[Consumer]]) -> None:
        driver, _ = of
        late = Consumer("late", names=["t"])
        driver.beat(late)
        driver.away(late)

    few, many = sizes.lines_run(join_and_leave)
    assert many - few < 50 * LINES_A_MEMBER


def test_what_members_ask_for_is_counted_again_only_when_it_changes() -> None:
    driver, consumers = settled(10)
    driver.away(consumers.pop())
    before = driver.group()
    for consumer in consumers:
        driver.beat(consumer)
    assert driver.group().state is ConsumerGroupState.STABLE
    assert driver.group().members["member-000"].epoch > before.members["member-000"].epoch
    assert driver.group().asked is before.asked
