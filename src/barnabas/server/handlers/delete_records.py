"""DeleteRecords v0-2 (v2 flexible). KIP-107: moves the log start of partitions forward.

The answer waits until every living replica has done so, for as long as the client says.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.replication.partitions import INTERNAL_TOPICS
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
    from barnabas.server.replication.partition import Partition

HIGH_WATERMARK: Final = -1
"""The offset that stands for everything that is committed."""
UNKNOWN: Final = -1


@handles(DeleteRecordsRequest, authz=BY_HANDLER)
async def delete_records(request: DeleteRecordsRequest, ctx: RequestContext) -> DeleteRecordsResponse:
    """Delete what lies before the offsets given."""
    allowed = ctx.authorize_many(AclOperation.DELETE, ResourceType.TOPIC, [t.name for t in request.topics])
    topics = []
    waiting: list[_Deletion] = []
    for topic in request.topics:
        partitions = [await _partition(topic.name, p, topic.name in allowed, ctx, waiting) for p in topic.partitions]
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    if waiting:
        await _wait(waiting, request.timeout_ms, ctx)
    return DeleteRecordsResponse(topics=topics)


@dataclass(slots=True)
class _Deletion:
    """A partition whose start has moved here. done: whether the answer stands, as it does after an error."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult
    done: bool = False

    def look(self) -> None:
        """See whether everybody has followed."""
        if self.done:
            return
        try:
            self.result.low_watermark = self.partition.low_watermark()
            self.done = self.result.low_watermark >= self.offset
        except ApiError as e:
            self.result.error_code, self.result.low_watermark, self.done = e.code, UNKNOWN, True


async def _wait(deletions: list[_Deletion], timeout_ms: int, ctx: RequestContext) -> None:
    """Wait until the followers' logs begin no earlier; REQUEST_TIMED_OUT for those that do not in time."""
    over = asyncio.get_running_loop().create_future()

    def look() -> None:
        for deletion in deletions:
            deletion.look()
        if all(d.done for d in deletions) and not over.done():
            over.set_result(None)

    purgatory = ctx.node.replicas.deletions
    purgatory.size += 1
    for deletion in deletions:
        deletion.partition.waiters.add(look)
    try:
        look()
        await asyncio.wait_for(over, max(0, timeout_ms) / 1000)
    except TimeoutError:
        for deletion in deletions:
            if not deletion.done:
                deletion.result.error_code = ErrorCode.REQUEST_TIMED_OUT
    finally:
        purgatory.size -= 1
        for deletion in deletions:
            deletion.partition.waiters.discard(look)


async def _partition(
    topic: str, wanted: DeleteRecordsPartition, allowed: bool, ctx: RequestContext, waiting: list[_Deletion]
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
        await asyncio.to_thread(log.delete_records_before, offset)
        partition.wake()
        result.low_watermark = partition.low_watermark()
        if result.low_watermark < offset:
            waiting.append(_Deletion(partition, offset, result))
    except ApiError as e:
        result.error_code = e.code
    return result
