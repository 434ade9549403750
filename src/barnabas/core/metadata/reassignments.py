"""What AlterPartitionReassignments decides, and what ListPartitionReassignments shows (KIP-455)."""

from __future__ import annotations

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.elections import Elector
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import check_batch
from barnabas.core.metadata.partition_changes import Target
from barnabas.core.metadata.topic_changes import check_manual_assignment
from barnabas.core.metadata.topics import PartitionRegistration, TopicImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, schema: ConfigSchema
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Start and cancel reassignments; each partition's result says why not."""
    elector = Elector(image, schema)
    records: list[VersionedRecord] = []
    response = AlterPartitionReassignmentsResponse(
        error_message=None,
        # Kafka does not get as far as repeating it when there is nothing to do.
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
    )
    for asked in request.topics:
        answered = ReassignableTopicResponse(name=asked.name)
        response.responses.append(answered)
        for data in asked.partitions:
            result = ReassignablePartitionResponse(partition_index=data.partition_index, error_message=None)
            answered.partitions.append(result)
            try:
                record = _altered(elector, asked.name, data, may_resize=request.allow_replication_factor_change)
            except ApiError as e:
                result.error_code, result.error_message = e.code, e.message
            else:
                records += [] if record is None else [record]
    return Decision(check_batch(records), response)


def _altered(elector: Elector, name: str, data: ReassignablePartition, *, may_resize: bool) -> VersionedRecord | None:
    topic = elector.image.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(data.partition_index)
    if topic is None or partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{data.partition_index}")
    if data.replicas is None:
        return _cancelled(elector, topic, data.partition_index, partition)
    check_manual_assignment(elector.image, data.replicas, None)
    if not may_resize:
        _check_same_size(partition, len(data.replicas))
    removing = tuple(sorted(set(partition.replicas) - set(data.replicas)))
    adding = tuple(sorted(set(data.replicas) - set(partition.replicas)))
    target = Target(replicas=(*data.replicas, *removing), removing=removing or None, adding=adding or None)
    return elector.change((topic, data.partition_index, partition), target)


def _check_same_size(partition: PartitionRegistration, wanted: int) -> None:
    current = len({*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas))
    if current != wanted:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the partition has {current} replica(s), and this request may not change that to {wanted}",
        )


def _cancelled(
    elector: Elector, topic: TopicImage, number: int, partition: PartitionRegistration
) -> VersionedRecord | None:
    if not partition.reassigning:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(b for b in partition.replicas if b not in partition.adding_replicas)
    isr = tuple(b for b in partition.isr if b not in partition.adding_replicas)
    if not isr:
        if not replicas or not elector.unclean_enabled(topic.name):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"going back for {topic.name}-{number} would need an unclean leader election, which is off",
            )
        isr = replicas[:1]
    target = Target(isr=isr, replicas=replicas, removing=(), adding=(), election=elector.election(topic.name))
    return elector.change((topic, number, partition), target)


def list_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Give the reassignments under way, of the partitions asked for or of all."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        numbers_of: dict[Uuid, list[int]] = {}
        for topic_id, number in sorted(image.topics.index.reassigning):
            numbers_of.setdefault(topic_id, []).append(number)
        asked = [(image.topics.by_id[topic_id], numbers) for topic_id, numbers in numbers_of.items()]
        asked.sort(key=lambda found: found[0].name)
    else:
        by_name = image.topics.by_name
        asked = [(by_name[t.name], t.partition_indexes) for t in request.topics if t.name in by_name]
    for topic, numbers in asked:
        ongoing = [
            _ongoing(number, topic.partitions[number])
            for number in numbers
            if number in topic.partitions and topic.partitions[number].reassigning
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return response


def _ongoing(number: int, partition: PartitionRegistration) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=number,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
