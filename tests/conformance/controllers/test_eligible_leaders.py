"""Eligible leader replicas (KIP-966), as Apache Kafka's controller keeps them."""

from __future__ import annotations

import pytest

from .conftest import Both, Start
from .side import ControllerSide
from .test_partitions import BROKER, TOPIC, elect

pytestmark = [pytest.mark.peer]


def test_replicas_stay_eligible_below_the_minimum(with_elr: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3)
        side.topic("t", [1, 2, 3], min__insync__replicas="2")
        side.topic("one", [1], min__insync__replicas="2")
        side.alter_partition(1, "t", isr=[1, 2], leader_epoch=0, partition_epoch=0)
        side.alter_partition(1, "t", isr=[1], leader_epoch=0, partition_epoch=1)
        side.beat(1, want_fence=True)  # 2 is eligible, and leads
        side.beat(2, want_fence=True)
        side.beat(3)
        elect(side, 0, [0])
        elect(side, 1, [0])
        side.beat(2)
        side.beat(1)
        side.alter_partition(2, "t", isr=[2, 1], leader_epoch=2, partition_epoch=4)
        side.alter_partition(2, "t", isr=[2, 1], leader_epoch=3, partition_epoch=5)

    with_elr.run(script)


def test_the_last_known_leader_leads_when_nobody_is_eligible(with_elr: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2)
        side.topic("t", [1, 2], min__insync__replicas="2")
        side.beat(2, want_fence=True)
        side.beat(1, want_fence=True)
        for broker in (1, 2):  # both lose their logs' ends
            side.brokers[broker].incarnation += 1
            side.register(broker, previous_broker_epoch=-1)
        side.beat(2)
        elect(side, 0, [0])
        side.beat(1)
        side.alter_partition(1, "t", isr=[1], leader_epoch=3, partition_epoch=5, leader_recovery_state=0)
        elect(side, 1, [0])

    with_elr.run(script)


def test_a_clean_stop_keeps_a_replica_eligible_and_an_unclean_one_does_not(with_elr: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3)
        side.topic("t", [1, 2, 3], [2, 1, 3], min__insync__replicas="3")
        side.beat(2, want_fence=True, want_shut_down=True)
        clean = side.epoch(2)
        side.brokers[2].incarnation += 1
        side.register(2, previous_broker_epoch=clean)
        side.brokers[2].incarnation += 1
        side.register(2, previous_broker_epoch=clean)
        side.beat(2)
        side.brokers[3].incarnation += 1
        side.beat(3, want_fence=True, want_shut_down=True)
        side.register(3, 2)  # a version that cannot say
        side.call("UnregisterBroker", broker_id=1)

    with_elr.run(script)


def test_another_minimum_makes_nobody_eligible(controllers: Start) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3)
        side.topic("t", [1, 2, 3], min__insync__replicas="3")
        side.topic("u", [1, 2, 3])
        side.alter_partition(1, "t", isr=[1, 2], leader_epoch=0, partition_epoch=0)
        side.configure(TOPIC, "t", min__insync__replicas="2")
        side.alter_partition(1, "t", isr=[1], leader_epoch=0, partition_epoch=2)
        side.configure(BROKER, "", min__insync__replicas="2")
        side.alter_partition(1, "u", isr=[1], leader_epoch=0, partition_epoch=0)
        side.configure(BROKER, "", 1, min__insync__replicas=None)
        side.configure(BROKER, "1", min__insync__replicas="2")
        side.configure(TOPIC, "t", 1, min__insync__replicas=None)
        side.call(
            "AlterConfigs",
            resources=[{"resource_type": BROKER, "resource_name": "", "configs": []}],
            validate_only=False,
        )
        side.configure(BROKER, "", min__insync__replicas="1")

    # Kafka's controller keeps what it cleared in an index and fails on it later: it has a pair of its own for that.
    controllers({"eligible.leader.replicas.version": 1, "metadata.version": 30}).run(script)


def test_unclean_elections_leave_nobody_eligible(with_elr: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3)
        side.topic("t", [1, 2, 3], min__insync__replicas="2", unclean__leader__election__enable="true")
        side.alter_partition(1, "t", isr=[1, 2], leader_epoch=0, partition_epoch=0)
        side.beat(2, want_fence=True)
        side.beat(1, want_fence=True)
        side.beat(2)
        side.reassign("t", [3, 1])
        side.reassign("t", None)

    with_elr.run(script)
