"""DeleteRecords v0-2 (v2 flexible). KIP-107: moves the log start of partitions forward."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.partitions import INTERNAL_TOPICS
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

HIGH_WATERMARK: Final = -1
"""The offset that stands for everything that is committed."""
UNKNOWN: Final = -1


@handles(DeleteRecordsRequest, authz=BY_HANDLER)
async def delete_records(request: DeleteRecordsRequest, ctx: RequestContext) -> DeleteRecordsResponse:
    """Delete what lies before the offsets given."""
    allowed = ctx.authorize_many(AclOperation.DELETE, ResourceType.TOPIC, [t.name for t in request.topics])
    topics = []
    for topic in request.topics:
        partitions = [await _partition(topic.name, p, topic.name in allowed, ctx) for p in topic.partitions]
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


async def _partition(
    topic: str, wanted: DeleteRecordsPartition, allowed: bool, ctx: RequestContext
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=UNKNOWN)
    try:
        if not allowed:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = ctx.node.partitions.leader(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is the cluster's own")
        log = partition.log
        if not log.config.delete:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted only; its records are not deleted so")
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not within 0 and {log.high_watermark}")
        # Whole segments may go, and checkpoints are written: work for a thread.
        result.low_watermark = await asyncio.to_thread(log.delete_records_before, offset)
        partition.wake()
    except ApiError as e:
        result.error_code = e.code
    return result
