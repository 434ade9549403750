"""What CreateTopics, DeleteTopics and CreatePartitions decide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from immutables import Map

from barnabas.core.metadata.config_changes import ConfigSchema, Op, changed_keys, cleared_elrs
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import MAX_PARTITIONS_PER_REQUEST, TakeQuota, check_batch, no_quota
from barnabas.core.metadata.placement import RandomBelow, default_directory, place, usable_brokers
from barnabas.core.metadata.topic_names import invalid_name
from barnabas.core.metadata.topics import PartitionRegistration, collision_key
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.policy import CheckTopic, TopicRequest, allow_topic
from barnabas.model.ports import NewUuid
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord

DEFAULT: Final = -1
"""As a number of partitions or a replication factor: what the cluster has as its default (KIP-464)."""


@dataclass(frozen=True, slots=True)
class TopicPlans:
    """What the shell lends for making topics: defaults of the cluster, knowledge of configs, ids, chance, a policy."""

    schema: ConfigSchema
    new_uuid: NewUuid
    random_below: RandomBelow
    num_partitions: int = 1
    replication_factor: int = 1
    take_quota: TakeQuota = no_quota
    check_policy: CheckTopic = allow_topic


def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, plans: TopicPlans, describable: Collection[str] = ()
) -> Decision[CreateTopicsResponse]:
    """Make the topics that can be made; each result says why not. describable: names whose configs may be shown.

    Names are distinct and allowed by now. ApiError when the request as a whole is too large.
    """
    _check_total(request, plans)
    records: list[VersionedRecord] = []
    results: list[CreatableTopicResult] = []
    for topic in request.topics:
        try:
            made, result = _create(image, topic, plans, shown=topic.name in describable)
        except ApiError as e:
            results.append(refused_topic(topic.name, e))
        else:
            records += made
            results.append(result)
    written = check_batch(records)
    return Decision(() if request.validate_only else written, CreateTopicsResponse(topics=results))


def refused_topic(name: str, error: ApiError) -> CreatableTopicResult:
    """Give the result of a topic that was not made."""
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _check_total(request: CreateTopicsRequest, plans: TopicPlans) -> None:
    total = 0
    for topic in request.topics:
        if topic.assignments:
            total += len(topic.assignments)
        else:
            total += plans.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)
    if total > MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"one request may create {MAX_PARTITIONS_PER_REQUEST} partitions, this one wants {total}: split it",
        )


def _create(
    image: MetadataImage, topic: CreatableTopic, plans: TopicPlans, *, shown: bool
) -> tuple[list[VersionedRecord], CreatableTopicResult]:
    _check_name(image, topic.name)
    config_records = _configured(image, topic, plans.schema)
    partitions = _assigned(image, topic) if topic.assignments else _placed(image, topic, plans)
    plans.check_policy(_asked_for(topic, partitions))
    plans.take_quota(len(partitions))
    topic_id = plans.new_uuid()
    records = [
        VersionedRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0),
        *config_records,
        *(partition.record(topic_id, number, image.levels) for number, partition in enumerate(partitions)),
    ]
    return records, _result(image, topic, topic_id, partitions, plans.schema, shown=shown)


def _asked_for(topic: CreatableTopic, partitions: Sequence[PartitionRegistration]) -> TopicRequest:
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    if topic.assignments:
        by_hand = {number: partition.replicas for number, partition in enumerate(partitions)}
        return TopicRequest(topic.name, replica_assignments=by_hand, configs=configs)
    return TopicRequest(topic.name, len(partitions), len(partitions[0].replicas), configs=configs)


def _check_name(image: MetadataImage, name: str) -> None:
    wrong = invalid_name(name)
    if name in image.topics.by_name:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    key = collision_key(name)
    colliding = image.topics.colliding.get(key) if key is not None else None
    if colliding:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} collides with the topic {min(colliding)!r}: metric names cannot tell '.' from '_'",
        )
    if wrong:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)


def _configured(image: MetadataImage, topic: CreatableTopic, schema: ConfigSchema) -> list[VersionedRecord]:
    null_keys = [config.name for config in topic.configs if config.value is None]
    if null_keys:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"a topic config cannot be null: {', '.join(null_keys)}; leave the key out to have its default",
        )
    ops = {config.name: (Op.SET, config.value) for config in topic.configs}
    if not ops:
        return []
    resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
    records = changed_keys(image, resource, ops, schema, created=True)
    return [*records, *cleared_elrs(image, records)]


def _assigned(image: MetadataImage, topic: CreatableTopic) -> list[PartitionRegistration]:
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment of replicas, num.partitions and the replication factor must both be -1: "
            "the assignment says how many there are",
        )
    partitions: dict[int, PartitionRegistration] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        number = assignment.partition_index
        if number in partitions:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the manual assignment names partition {number} twice"
            )
        partitions[number] = _by_hand(image, number, assignment.broker_ids, factor)
        factor = len(assignment.broker_ids)
    if sorted(partitions) != list(range(len(partitions))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"a manual assignment numbers its partitions from 0 without gaps, this one has {sorted(partitions)}",
        )
    return [partitions[number] for number in range(len(partitions))]


def _by_hand(image: MetadataImage, number: int, brokers: Sequence[int], factor: int | None) -> PartitionRegistration:
    check_manual_assignment(image, brokers, factor)
    return _new_partition(
        image,
        tuple(brokers),
        ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"all brokers assigned to partition {number} are fenced or shutting down: name one that is alive",
        ),
    )


def check_manual_assignment(image: MetadataImage, brokers: Sequence[int], factor: int | None) -> None:
    """ApiError INVALID_REPLICA_ASSIGNMENT when these cannot be replicas; factor: how many there must be, if known."""
    if not brokers:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a manual assignment has a partition without replicas")
    for broker in sorted(brokers):
        if broker not in image.cluster.brokers:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"a manual assignment names broker {broker}, but no such broker is registered",
            )
    if len(set(brokers)) != len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a manual assignment names a broker twice: {list(brokers)}"
        )
    if factor is not None and len(brokers) != factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"a manual assignment has {len(brokers)} replica(s) where the partitions before have {factor}",
        )


def _placed(image: MetadataImage, topic: CreatableTopic, plans: TopicPlans) -> list[PartitionRegistration]:
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor is at least 1, or -1 for the cluster's default; not {topic.replication_factor}",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"a topic has at least 1 partition, or -1 for the cluster's default; not {topic.num_partitions}",
        )
    count = plans.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = plans.replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    return _placed_partitions(image, count, factor, plans.random_below)


def _placed_partitions(
    image: MetadataImage, count: int, factor: int, random_below: RandomBelow
) -> list[PartitionRegistration]:
    nobody_alive = ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"cannot place {factor} replica(s): all brokers are fenced or shutting down",
    )
    placed = place(usable_brokers(image.cluster), count, factor, random_below)
    return [_new_partition(image, replicas, nobody_alive) for replicas in placed]


def _new_partition(image: MetadataImage, replicas: tuple[int, ...], nobody_alive: ApiError) -> PartitionRegistration:
    isr = tuple(broker for broker in replicas if image.cluster.active(broker))
    if not isr:
        raise nobody_alive
    directories = tuple(default_directory(image.cluster, image.levels, broker) for broker in replicas)
    return PartitionRegistration(replicas=replicas, directories=directories, isr=isr, leader=isr[0])


def _result(
    image: MetadataImage,
    topic: CreatableTopic,
    topic_id: Uuid,
    partitions: Sequence[PartitionRegistration],
    schema: ConfigSchema,
    *,
    shown: bool,
) -> CreatableTopicResult:
    result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None)
    if not shown:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    result.num_partitions = len(partitions)
    result.replication_factor = len(partitions[0].replicas)
    result.configs = [
        CreatableTopicConfigs(
            name=config.name, value=config.value, config_source=config.source, is_sensitive=config.sensitive
        )
        for config in schema.effective_topic(image.configs, Map(overrides))
    ]
    return result


def delete_topics(
    image: MetadataImage, ids: Collection[Uuid], take_quota: TakeQuota = no_quota
) -> Decision[dict[Uuid, ApiError | None]]:
    """Remove the topics with these ids; the result says of each why not."""
    records: list[VersionedRecord] = []
    results: dict[Uuid, ApiError | None] = {}
    for topic_id in ids:
        try:
            topic = image.topics.by_id.get(topic_id)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            take_quota(len(topic.partitions))
            records.append(VersionedRecord(RemoveTopicRecord(topic_id=topic_id), 0))
            results[topic_id] = None
        except ApiError as e:
            results[topic_id] = e
    return Decision(check_batch(records), results)


def create_partitions(
    image: MetadataImage,
    topics: Sequence[CreatePartitionsTopic],
    random_below: RandomBelow,
    *,
    validate_only: bool = False,
    take_quota: TakeQuota = no_quota,
) -> Decision[list[CreatePartitionsTopicResult]]:
    """Grow the topics that can grow; each result says why not."""
    records: list[VersionedRecord] = []
    results = []
    for topic in topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            records += _grown(image, topic, random_below, take_quota)
        except ApiError as e:
            result.error_code, result.error_message = e.code, e.message
        results.append(result)
    written = check_batch(records)
    return Decision(() if validate_only else written, results)


def _grown(
    image: MetadataImage,
    wanted: CreatePartitionsTopic,
    random_below: Callable[[int], int],
    take_quota: TakeQuota,
) -> list[VersionedRecord]:
    topic = image.topics.by_name.get(wanted.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(topic.partitions)
    additional = wanted.count - count
    if additional <= 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {wanted.name!r} has {count} partition(s) already; it can only grow, and {wanted.count} is not more",
        )
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{additional} partition(s) are to be added, but {len(wanted.assignments)} assignment(s) were given",
        )
    take_quota(additional)
    factor = len(topic.partitions[min(topic.partitions)].replicas)
    if wanted.assignments is None:
        new = _placed_partitions(image, additional, factor, random_below)
    else:
        new = [
            _by_hand(image, count + i, assignment.broker_ids, factor) for i, assignment in enumerate(wanted.assignments)
        ]
    return [partition.record(topic.id, count + i, image.levels) for i, partition in enumerate(new)]
