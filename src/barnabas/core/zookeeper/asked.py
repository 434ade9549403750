"""What the controller decides when a tool asks by a znode: reassignments and preferred leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import TypeVar

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.elections import ElectionType, elect_leaders
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import MAX_RECORDS_PER_REQUEST
from barnabas.core.metadata.reassignments import alter_reassignments
from barnabas.core.replicated import Decision
from barnabas.core.zookeeper.znodes.admin import Reassignments
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

T = TypeVar("T")
Refused = Mapping[TopicPartition, str]
"""Why something asked for was not done, for people."""


def reassign(image: MetadataImage, schema: ConfigSchema, asked: Reassignments) -> Decision[Refused]:
    """Begin the reassignments that are not under way, as many as a znode holds; they may change how many replicas."""
    moving = under_way(image, asked)
    todo = {partition: to for partition, to in asked.items() if partition not in moving}
    decisions = [alter_reassignments(image, _reassigning(todo, some), schema) for some in _requests(todo)]
    refused = {
        TopicPartition(topic.name, one.partition_index): _why(one.error_code, one.error_message)
        for decision in decisions
        for topic in decision.response.responses
        for one in topic.partitions
        if one.error_code
    }
    return Decision(tuple(record for decision in decisions for record in decision.records), refused)


def _reassigning(todo: Reassignments, partitions: Iterable[TopicPartition]) -> AlterPartitionReassignmentsRequest:
    topics = _by_topic(partitions, lambda p: ReassignablePartition(partition_index=p.partition, replicas=list(todo[p])))
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    )


def under_way(image: MetadataImage, asked: Reassignments) -> Reassignments:
    """Give those of the reassignments asked for that are not at their end, and that nobody has replaced since."""
    return {partition: to for partition, to in asked.items() if _moves_to(image, partition) == to}


def elect_preferred(image: MetadataImage, schema: ConfigSchema, asked: Iterable[TopicPartition]) -> Decision[Refused]:
    """Have preferred replicas lead where they do not; who leads already is not refused."""
    decisions = [elect_leaders(image, _electing(some), schema) for some in _requests(asked)]
    refused = {
        TopicPartition(topic.topic, one.partition_id): _why(one.error_code, one.error_message)
        for decision in decisions
        for topic in decision.response.replica_election_results
        for one in topic.partition_result
        if one.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    }
    return Decision(tuple(record for decision in decisions for record in decision.records), refused, atomic=False)


def _electing(partitions: Iterable[TopicPartition]) -> ElectLeadersRequest:
    topics = _by_topic(partitions, lambda partition: partition.partition)
    return ElectLeadersRequest(
        election_type=ElectionType.PREFERRED,
        topic_partitions=[TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()],
    )


def _requests(partitions: Iterable[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Give partitions, each once and in order, as many at a time as one request may change."""
    left = iter(sorted(set(partitions)))
    while some := list(islice(left, MAX_RECORDS_PER_REQUEST)):
        yield some


def _by_topic(partitions: Iterable[TopicPartition], made: Callable[[TopicPartition], T]) -> dict[str, list[T]]:
    return {name: [made(p) for p in some] for name, some in groupby(partitions, lambda p: p.topic)}


def _moves_to(image: MetadataImage, asked: TopicPartition) -> tuple[int, ...] | None:
    partition = image.topics.partition(asked.topic, asked.partition)
    if partition is None or not partition.reassigning:
        return None
    return tuple(replica for replica in partition.replicas if replica not in partition.removing_replicas)


def _why(code: int, message: str | None) -> str:
    return message or ErrorCode(code).name
