"""What AlterPartition and AssignReplicasToDirs decide: brokers report their ISRs and directories (KIP-497, KIP-858)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.elections import Elector
from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.partition_changes import Target
from barnabas.core.metadata.registrations import check_broker_epoch
from barnabas.core.metadata.topics import NO_LEADER_CHANGE, RECOVERED, RECOVERING, PartitionRegistration, TopicImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages import alter_partition as alter
from barnabas.wire.messages import assign_replicas_to_dirs as assign


def alter_partition(
    image: MetadataImage, request: alter.AlterPartitionRequest, schema: ConfigSchema, *, version: int
) -> Decision[alter.AlterPartitionResponse]:
    """Take the ISRs that a leader proposes; below version 3 they come without broker epochs."""
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    response = alter.AlterPartitionResponse()
    for asked in request.topics:
        answered = alter.ResponseTopicData(topic_id=asked.topic_id)
        response.topics.append(answered)
        topic = image.topics.by_id.get(asked.topic_id)
        for data in asked.partitions:
            if version < 3:
                data = replace(data, new_isr_with_epochs=[alter.BrokerState(broker_id=b) for b in data.new_isr])
            result = alter.ResponsePartitionData(partition_index=data.partition_index)
            try:
                if topic is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
                _altered(Elector(image, schema), request.broker_id, topic, data, result, records)
            except ApiError as e:
                result.error_code = e.code
            answered.partitions.append(result)
    return Decision(tuple(records), response, atomic=False)


def _altered(
    elector: Elector,
    leader: int,
    topic: TopicImage,
    data: alter.RequestPartitionData,
    result: alter.ResponsePartitionData,
    records: list[VersionedRecord],
) -> None:
    partition = topic.partitions.get(data.partition_index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check_epochs(partition, leader, data)
    _check_isr(elector.image, partition, data)
    target = Target(
        isr=tuple(state.broker_id for state in data.new_isr_with_epochs),
        recovery_state=data.leader_recovery_state,
        election=elector.election(topic.name),
    )
    record = elector.change((topic, data.partition_index, partition), target)
    if record is not None:
        records.append(record)
        partition = partition.changed(record.record)
        if record.record.leader not in (leader, NO_LEADER_CHANGE):
            # Only the end of a reassignment does this: the change stands, and the old leader must read it anew.
            raise ApiError(ErrorCode.NEW_LEADER_ELECTED)
    result.leader_id = partition.leader
    result.isr = list(partition.isr)
    result.leader_recovery_state = partition.leader_recovery_state
    result.leader_epoch = partition.leader_epoch
    result.partition_epoch = partition.partition_epoch


def _check_epochs(partition: PartitionRegistration, leader: int, data: alter.RequestPartitionData) -> None:
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        raise ApiError(ErrorCode.NOT_CONTROLLER)  # the leader knows more than we: another controller is active
    if data.leader_epoch < partition.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader != partition.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if data.partition_epoch < partition.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_isr(image: MetadataImage, partition: PartitionRegistration, data: alter.RequestPartitionData) -> None:
    isr = [state.broker_id for state in data.new_isr_with_epochs]
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if partition.leader not in isr:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if data.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    recovering = data.leader_recovery_state == RECOVERING
    if recovering and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        raise ApiError(ErrorCode.INVALID_REQUEST)  # only an election makes a leader recover, and then it is alone
    if not all(_eligible(image, state) for state in data.new_isr_with_epochs):
        raise ApiError(ErrorCode.INELIGIBLE_REPLICA)


def _eligible(image: MetadataImage, state: alter.BrokerState) -> bool:
    broker = image.cluster.brokers.get(state.broker_id)
    return broker is not None and broker.active and state.broker_epoch in (-1, broker.epoch)


def assign_replicas_to_dirs(
    image: MetadataImage, request: assign.AssignReplicasToDirsRequest, schema: ConfigSchema
) -> Decision[assign.AssignReplicasToDirsResponse]:
    """Note in which directories a broker has its replicas; those in an offline one lose their place in the ISR."""
    if not image.levels.directories:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "directories are assigned from metadata.version 3.7-IV2 on")
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    response = assign.AssignReplicasToDirsResponse()
    offline: list[tuple[TopicImage, int]] = []
    for directory in request.directories:
        in_directory = assign.ResponseDirectoryData(id=directory.id)
        response.directories.append(in_directory)
        lost = bool(broker.directories) and directory.id not in broker.directories
        for asked in directory.topics:
            of_topic = assign.ResponseTopicData(topic_id=asked.topic_id)
            in_directory.topics.append(of_topic)
            topic = image.topics.by_id.get(asked.topic_id)
            for data in asked.partitions:
                number = data.partition_index
                result = assign.ResponsePartitionData(partition_index=number)
                of_topic.partitions.append(result)
                code = _unassignable(topic, number, broker.id)
                if topic is None or code is not ErrorCode.NONE:
                    result.error_code = code
                    continue
                place = (topic, number, topic.partitions[number])
                target = Target(directories={broker.id: directory.id})
                record = Elector(image, schema).change(place, target)
                if record is not None:
                    records.append(record)
                if lost:
                    offline.append((topic, number))
    records += _shrunk(image, schema, broker.id, offline, records)
    return Decision(tuple(records), response, atomic=False)


def _unassignable(topic: TopicImage | None, number: int, broker: int) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _shrunk(
    image: MetadataImage,
    schema: ConfigSchema,
    broker: int,
    offline: Sequence[tuple[TopicImage, int]],
    before: Sequence[VersionedRecord],
) -> list[VersionedRecord]:
    if not offline:
        return []
    after = reduce(lambda so_far, record: replay_one(so_far, record.record), before, image)
    elector = Elector(after, schema, lambda b: b != broker and after.cluster.active(b))
    records = []
    for topic, number in offline:
        current = after.topics.by_id[topic.id]
        partition = current.partitions[number]
        target = Target(isr=tuple(b for b in partition.isr if b != broker), election=elector.election(topic.name))
        record = elector.change((current, number, partition), target)
        if record is not None:
            records.append(record)
    return records
