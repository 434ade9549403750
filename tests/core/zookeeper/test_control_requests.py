"""A broker that hears what the controller tells has the controller's topics and brokers, whatever happens to them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from barnabas.core.metadata.delta import DeltaBuilder
from barnabas.core.metadata.directories import MIGRATING
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.control_records import check_sender, leader_and_isr_records, update_records
from barnabas.core.zookeeper.control_requests import ControllerIdentity, ControlRequest, requests
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord

CONTROLLER = ControllerIdentity(1, 5, "INTERNAL")


def topic_id(n: int) -> Uuid:
    return Uuid(n.to_bytes(16, "big"))


def broker(n: int, epoch: int) -> VersionedRecord:
    listeners = [BrokerEndpoint(name="INTERNAL", host=f"b{n}", port=9000 + epoch, security_protocol=0)]
    record = RegisterBrokerRecord(broker_id=n, broker_epoch=epoch, end_points=listeners, rack=None, fenced=False)
    return VersionedRecord(record, 1)


def partition(topic: Uuid, number: int, replicas: list[int]) -> VersionedRecord:
    record = PartitionRecord(
        partition_id=number, topic_id=topic, replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0,
        partition_epoch=0, directories=[MIGRATING] * len(replicas),
    )  # fmt: skip
    return VersionedRecord(record, 1)


class Cluster:
    """A controller's image, and those of brokers that hear of it over the wire."""

    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.brokers: dict[int, MetadataImage] = {}
        self.stopped: dict[int, list[tuple[str, int, int]]] = {}

    def change(self, records: Iterable[VersionedRecord]) -> dict[int, list[ControlRequest]]:
        builder = DeltaBuilder(self.image)
        for versioned in records:
            builder.replay(versioned.record)
        delta = builder.build(0, 0)
        self.image = delta.after
        for gone in set(self.brokers) - set(self.image.cluster.brokers):
            del self.brokers[gone]
        told = requests(delta, CONTROLLER)
        for broker_id, asked in told.items():
            for request in asked:
                self._hear(broker_id, decode(type(request), request.MAX_VERSION, encode(request, request.MAX_VERSION)))
        return told

    def _hear(self, broker_id: int, request: ControlRequest) -> None:
        known = self.brokers.get(broker_id, MetadataImage.EMPTY)
        match request:
            case LeaderAndIsrRequest():
                known = replay(known, list(leader_and_isr_records(known, request)))
            case UpdateMetadataRequest():
                known = replay(known, list(update_records(known, request)))
            case StopReplicaRequest():
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        told = (topic.topic_name, state.partition_index, state.leader_epoch)
                        self.stopped.setdefault(broker_id, []).append(told)
        self.brokers[broker_id] = known

    def check(self) -> None:
        for known in self.brokers.values():
            assert shown(known) == shown(self.image)
            assert {i: (b.listeners, b.rack) for i, b in known.cluster.brokers.items()} == {
                i: (b.listeners, b.rack) for i, b in self.image.cluster.brokers.items()
            }


