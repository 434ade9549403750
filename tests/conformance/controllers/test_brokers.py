"""Registration, heartbeats and the end of brokers, as Apache Kafka's controller decides them."""

from __future__ import annotations

import pytest

from barnabas.model.uuid import Uuid

from .conftest import Both
from .side import FEATURES, ControllerSide, an_id

pytestmark = [pytest.mark.peer]


def test_registrations(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.register(1)
        side.register(1)
        side.register(1, rack="r1")
        side.register(2, cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
        side.register(2, log_dirs=[])
        side.register(2, log_dirs=[side.directory(1)])
        side.register(2, log_dirs=[side.directory(2), side.directory(2)])
        side.register(2, log_dirs=[Uuid(bytes(15) + b"\x01")])
        side.register(2, is_migrating_zk_broker=True)
        side.register(2, features=[])
        for name, low, high in (("metadata.version", 7, 20), ("kraft.version", 1, 1), ("some.feature", 1, 2)):
            levels = {**FEATURES, name: (low, high)}
            features = [
                {"name": n, "min_supported_version": a, "max_supported_version": b} for n, (a, b) in levels.items()
            ]
            side.register(2, features=features)
        for version in (2, 3, 4):
            side.register(2, version)
            side.brokers[2].incarnation += 1

    both.run(script)


def test_a_live_broker_keeps_its_id(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.register(1)
        side.brokers[1].incarnation += 1
        side.register(1)  # nobody has heard of the first one
        side.beat(1)
        side.brokers[1].incarnation += 1
        side.register(1)  # now somebody has
        side.brokers[1].incarnation -= 1
        side.register(1)
        side.beat(1)

    both.run(script)


def test_heartbeats(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.beat(1, broker_epoch=5)
        side.register(1)
        side.beat(1, broker_epoch=side.epoch(1) + 1)
        side.beat(1, current_metadata_offset=0)
        side.beat(1, want_fence=True)
        for version in (0, 1, 2):
            side.beat(1, version)
        side.beat(1, want_fence=True)
        side.beat(1)
        side.beat(1, want_fence=True, want_shut_down=True)
        side.beat(1, want_shut_down=True)

    both.run(script)


def test_a_controlled_shutdown(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2, 3)
        side.topic("moves", [1, 2], [1, 3], [2, 1])
        side.topic("stays", [1])
        side.beat(1, want_shut_down=True)
        side.beat(1, want_shut_down=True)
        side.beat(1)  # it leads `stays`: it may not leave
        side.call("DeleteTopics", topics=[{"name": None, "topic_id": side.topics.pop("stays")}], timeout_ms=60_000)
        side.beat(2, current_metadata_offset=0)
        side.beat(3, current_metadata_offset=0)
        side.beat(1, want_shut_down=True)  # the others have not read about it
        side.beat(2)
        side.beat(1, want_shut_down=True)
        side.beat(3)
        side.beat(1, want_shut_down=True)
        side.beat(1, want_shut_down=True)
        side.brokers[1].incarnation += 1
        side.register(1, previous_broker_epoch=side.epoch(1))
        side.beat(1)
        side.beat(3, want_shut_down=True)  # leads one

    both.run(script)


def test_a_broker_without_leaderships_leaves_at_once(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2)
        side.topic("t", [2, 1])
        side.beat(1, want_shut_down=True)
        side.beat(2, want_fence=True)
        side.beat(1)
        side.beat(2)

    both.run(script)


def test_directories_fail_and_are_cordoned(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        first, second = side.directory(1), side.directory(1, 1)
        side.cluster(1, 2)
        side.register(3, log_dirs=[side.directory(3), side.directory(3, 1)])
        side.beat(3, cordoned_log_dirs=[side.directory(3)])
        side.beat(3, cordoned_log_dirs=[side.directory(3)])
        side.beat(3, cordoned_log_dirs=[])
        side.beat(3, cordoned_log_dirs=[side.directory(3, 1), side.directory(3)])
        side.brokers[1].incarnation += 1
        side.beat(1, want_fence=True, want_shut_down=True)
        side.call("UnregisterBroker", broker_id=1)
        side.register(1, log_dirs=[first, second])
        side.beat(1)
        side.topic("t", [1, 2], [1, 2], [2, 1])

        def placed(directory: Uuid, partitions: list[int], topic: str = "t") -> None:
            topic_id = side.topics.get(topic, an_id(9, 1))
            side.call(
                "AssignReplicasToDirs",
                broker_id=1,
                broker_epoch=side.epoch(1),
                directories=[
                    {
                        "id": directory,
                        "topics": [{"topic_id": topic_id, "partitions": [{"partition_index": p} for p in partitions]}],
                    }
                ],
            )

        placed(first, [0])
        placed(first, [0])
        placed(second, [1, 2, 7])
        placed(first, [0], "nowhere")
        side.beat(1, offline_log_dirs=[second])
        side.beat(1, offline_log_dirs=[second, side.directory(9)])
        placed(second, [0])  # it went offline while the replica was moved there
        placed(first, [1, 2])
        side.alter_partition(2, "t", 1, isr=[2, 1], leader_epoch=1, partition_epoch=4)
        side.beat(1, offline_log_dirs=[first, second])

    both.run(script)


def test_brokers_are_forgotten(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2)
        side.topic("t", [1, 2], [2, 1], [1])
        side.call("UnregisterBroker", broker_id=9)
        side.call("UnregisterBroker", broker_id=1)
        side.beat(1)
        side.brokers[1].incarnation += 1
        side.register(1)
        side.beat(1)

    both.run(script)


def test_producer_ids(both: Both) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1)
        side.call("AllocateProducerIds", broker_id=1, broker_epoch=side.epoch(1))
        side.call("AllocateProducerIds", broker_id=1, broker_epoch=side.epoch(1))
        side.call("AllocateProducerIds", broker_id=1, broker_epoch=side.epoch(1) + 1)
        side.call("AllocateProducerIds", broker_id=8, broker_epoch=1)

    both.run(script)
