"""Topics, ISRs, elections and reassignments, as Apache Kafka's controller decides them."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Both
from .side import ControllerSide, an_id

pytestmark = [pytest.mark.peer]

TOPIC, BROKER = 2, 4


def test_topics_by_hand(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2)
        side.register(3)
        side.topic("t", [2, 1, 3], [3, 2, 1], retention__ms="7")
        side.topic("t", [1])
        side.topic("T.a", [1])
        side.topic("T_a", [1])
        side.topic("fenced", [3])
        side.topic("uneven", [1, 2], [1])
        side.topic("twice", [1, 1])
        side.topic("nobody", [9])
        side.topic("empty", [])
        side.topic("bad", [1], retention__ms="x")
        side.topic("..", [1])

        def grown(name: str, count: int, *replicas: list[int]) -> None:
            assignments = [{"broker_ids": r} for r in replicas] or None
            side.call(
                "CreatePartitions",
                topics=[{"name": name, "count": count, "assignments": assignments}],
                timeout_ms=60_000,
                validate_only=False,
            )

        grown("t", 3, [1, 2, 3])
        grown("t", 3)
        grown("t", 2)
        grown("t", 5, [1, 2, 3])
        grown("t", 4, [1, 2])
        grown("t", 4, [3, 3, 1])
        grown("nowhere", 4)
        side.call("CreateTopics", topics=[{"name": "zero", "num_partitions": 0, "replication_factor": 1}])
        side.call("CreateTopics", topics=[{"name": "minus", "num_partitions": 1, "replication_factor": -2}])
        side.call("CreateTopics", topics=[{"name": "many", "num_partitions": 1, "replication_factor": 4}])
        side.call("CreateTopics", topics=[{"name": "much", "num_partitions": 10_001, "replication_factor": 1}])
        side.call("DeleteTopics", topics=[{"name": None, "topic_id": an_id(9, 9)}], timeout_ms=60_000)

    both.run(script)


def test_isrs(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3, 4)
        side.topic("t", [1, 2, 3], [2, 1, 3])
        now: dict[str, Any] = {"leader_epoch": 0, "partition_epoch": 0}
        side.alter_partition(9, "t", **now)
        side.alter_partition(1, "unknown", **now)
        side.alter_partition(1, "t", 7, **now)
        side.alter_partition(1, "t", leader_epoch=1, partition_epoch=0)
        side.alter_partition(1, "t", leader_epoch=0, partition_epoch=1)
        side.alter_partition(2, "t", **now)
        side.alter_partition(1, "t", isr=[2, 3], **now)
        side.alter_partition(1, "t", isr=[], **now)
        side.alter_partition(1, "t", isr=[1, 1], **now)
        side.alter_partition(1, "t", isr=[1, 4], **now)
        side.alter_partition(1, "t", leader_recovery_state=1, **now)
        side.alter_partition(1, "t", isr=[1, 2], leader_recovery_state=1, **now)
        wrong = [{"broker_id": 1, "broker_epoch": side.epoch(1)}, {"broker_id": 2, "broker_epoch": 3}]
        side.alter_partition(1, "t", new_isr_with_epochs=wrong, **now)
        unknown = [{"broker_id": 1, "broker_epoch": -1}, {"broker_id": 2, "broker_epoch": -1}]
        side.alter_partition(1, "t", new_isr_with_epochs=unknown, **now)
        side.alter_partition(1, "t", isr=[1, 2], **now)
        side.alter_partition(1, "t", isr=[1, 2], leader_epoch=0, partition_epoch=1)
        side.alter_partition(1, "t", isr=[2, 3, 1], leader_epoch=0, partition_epoch=1)
        side.alter_partition(1, "t", 0, 2, isr=[1], leader_epoch=0, partition_epoch=2)
        side.beat(3, want_fence=True)
        side.alter_partition(1, "t", isr=[1, 3], leader_epoch=0, partition_epoch=3)
        side.beat(3)
        side.alter_partition(1, "t", isr=[1, 3], leader_epoch=0, partition_epoch=3)
        side.beat(1, want_fence=True)
        side.alter_partition(3, "t", isr=[3], leader_epoch=0, partition_epoch=5)
        side.alter_partition(3, "t", isr=[3, 2], leader_epoch=1, partition_epoch=5)
        side.alter_partition(1, "t", isr=[1], leader_epoch=1, partition_epoch=6)

    both.run(script)


def elect(side: ControllerSide, kind: int, partitions: list[int] | None, topic: str = "t") -> None:
    """Ask for elections."""
    wanted = None if partitions is None else [{"topic": topic, "partitions": partitions}]
    side.call("ElectLeaders", election_type=kind, topic_partitions=wanted, timeout_ms=60_000)


def test_elections(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3)
        side.topic("t", [1, 2], [2, 3], [3], [3, 1])
        side.beat(1, want_fence=True)
        side.beat(3, want_fence=True)
        side.beat(1)
        elect(side, 0, [0, 1, 2, 9])
        elect(side, 0, [0], "nowhere")
        elect(side, 1, [0, 2])
        side.alter_partition(2, "t", 0, isr=[2, 1], leader_epoch=1, partition_epoch=1)
        elect(side, 0, None)
        elect(side, 1, None)
        elect(side, 1, [3])
        elect(side, 5, [0])
        side.alter_partition(1, "t", 3, isr=[1], leader_epoch=3, partition_epoch=3, leader_recovery_state=1)
        side.alter_partition(1, "t", 3, isr=[1, 3], leader_epoch=3, partition_epoch=3)
        side.alter_partition(1, "t", 3, isr=[1], leader_epoch=3, partition_epoch=3, leader_recovery_state=0)
        side.beat(3)
        side.alter_partition(1, "t", 3, isr=[1, 3], leader_epoch=3, partition_epoch=4)
        elect(side, 0, [3])

    both.run(script)


def test_unclean_elections_where_the_topic_allows_them(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3)
        side.topic("t", [1, 2, 3], [1, 3, 2], unclean__leader__election__enable="true")
        side.topic("safe", [1, 2, 3])
        side.alter_partition(1, "t", isr=[1], leader_epoch=0, partition_epoch=0)
        side.alter_partition(1, "safe", isr=[1], leader_epoch=0, partition_epoch=0)
        side.beat(1, want_fence=True)
        side.beat(2, want_fence=True)
        side.beat(3, want_fence=True)
        side.configure(TOPIC, "safe", unclean__leader__election__enable="true")
        side.beat(2)
        side.beat(3)
        side.beat(1)
        side.configure(BROKER, "", unclean__leader__election__enable="true")
        side.configure(BROKER, "", 1, unclean__leader__election__enable=None)

    both.run(script)


def test_reassignments(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3, 4)
        side.register(5)
        side.topic("t", [1, 2], [1, 2, 3], [2, 1], [1, 2])
        side.reassign("t", None)
        side.reassign("t", [9, 1])
        side.reassign("t", [])
        side.reassign("t", [1, 1])
        side.reassign("nowhere", [1])
        side.reassign("t", [1], 9)
        side.reassign("t", [1, 2, 3], allow_replication_factor_change=False)
        side.reassign("t", [1, 2])
        side.reassign("t", [2, 1])  # only another preferred leader
        side.reassign("t", [3, 4])
        side.call("ListPartitionReassignments", topics=None, timeout_ms=60_000)
        side.call(
            "ListPartitionReassignments", topics=[{"name": "t", "partition_indexes": [0, 1, 9]}], timeout_ms=60_000
        )
        side.reassign("t", [3, 4, 1], allow_replication_factor_change=False)
        side.alter_partition(1, "t", isr=[1, 2, 3], leader_epoch=0, partition_epoch=2)
        side.alter_partition(1, "t", isr=[1, 2, 3, 4], leader_epoch=0, partition_epoch=3)  # done: 1 no longer leads
        side.alter_partition(3, "t", isr=[3], leader_epoch=1, partition_epoch=4)
        side.reassign("t", [1], 1)  # fewer: at once
        side.reassign("t", [3, 1], 2)
        side.reassign("t", None, 2)
        side.reassign("t", [3, 4], 2)
        side.alter_partition(2, "t", 2, isr=[2, 3], leader_epoch=1, partition_epoch=3)
        side.reassign("t", None, 2)
        side.reassign("t", [5, 4], 3)
        side.reassign("t", [1, 5], 3)
        side.alter_partition(1, "t", 3, isr=[1, 4], leader_epoch=0, partition_epoch=2)
        side.beat(1, want_fence=True)
        side.beat(2, want_fence=True)
        side.reassign("t", None, 3)
        side.configure(TOPIC, "t", unclean__leader__election__enable="true")
        side.reassign("t", None, 3)
        side.call("ListPartitionReassignments", topics=None, timeout_ms=60_000)

    both.run(script)


def test_configs_through_a_controller(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1)
        side.topic("t", [1])
        side.configure(TOPIC, "t", retention__ms="5", cleanup__policy="compact")
        side.configure(TOPIC, "t", 2, cleanup__policy="delete")
        side.configure(TOPIC, "t", 3, cleanup__policy="compact")
        side.configure(TOPIC, "t", 2, retention__ms="6")
        side.configure(TOPIC, "t", retention__ms="5")
        side.configure(TOPIC, "t", 1, retention__ms=None)
        side.configure(TOPIC, "nowhere", retention__ms="5")
        side.configure(BROKER, "1", cordoned__log__dirs="/a")
        side.configure(BROKER, "1", cordoned__log__dirs="")
        side.configure(BROKER, "", cordoned__log__dirs="*")
        side.configure(BROKER, "1", min__insync__replicas="2")
        side.configure(BROKER, "1", min__insync__replicas="2")
        side.configure(BROKER, "1", 1, min__insync__replicas=None)
        side.configure(BROKER, "1", 1, cordoned__log__dirs=None)
        side.configure(BROKER, "77", min__insync__replicas="2")

    both.run(script)