def shown(image: MetadataImage) -> object:
    # What is being added and removed is told to replicas only.
    return {
        (name, topic.id, number): replace(p, adding_replicas=(), removing_replicas=())
        for name, topic in image.topics.by_name.items()
        for number, p in topic.partitions.items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_brokers_know_what_the_controller_knows(seed: int) -> None:
    chance, cluster, ids = random.Random(seed), Cluster(), iter(range(1, 10_000))
    for _ in range(120):
        cluster.change(_something(chance, cluster, ids))
        cluster.check()
    assert cluster.brokers


def _something(chance: random.Random, cluster: Cluster, ids: Iterable[int]) -> list[VersionedRecord]:
    image, fresh = cluster.image, iter(ids)
    live, topics = sorted(image.cluster.brokers), sorted(image.topics.by_id)
    match chance.randrange(6):
        case 0:
            n = chance.randrange(4)
            return [broker(n, next(fresh))]
        case 1 if len(live) > 1:
            gone = chance.choice(live)
            epoch = image.cluster.brokers[gone].epoch
            return [VersionedRecord(UnregisterBrokerRecord(broker_id=gone, broker_epoch=epoch), 0)]
        case 2 if live:
            name = f"t{chance.randrange(5)}"
            old = image.topics.by_name.get(name)
            made = topic_id(next(fresh))
            removed = [VersionedRecord(RemoveTopicRecord(topic_id=old.id), 0)] if old is not None else []
            parts = [partition(made, n, chance.sample(live, chance.randint(1, len(live)))) for n in range(3)]
            # Made again under its name only after everybody has heard that the first one is gone.
            if removed:
                return removed
            return [VersionedRecord(TopicRecord(name=name, topic_id=made), 0), *parts]
        case _ if topics:
            topic = image.topics.by_id[chance.choice(topics)]
            number = chance.randrange(len(topic.partitions))
            change = PartitionChangeRecord(topic_id=topic.id, partition_id=number)
            if chance.random() < 0.5:
                change.isr = [chance.choice(topic.partitions[number].replicas)]
            if chance.random() < 0.5:
                change.leader = chance.choice([-1, *topic.partitions[number].replicas])
            return [VersionedRecord(change, 0)]
    return [broker(0, next(fresh))]


def test_everybody_hears_and_only_replicas_act() -> None:
    cluster = Cluster()
    cluster.change([broker(n, 10 + n) for n in (1, 2, 3)])
    orders = topic_id(7)
    told = cluster.change(
        [VersionedRecord(TopicRecord(name="orders", topic_id=orders), 0), partition(orders, 0, [2, 3])]
    )
    assert {i: [type(r).__name__ for r in asked] for i, asked in told.items()} == {
        1: ["UpdateMetadataRequest"],
        2: ["LeaderAndIsrRequest", "UpdateMetadataRequest"],
        3: ["LeaderAndIsrRequest", "UpdateMetadataRequest"],
    }
    (lead, _), _ = told[2], told[3]
    assert isinstance(lead, LeaderAndIsrRequest)
    assert (lead.controller_id, lead.controller_epoch, lead.broker_epoch) == (1, 5, 12)
    assert lead.topic_states[0].partition_states[0].is_new
    assert [(n.broker_id, n.host_name) for n in lead.live_leaders] == [(2, "b2")]


def test_who_is_no_replica_any_more_is_told_to_stop() -> None:
    cluster, orders = Cluster(), topic_id(7)
    cluster.change([broker(n, 10 + n) for n in (1, 2, 3)])
    cluster.change([VersionedRecord(TopicRecord(name="orders", topic_id=orders), 0), partition(orders, 0, [2, 3])])
    moved = PartitionChangeRecord(topic_id=orders, partition_id=0, replicas=[2, 1], isr=[2, 1], leader=2)
    cluster.change([VersionedRecord(moved, 0)])
    assert cluster.stopped == {3: [("orders", 0, 1)]}
    told = cluster.change([VersionedRecord(RemoveTopicRecord(topic_id=orders), 0)])
    assert cluster.stopped == {3: [("orders", 0, 1)], 1: [("orders", 0, -2)], 2: [("orders", 0, -2)]}
    assert [type(r).__name__ for r in told[3]] == ["UpdateMetadataRequest"]
    assert not cluster.brokers[3].topics.by_name


def test_who_begins_to_shut_down_follows_no_longer() -> None:
    cluster = Cluster()
    topic = topic_id(1)
    made = VersionedRecord(TopicRecord(name="orders", topic_id=topic), 0)
    cluster.change([broker(1, 1), broker(2, 1), made, partition(topic, 0, [1, 2]), partition(topic, 1, [2, 1])])
    leaves = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, in_controlled_shutdown=1)
    shrinks = [PartitionChangeRecord(partition_id=n, topic_id=topic, isr=[1], leader=1) for n in (0, 1)]
    told = cluster.change([VersionedRecord(leaves, 1), *(VersionedRecord(record, 1) for record in shrinks)])
    (stop,) = (request for request in told[2] if isinstance(request, StopReplicaRequest))
    states = {s.partition_index: s.delete_partition for t in stop.topic_states for s in t.partition_states}
    assert states == {0: False, 1: False}
    assert not [request for request in told[1] if isinstance(request, StopReplicaRequest)]


def test_an_older_state_changes_nothing() -> None:
    cluster, orders = Cluster(), topic_id(7)
    cluster.change([broker(n, 10 + n) for n in (1, 2)])
    made = [VersionedRecord(TopicRecord(name="orders", topic_id=orders), 0), partition(orders, 0, [2, 1])]
    before = cluster.change(made)[1]
    cluster.change([VersionedRecord(PartitionChangeRecord(topic_id=orders, partition_id=0, leader=1), 0)])
    known = cluster.brokers[1]
    lead, update = before
    assert isinstance(lead, LeaderAndIsrRequest)
    assert isinstance(update, UpdateMetadataRequest)
    assert list(leader_and_isr_records(known, lead)) == []
    assert list(update_records(known, update)) == []


def test_a_controller_that_was_replaced_is_refused() -> None:
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=5, broker_epoch=12)
    check_sender(request, 5, 12)
    check_sender(request, 4, 11)
    for epochs, code in (((6, 12), ErrorCode.STALE_CONTROLLER_EPOCH), ((5, 13), ErrorCode.STALE_BROKER_EPOCH)):
        with pytest.raises(ApiError) as refused:
            check_sender(request, *epochs)
        assert refused.value.code == code


def test_who_lives_is_told_before_who_leads() -> None:
    cluster = Cluster()
    cluster.change([broker(1, 1), VersionedRecord(TopicRecord(name="t", topic_id=topic_id(1)), 0)])
    cluster.change([partition(topic_id(1), 0, [1, 2])])
    told = cluster.change([broker(2, 2)])
    for broker_id in (1, 2):
        first = told[broker_id][0]
        assert isinstance(first, UpdateMetadataRequest)
        assert {one.id for one in first.live_brokers} == {1, 2}
        # Who comes answers clients before it has heard of its own replicas: it knows everything first.
        assert [topic.topic_name for topic in first.topic_states] == (["t"] if broker_id == 2 else [])
    assert [type(request) for request in told[2][1:]] == [LeaderAndIsrRequest]
