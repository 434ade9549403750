"""Partitions are shared out as Java's assignors do it."""

from __future__ import annotations

from barnabas.client.assignors import assignor_names, range_, round_robin
from barnabas.model.topic_partition import TopicPartition


def numbers(assignment: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {member: [f"{t}{p}" for t, p in partitions] for member, partitions in assignment.items()}


def test_range_gives_runs_and_the_rest_to_the_first() -> None:
    given = range_({"m2": ["a", "b"], "m1": ["a", "b"], "m3": ["b"]}, {"a": 3, "b": 4})
    assert numbers(given) == {
        "m1": ["a0", "a1", "b0", "b1"],
        "m2": ["a2", "b2"],
        "m3": ["b3"],
    }


def test_round_robin_deals_out_and_passes_over() -> None:
    given = round_robin({"m1": ["a", "b"], "m2": ["a"]}, {"a": 3, "b": 2})
    assert numbers(given) == {"m1": ["a0", "a2", "b0", "b1"], "m2": ["a1"]}


def test_topics_that_are_not_there_are_left_out() -> None:
    assert numbers(round_robin({"m1": ["gone"]}, {})) == {"m1": []}
    assert numbers(range_({"m1": ["gone"]}, {})) == {"m1": []}


def test_javas_class_names_are_understood() -> None:
    java = "org.apache.kafka.clients.consumer"
    assert assignor_names([f"{java}.RangeAssignor", f"{java}.CooperativeStickyAssignor"]) == ["range"]
    assert assignor_names(["roundrobin"]) == ["roundrobin"]
