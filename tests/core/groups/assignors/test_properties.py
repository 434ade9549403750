"""What is true of every assignment, whatever the group."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.groups.assignors import ASSIGNORS
from barnabas.core.groups.assignors.spec import Assignment, GroupSpec, PartitionAssignorError
from barnabas.model.uuid import Uuid

from .groups import Cluster, after, group, member, situations

names = pytest.mark.parametrize("name", sorted(ASSIGNORS))


def owners(assignment: Assignment) -> list[tuple[Uuid, int]]:
    return [(t, p) for topics in assignment.values() for t, numbers in topics.items() for p in numbers]


def sizes(assignment: Assignment) -> dict[str, int]:
    return {member_id: sum(map(len, topics.values())) for member_id, topics in assignment.items()}


def retained(spec: GroupSpec, assignment: Assignment) -> int:
    return sum(
        len(numbers & one.assigned.get(topic_id, frozenset()))
        for member_id, one in spec.members.items()
        for topic_id, numbers in assignment[member_id].items()
    )


@names
@given(situations())
def test_each_partition_of_a_wanted_topic_goes_to_one_member_that_wants_it(
    name: str, situation: tuple[GroupSpec, Cluster]
) -> None:
    spec, cluster = situation
    assignment = ASSIGNORS[name](spec, cluster)
    wanted = {topic_id for one in spec.members.values() for topic_id in one.subscribed}
    assert sorted(owners(assignment)) == sorted((t, p) for t in wanted for p in range(cluster.sizes[t]))
    assert assignment.keys() == spec.members.keys()
    for member_id, topics in assignment.items():
        assert topics.keys() <= spec.members[member_id].subscribed
        assert all(topics.values()), "an empty set stands for nothing"


@names
@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_members_and_topics_changes_nothing(
    name: str, situation: tuple[GroupSpec, Cluster], random: object
) -> None:
    spec, cluster = situation
    shuffled = list(spec.members.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ASSIGNORS[name](GroupSpec(dict(shuffled), spec.homogeneous), cluster) == ASSIGNORS[name](spec, cluster)


@names
@given(situations())
def test_what_is_assigned_stays(name: str, situation: tuple[GroupSpec, Cluster]) -> None:
    spec, cluster = situation
    first = ASSIGNORS[name](spec, cluster)
    assert ASSIGNORS[name](after(spec, first), cluster) == first


@given(situations(homogeneous=True))
def test_members_alike_differ_by_one_partition_at_most(situation: tuple[GroupSpec, Cluster]) -> None:
    have = sizes(ASSIGNORS["uniform"](*situation)).values()
    assert max(have) - min(have) <= 1


@given(situations(homogeneous=True))
def test_members_alike_lose_nothing_that_balance_does_not_cost(situation: tuple[GroupSpec, Cluster]) -> None:
    spec, cluster = situation
    had = [sum(len(one.assigned.get(t, ())) for t in one.subscribed) for one in spec.members.values()]
    assignment = ASSIGNORS["uniform"](spec, cluster)
    low, extras = divmod(len(owners(assignment)), len(had))
    most = sum(min(size, low) for size in had) + min(extras, sum(size > low for size in had))
    assert retained(spec, assignment) == most


@given(situations(homogeneous=False))
def test_no_partition_would_be_better_off_with_another_subscriber(situation: tuple[GroupSpec, Cluster]) -> None:
    spec, cluster = situation
    assignment = ASSIGNORS["uniform"](spec, cluster)
    have = sizes(assignment)
    for owner, topics in assignment.items():
        for topic_id in topics:
            others = (m for m, one in spec.members.items() if topic_id in one.subscribed)
            assert all(have[owner] - have[other] <= 1 for other in others)


@given(situations(homogeneous=False))
def test_members_that_have_a_balanced_assignment_keep_all_of_it_when_one_with_nothing_to_take_joins(
    situation: tuple[GroupSpec, Cluster],
) -> None:
    spec, cluster = situation
    first = ASSIGNORS["uniform"](spec, cluster)
    joined = GroupSpec({**after(spec, first).members, "new": member()}, homogeneous=False)
    assert ASSIGNORS["uniform"](joined, cluster) == {**first, "new": {}}


@given(situations())
def test_ranges_are_runs_of_neighbours_of_nearly_one_length(situation: tuple[GroupSpec, Cluster]) -> None:
    spec, cluster = situation
    assignment = ASSIGNORS["range"](spec, cluster)
    for topic_id in cluster.sizes:
        subscribers = [m for m, one in spec.members.items() if topic_id in one.subscribed]
        runs = [sorted(assignment[m].get(topic_id, ())) for m in subscribers]
        assert all(run == list(range(run[0], run[-1] + 1)) for run in runs if run)
        assert not runs or max(map(len, runs)) - min(map(len, runs)) <= 1


@names
@pytest.mark.parametrize("homogeneous", [True, False])
def test_a_topic_that_is_not_there_is_refused(name: str, homogeneous: bool) -> None:
    members = {"a": member(1, 2), "b": member(1, 2) if homogeneous else member(1)}
    with pytest.raises(PartitionAssignorError, match="does not exist"):
        ASSIGNORS[name](group(members), Cluster.of(3))


def test_a_partition_that_two_members_claim_stays_with_one() -> None:
    members = {"a": member(1, has={1: [0, 1]}), "b": member(1, has={1: [1, 2]})}
    for spec in (group(members), GroupSpec(members, homogeneous=False)):
        counts = Counter(owners(ASSIGNORS["uniform"](spec, Cluster.of(3))))
        assert len(counts) == 3
        assert set(counts.values()) == {1}


def test_partitions_that_a_topic_has_no_more_are_forgotten() -> None:
    members = {"a": member(1, has={1: [0, 1, 7]}), "b": member(1)}
    for spec in (group(members), GroupSpec(members, homogeneous=False)):
        assert sorted(owners(ASSIGNORS["uniform"](spec, Cluster.of(2))))[-1][1] == 1


@names
@pytest.mark.parametrize("homogeneous", [True, False])
def test_a_thousand_members_and_ten_thousand_partitions_take_under_a_second(name: str, homogeneous: bool) -> None:
    cluster = Cluster.of(*[100] * 100)
    half = tuple(range(1, 51))
    everything = tuple(range(1, 101))
    members = {f"m{i:04}": member(*(half if i % 2 and not homogeneous else everything)) for i in range(1_000)}
    spec = group(members)
    first = ASSIGNORS[name](spec, cluster)
    gone = GroupSpec({m: one for m, one in after(spec, first).members.items() if m > "m0004"}, spec.homogeneous)
    began = time.thread_time()
    ASSIGNORS[name](gone, cluster)
    assert time.thread_time() - began < 1.0
