"""What a controller in ZooKeeper mode tells brokers of a change: LeaderAndIsr, UpdateMetadata and StopReplica.

Replicas hear who leads their partitions, everybody hears what clients are told, and who is no replica any more is told
to stop. A broker that has just come hears everything. Who lives is told first: a broker follows only a leader that it
knows to live. Topics go by name and id, as since Kafka 2.8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.core.metadata.cluster import BrokerRegistration, ClusterImage
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.metadata.topics import TopicImage
from barnabas.model.uuid import Uuid
from barnabas.wire.messages import leader_and_isr, stop_replica, update_metadata
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrLiveLeader, LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest

DURING_DELETE: Final = -2
"""As a leader and as a leader's epoch: the topic is going."""


class ControllerIdentity(NamedTuple):
    """Who tells, and over which listener the leaders are to be reached."""

    id: int
    epoch: int
    listener: str


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(slots=True)
class _Partitions:
    """Partitions collected for one kind of request, by topic."""

    by_topic: dict[tuple[str, Uuid], list[Any]] = field(default_factory=dict)

    def add(self, topic: TopicImage, state: Any) -> None:
        self.by_topic.setdefault((topic.name, topic.id), []).append(state)


def requests(delta: MetadataDelta, controller: ControllerIdentity) -> dict[int, list[ControlRequest]]:
    """Give what to tell each live broker, by its id, in the order to send it in."""
    cluster = delta.after.cluster
    live = {b.id: b for b in cluster.brokers.values() if not b.fenced}
    leaders: dict[int, _Partitions] = {}
    stops: dict[int, _Partitions] = {}
    told = _Partitions()
    leaving = _leaving(delta)
    came = {i for i in delta.brokers if i in live and _epoch(delta.before.cluster, i) != live[i].epoch}
    for topic, number, before, after in _touched(delta):
        if after is None:
            for replica in before.replicas if before is not None else ():
                stops.setdefault(replica, _Partitions()).add(topic, _stop(number, DURING_DELETE))
            told.add(topic, _going(number, before, controller.epoch))
            continue
        replicas = [replica for replica in after.replicas if replica not in came]
        _add_states(leaders, replicas, (topic, number, after), _there(delta, before, after), controller.epoch)
        for replica in set(before.replicas if before is not None else ()) - set(after.replicas):
            stops.setdefault(replica, _Partitions()).add(topic, _stop(number, after.leader_epoch))
        for replica in leaving.intersection(after.replicas) - {after.leader}:
            stops.setdefault(replica, _Partitions()).add(topic, _stop(number, after.leader_epoch, deletes=False))
        told.add(topic, _told_state(number, after, cluster, controller.epoch))
    found: dict[int, list[ControlRequest]] = {}
    everything = _everything(delta, came, leaders, controller.epoch) if came else told
    for broker in live.values():
        came_now = broker.id in came
        mine, states = leaders.get(broker.id), everything if came_now else told
        found[broker.id] = [
            *([_update(states if came_now else _Partitions(), broker, live, controller)] if delta.brokers else []),
            *([_leader_and_isr(mine, broker, live, controller)] if mine is not None else []),
            *([_update(states, broker, live, controller)] if states.by_topic and not came_now else []),
            *([_stops(stops[broker.id], broker, controller)] if broker.id in stops else []),
        ]
    return {broker_id: asked for broker_id, asked in found.items() if asked}


def _touched(
    delta: MetadataDelta,
) -> Iterator[tuple[TopicImage, int, PartitionRegistration | None, PartitionRegistration | None]]:
    before, after = delta.before.topics.by_id, delta.after.topics.by_id
    for topic_id in delta.deleted_topics:
        for number, partition in sorted(before[topic_id].partitions.items()):
            yield before[topic_id], number, partition, None
    for topic_id, numbers in delta.topics.items():
        old = before.get(topic_id)
        for number in sorted(numbers):
            was = None if old is None else old.partitions.get(number)
            if _has_state(after[topic_id].partitions[number]):
                yield after[topic_id], number, was, after[topic_id].partitions[number]


def _there(delta: MetadataDelta, before: PartitionRegistration | None, after: PartitionRegistration) -> tuple[int, ...]:
    """Give the replicas that may have a log already: such a one is not made anew in another directory.

    A controller that begins knows of no replica that it is new.
    """
    if delta.snapshot:
        return after.replicas
    return before.replicas if before is not None and _has_state(before) else ()


def _has_state(partition: PartitionRegistration) -> bool:
    """Say whether it was led before: nobody is told of one that was made, and waits for its first leader."""
    return partition.leader_epoch >= 0


def _epoch(cluster: ClusterImage, broker_id: int) -> int | None:
    broker = cluster.brokers.get(broker_id)
    return None if broker is None or broker.fenced else broker.epoch


def _everything(
    delta: MetadataDelta, came: Collection[int], leaders: dict[int, _Partitions], epoch: int
) -> _Partitions:
    """Give what those who come hear of all partitions, and add what they hear of those that they have replicas of."""
    found = _Partitions()
    for topic, number, partition in _all(delta):
        found.add(topic, _told_state(number, partition, delta.after.cluster, epoch))
        replicas = [replica for replica in partition.replicas if replica in came]
        if replicas:
            was = delta.before.topics.by_id.get(topic.id)
            there = _there(delta, None if was is None else was.partitions.get(number), partition)
            _add_states(leaders, replicas, (topic, number, partition), there, epoch)
    return found


