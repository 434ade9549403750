"""DescribeProducers v0. KIP-664: which producers a partition's replica remembers, be it the leader or a follower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.topic_names import invalid_name
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

NO_TRANSACTION = -1


@handles(DescribeProducersRequest, authz=BY_HANDLER)
def describe_producers(request: DescribeProducersRequest, ctx: RequestContext) -> DescribeProducersResponse:
    """List the producers of each partition asked for."""
    ctx.authz.decided = not request.topics
    topics = []
    for topic in request.topics:
        error = _refused(topic.name, ctx)
        partitions = [_partition(topic.name, number, error, ctx) for number in topic.partition_indexes]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _refused(topic: str, ctx: RequestContext) -> ApiError | None:
    invalid = invalid_name(topic)
    if invalid is not None:
        ctx.authz.decided = True
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
    if not ctx.authorize(AclOperation.READ, ResourceType.TOPIC, topic):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _partition(topic: str, number: int, error: ApiError | None, ctx: RequestContext) -> PartitionResponse:
    answer = PartitionResponse(partition_index=number)
    try:
        if error is not None:
            raise error
        entries = ctx.node.partitions.replica(topic, number).log.producers.entries
    except ApiError as e:
        answer.error_code, answer.error_message = e.code, e.message
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=_or_none(entry.current_txn_first_offset),
        )
        for producer_id, entry in sorted(entries.items())
    ]
    return answer


def _or_none(offset: int | None) -> int:
    return NO_TRANSACTION if offset is None else offset
