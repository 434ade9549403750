"""DescribeTopicPartitions v0: topics in pages, with eligible leader replicas. KIP-966."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.topic_names import invalid_name
from barnabas.core.metadata.topics import PartitionRegistration, TopicImage
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.replication.partitions import INTERNAL_TOPICS
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DescribeTopicPartitionsRequest, authz=BY_HANDLER)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Describe topics by name, from the cursor on, until the page is full."""
    everything = not request.topics
    names = _names(request, ctx)
    ctx.authz.decided = not names
    allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, names, audit_denied=not everything)
    limit = min(ctx.node.config["max.request.partition.size.limit"], request.response_partition_limit)
    response = _page(sorted(allowed), request.cursor, max(limit, 1), everything, ctx)
    for topic in response.topics:
        topic.topic_authorized_operations = ctx.authorized_operations(ResourceType.TOPIC, topic.name or "")
    if not everything:
        response.topics += [
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=False
            )
            for name in sorted(names - allowed)
        ]
    return response


def _names(request: DescribeTopicPartitionsRequest, ctx: RequestContext) -> set[str]:
    """Give the topics from the cursor on; ApiError when the cursor is not one."""
    cursor = request.cursor
    start = "" if cursor is None else cursor.topic_name
    asked = (topic.name for topic in request.topics) if request.topics else ctx.node.image().topics.by_name
    names = {name for name in asked if name >= start}
    problem = None
    if cursor is not None and request.topics and start not in names:
        problem = f"the cursor stands at topic {start!r}, which is not asked for"
    elif cursor is not None and cursor.partition_index < 0:
        problem = f"the cursor stands at partition {cursor.partition_index}: want 0 or more"
    if problem is not None:
        ctx.authz.decided = True
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    return names


def _page(
    names: list[str], cursor: Cursor | None, limit: int, everything: bool, ctx: RequestContext
) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    by_name = ctx.node.image().topics.by_name
    left = limit
    for name in names:
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = by_name.get(name)
        if topic is None:
            if not everything:
                response.topics.append(_missing(name))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        numbers = [n for n in sorted(topic.partitions) if n >= start]
        response.topics.append(_found(topic, numbers[:left], ctx))
        if len(numbers) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=numbers[left])
            break
        left -= len(numbers)
    return response


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    invalid = invalid_name(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _found(topic: TopicImage, numbers: list[int], ctx: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(number, topic.partitions[number], ctx) for number in numbers],
    )


def _partition(
    number: int, registration: PartitionRegistration, ctx: RequestContext
) -> DescribeTopicPartitionsResponsePartition:
    node = ctx.node
    live = node.live_broker_ids()
    reachable = registration.leader in live and node.has_listener(registration.leader, ctx.listener_name)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=number,
        leader_id=registration.leader if reachable else -1,
        leader_epoch=registration.leader_epoch,
        replica_nodes=list(registration.replicas),
        isr_nodes=list(registration.isr),
        eligible_leader_replicas=list(registration.elr),
        last_known_elr=list(registration.last_known_elr),
        offline_replicas=[r for r in registration.replicas if r not in live],
    )
