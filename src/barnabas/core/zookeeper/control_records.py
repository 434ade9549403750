"""What a broker in ZooKeeper mode hears from its controller, as records of the metadata log.

LeaderAndIsr and UpdateMetadata tell the states of partitions, UpdateMetadata also which brokers live. A broker applies
them to its image as it would apply the log. What comes from a controller that has been replaced is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.core.metadata.directories import MIGRATING
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.metadata.topics import TopicImage
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.control_requests import DURING_DELETE, ControlRequest
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord

ANY_BROKER_EPOCH: Final = -1


def check_sender(request: ControlRequest, controller_epoch: int, broker_epoch: int) -> None:
    """Refuse a request of a controller that was replaced, or one meant for an earlier run of this broker.

    controller_epoch: the highest heard so far. ApiError STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH. A controller that
    knows a newer epoch of ours than we do is right: our registration has not come back to us yet (KIP-380).
    """
    if request.controller_epoch < controller_epoch:
        raise ApiError(
            ErrorCode.STALE_CONTROLLER_EPOCH,
            f"the controller of epoch {request.controller_epoch} was replaced in epoch {controller_epoch}",
        )
    if request.broker_epoch != ANY_BROKER_EPOCH and request.broker_epoch < broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"meant for epoch {request.broker_epoch} of this broker")


def leader_and_isr_records(image: MetadataImage, request: LeaderAndIsrRequest) -> Iterator[VersionedRecord]:
    """Give the records for partitions with replicas on this broker; states older than the image's are left out."""
    for told in request.topic_states:
        topic = image.topics.by_name.get(told.topic_name)
        yield from _topic(topic, told.topic_name, told.topic_id)
        if topic is not None and topic.id != told.topic_id:
            topic = None
        for state in told.partition_states:
            known = None if topic is None else topic.partitions.get(state.partition_index)
            if known is None or state.leader_epoch >= known.leader_epoch:
                yield _partition(told.topic_id, state, state.adding_replicas, state.removing_replicas)


def update_records(image: MetadataImage, request: UpdateMetadataRequest) -> Iterator[VersionedRecord]:
    """Give the records for what clients are told: who lives, who leads, and which topics are gone."""
    yield from _brokers(image, request.live_brokers)
    for told in request.topic_states:
        topic = image.topics.by_name.get(told.topic_name)
        if all(state.leader == DURING_DELETE for state in told.partition_states):
            if topic is not None:
                yield VersionedRecord(RemoveTopicRecord(topic_id=topic.id), 0)
            continue
        yield from _topic(topic, told.topic_name, told.topic_id)
        if topic is not None and topic.id != told.topic_id:
            topic = None
        for state in told.partition_states:
            known = None if topic is None else topic.partitions.get(state.partition_index)
            if state.leader != DURING_DELETE and _is_news(known, state):
                same = known is not None and list(known.replicas) == list(state.replicas)
                adding, removing = (known.adding_replicas, known.removing_replicas) if known and same else ((), ())
                yield _partition(told.topic_id, state, adding, removing)


def _is_news(known: PartitionRegistration | None, state: UpdateMetadataPartitionState) -> bool:
    if known is None:
        return True
    told = (state.leader_epoch, state.zk_version)
    return told >= (known.leader_epoch, known.partition_epoch) and (
        told != (known.leader_epoch, known.partition_epoch)
        or (state.leader, list(state.isr), list(state.replicas))
        != (known.leader, list(known.isr), list(known.replicas))
    )


def _topic(known: TopicImage | None, name: str, topic_id: Uuid) -> Iterator[VersionedRecord]:
    """Make a topic that is new, or that was made again under its name."""
    if known is not None and known.id == topic_id:
        return
    if topic_id == ZERO_UUID:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {name} comes without an id: the controller is too old")
    if known is not None:
        yield VersionedRecord(RemoveTopicRecord(topic_id=known.id), 0)
    yield VersionedRecord(TopicRecord(name=name, topic_id=topic_id), 0)


def _partition(
    topic_id: Uuid,
    state: LeaderAndIsrPartitionState | UpdateMetadataPartitionState,
    adding: Iterable[int],
    removing: Iterable[int],
) -> VersionedRecord:
    record = PartitionRecord(
        partition_id=state.partition_index,
        topic_id=topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        adding_replicas=list(adding),
        removing_replicas=list(removing),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        directories=[MIGRATING] * len(state.replicas),
    )
    if isinstance(state, LeaderAndIsrPartitionState):
        record.leader_recovery_state, record.partition_epoch = state.leader_recovery_state, state.partition_epoch
    else:
        record.partition_epoch = state.zk_version
    return VersionedRecord(record, 1)


def _brokers(image: MetadataImage, live: Iterable[UpdateMetadataBroker]) -> Iterator[VersionedRecord]:
    there = {broker.id: broker for broker in live}
    for gone in sorted(set(image.cluster.brokers) - set(there)):
        record = UnregisterBrokerRecord(broker_id=gone, broker_epoch=image.cluster.brokers[gone].epoch)
        yield VersionedRecord(record, 0)
    for broker_id, broker in sorted(there.items()):
        known = image.cluster.brokers.get(broker_id)
        listeners = {e.listener: (e.host, e.port, e.security_protocol) for e in broker.endpoints}
        if known is not None and known.rack == broker.rack and listeners == dict(known.listeners):
            continue
        record_of = RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=-1 if known is None else known.epoch,
            end_points=[
                BrokerEndpoint(name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in broker.endpoints
            ],
            rack=broker.rack,
            fenced=False,
        )
        yield VersionedRecord(record_of, 1)