def _add_states(
    leaders: dict[int, _Partitions],
    replicas: Collection[int],
    place: tuple[TopicImage, int, PartitionRegistration],
    there: Collection[int],
    epoch: int,
) -> None:
    """Add who leads a partition to what some of its replicas are told. there: those that are not new."""
    for is_new in (False, True):
        some = [replica for replica in replicas if (replica not in there) is is_new]
        if some:
            state = _leader_state(*place, epoch, is_new=is_new)
            for replica in some:
                leaders.setdefault(replica, _Partitions()).add(place[0], state)


def _all(delta: MetadataDelta) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    for _, topic in sorted(delta.after.topics.by_name.items()):
        for number, partition in sorted(topic.partitions.items()):
            if _has_state(partition):
                yield topic, number, partition


def _leader_state(
    topic: TopicImage, number: int, partition: PartitionRegistration, epoch: int, *, is_new: bool
) -> leader_and_isr.LeaderAndIsrPartitionState:
    return leader_and_isr.LeaderAndIsrPartitionState(
        topic_name=topic.name,
        partition_index=number,
        controller_epoch=epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        is_new=is_new,
        leader_recovery_state=partition.leader_recovery_state,
    )


def _told_state(
    number: int, partition: PartitionRegistration, cluster: ClusterImage, epoch: int
) -> update_metadata.UpdateMetadataPartitionState:
    return update_metadata.UpdateMetadataPartitionState(
        partition_index=number,
        controller_epoch=epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        zk_version=partition.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=[replica for replica in partition.replicas if _epoch(cluster, replica) is None],
    )


def _going(
    number: int, partition: PartitionRegistration | None, epoch: int
) -> update_metadata.UpdateMetadataPartitionState:
    return update_metadata.UpdateMetadataPartitionState(
        partition_index=number,
        controller_epoch=epoch,
        leader=DURING_DELETE,
        leader_epoch=DURING_DELETE,
        isr=[] if partition is None else list(partition.isr),
        zk_version=0,
        replicas=[] if partition is None else list(partition.replicas),
    )


def _leaving(delta: MetadataDelta) -> frozenset[int]:
    """Give the brokers that have begun to shut down: what they follow they are to follow no longer."""
    before, after = delta.before.cluster.brokers, delta.after.cluster.brokers
    return frozenset(
        broker_id
        for broker_id in delta.brokers
        if broker_id in after and after[broker_id].in_controlled_shutdown
        if broker_id not in before or not before[broker_id].in_controlled_shutdown
    )


def _stop(number: int, leader_epoch: int, *, deletes: bool = True) -> stop_replica.StopReplicaPartitionState:
    return stop_replica.StopReplicaPartitionState(
        partition_index=number, leader_epoch=leader_epoch, delete_partition=deletes
    )


def _leader_and_isr(
    partitions: _Partitions,
    broker: BrokerRegistration,
    live: Mapping[int, BrokerRegistration],
    controller: ControllerIdentity,
) -> LeaderAndIsrRequest:
    leaders = {state.leader for states in partitions.by_topic.values() for state in states}
    return LeaderAndIsrRequest(
        controller_id=controller.id,
        controller_epoch=controller.epoch,
        broker_epoch=broker.epoch,
        topic_states=[
            leader_and_isr.LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id, partition_states=states)
            for (name, topic_id), states in partitions.by_topic.items()
        ],
        live_leaders=list(_live_leaders(leaders, live, controller.listener)),
    )


def _live_leaders(
    leaders: Iterable[int], live: Mapping[int, BrokerRegistration], listener: str
) -> Iterator[LeaderAndIsrLiveLeader]:
    for leader in sorted(leaders):
        endpoint = live[leader].listeners.get(listener) if leader in live else None
        if endpoint is not None:
            yield LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)


def _update(
    partitions: _Partitions,
    broker: BrokerRegistration,
    live: Mapping[int, BrokerRegistration],
    controller: ControllerIdentity,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=controller.id,
        controller_epoch=controller.epoch,
        broker_epoch=broker.epoch,
        topic_states=[
            update_metadata.UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)
            for (name, topic_id), states in partitions.by_topic.items()
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=b.id,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=e.port, host=e.host, listener=name, security_protocol=e.security_protocol
                    )
                    for name, e in sorted(b.listeners.items())
                ],
                rack=b.rack,
            )
            for b in sorted(live.values(), key=lambda b: b.id)
        ],
    )


def _stops(partitions: _Partitions, broker: BrokerRegistration, controller: ControllerIdentity) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_id=controller.id,
        controller_epoch=controller.epoch,
        broker_epoch=broker.epoch,
        topic_states=[
            stop_replica.StopReplicaTopicState(topic_name=name, partition_states=states)
            for (name, _), states in partitions.by_topic.items()
        ],
    )
