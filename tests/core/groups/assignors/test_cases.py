"""Assignments worked out by hand: joining, leaving, changed subscriptions, static members."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from barnabas.core.groups.assignors import ASSIGNORS
from barnabas.core.groups.assignors.spec import MemberSpec

from .groups import Cluster, group, member, shown

Shown = dict[str, dict[int, list[int]]]


@dataclass(frozen=True)
class Case:
    what: str
    assignor: str
    cluster: Cluster
    members: dict[str, MemberSpec]
    want: Shown


CASES = [
    Case("nobody", "uniform", Cluster.of(3), {}, {}),
    Case("nobody", "range", Cluster.of(3), {}, {}),
    Case("no topics wanted", "uniform", Cluster.of(3), {"a": member()}, {"a": {}}),
    Case("no topics wanted", "range", Cluster.of(3), {"a": member()}, {"a": {}}),
    Case(
        "two members, two topics of three",
        "range",
        Cluster.of(3, 3),
        {"a": member(1, 2), "b": member(1, 2)},
        {"a": {1: [0, 1], 2: [0, 1]}, "b": {1: [2], 2: [2]}},
    ),
    Case(
        "three members, each topic has an own set of them",
        "range",
        Cluster.of(3, 3, 2),
        {"a": member(1, 2), "b": member(3), "c": member(2, 3)},
        {"a": {1: [0, 1, 2], 2: [0, 1]}, "b": {3: [0]}, "c": {2: [2], 3: [1]}},
    ),
    Case(
        "more members than partitions: the last get nothing",
        "range",
        Cluster.of(2, 2),
        {m: member(1, 2) for m in "abcd"},
        {"a": {1: [0], 2: [0]}, "b": {1: [1], 2: [1]}, "c": {}, "d": {}},
    ),
    Case(
        "static members come first, by instance id and not by member id; what anybody had is no matter",
        "range",
        Cluster.of(3),
        {
            "a": member(1, has={1: [0]}),
            "b": member(1, instance_id="i2"),
            "c": member(1, instance_id="i1"),
        },
        {"a": {1: [2]}, "b": {1: [1]}, "c": {1: [0]}},
    ),
    Case(
        "the first assignment: the one left over goes to the last member",
        "uniform",
        Cluster.of(3, 4),
        {"a": member(1, 2), "b": member(1, 2)},
        {"a": {1: [0, 1, 2]}, "b": {2: [0, 1, 2, 3]}},
    ),
    Case(
        "a third member joins: it gets what is above the others' share, and the extra ones stay where they are",
        "uniform",
        Cluster.of(8),
        {"a": member(1, has={1: [0, 1, 2, 3]}), "b": member(1, has={1: [4, 5, 6, 7]}), "c": member(1)},
        {"a": {1: [0, 1, 2]}, "b": {1: [4, 5, 6]}, "c": {1: [3, 7]}},
    ),
    Case(
        "one of three has left: the others keep all they have",
        "uniform",
        Cluster.of(6),
        {"a": member(1, has={1: [0, 3]}), "c": member(1, has={1: [2, 5]})},
        {"a": {1: [0, 1, 3]}, "c": {1: [2, 4, 5]}},
    ),
    Case(
        "nobody wants topic 1 any more",
        "uniform",
        Cluster.of(2, 2),
        {"a": member(2, has={1: [0], 2: [0]}), "b": member(2, has={1: [1], 2: [1]})},
        {"a": {2: [0]}, "b": {2: [1]}},
    ),
    Case(
        "partitions were added",
        "uniform",
        Cluster.of(4, 3),
        {"a": member(1, 2, has={1: [0], 2: [0]}), "b": member(1, 2, has={1: [1], 2: [1]})},
        {"a": {1: [0, 2], 2: [0]}, "b": {1: [1, 3], 2: [1, 2]}},
    ),
    Case(
        "different topics: who may take less gets it",
        "uniform",
        Cluster.of(3, 4),
        {"a": member(1), "b": member(1, 2)},
        {"a": {1: [0, 1, 2]}, "b": {2: [0, 1, 2, 3]}},
    ),
    Case(
        "different topics: a new subscriber relieves the most loaded; topic 1, balanced first, is balanced again",
        "uniform",
        Cluster.of(6, 2),
        {"a": member(1, 2, has={1: [0, 1, 2], 2: [0, 1]}), "b": member(1, has={1: [3, 4, 5]}), "c": member(2)},
        {"a": {1: [0, 1, 5]}, "b": {1: [2, 3, 4]}, "c": {2: [0, 1]}},
    ),
    Case(
        "different topics: a member gives up a topic",
        "uniform",
        Cluster.of(2, 2),
        {"a": member(1, has={1: [0], 2: [0]}), "b": member(1, 2, has={1: [1], 2: [1]})},
        {"a": {1: [0, 1]}, "b": {2: [0, 1]}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.assignor}: {case.what}")
def test_assignment(case: Case) -> None:
    assert shown(ASSIGNORS[case.assignor](group(case.members), case.cluster)) == case.want
