"""ListOffsets v1-11 (v2 isolation, v4 leader epochs, v7 max timestamp, v8 local, v9 tiered, v11 pending upload).

KIP-79, KIP-734, KIP-405, KIP-1005.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.replication.partitions import Partition
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
READ_COMMITTED: Final = 1
NOT_AVAILABLE_FROM: Final = 5
"""The first version that knows OFFSET_NOT_AVAILABLE."""
CONSUMER: Final = -1
"""The replica id of clients; a debugging client says -2, and asks any replica, as followers do with their own."""
DEBUGGER: Final = -2
FIRST_VERSIONS: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""From which version on a special timestamp has its meaning."""
Found = tuple[int, int, int]
"""(offset, timestamp, leader epoch); -1 where there is none."""
NOTHING: Final[Found] = (-1, -1, -1)


@handles(ListOffsetsRequest, authz=BY_HANDLER)
def list_offsets(request: ListOffsetsRequest, ctx: RequestContext) -> ListOffsetsResponse:
    """Give an offset for each partition asked for."""
    ctx.authz.decided = not request.topics
    return ListOffsetsResponse(topics=[_topic(request, topic, ctx) for topic in request.topics])


def _topic(request: ListOffsetsRequest, topic: ListOffsetsTopic, ctx: RequestContext) -> ListOffsetsTopicResponse:
    allowed = ctx.authorize(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
    times = Counter(partition.partition_index for partition in topic.partitions)
    seen: set[int] = set()
    answers = []
    for partition in topic.partitions:
        code = None if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if allowed and partition.partition_index in seen:
            continue
        if allowed and times[partition.partition_index] > 1:
            code = ErrorCode.INVALID_REQUEST
        seen.add(partition.partition_index)
        answers.append(_partition(request, topic.name, partition, ctx, code))
    return ListOffsetsTopicResponse(name=topic.name, partitions=answers)


def _partition(
    request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition, ctx: RequestContext, code: ErrorCode | None
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    answer.offset = answer.timestamp = -1
    try:
        if code is not None:
            raise ApiError(code)
        if ctx.version < FIRST_VERSIONS.get(wanted.timestamp, 0):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        replicas = ctx.node.partitions
        find = replicas.replica if request.replica_id == DEBUGGER else replicas.leader
        partition = find(topic, wanted.partition_index, wanted.current_leader_epoch)
        if request.replica_id == CONSUMER:
            end = partition.committed_end(read_committed=request.isolation_level == READ_COMMITTED)
            offset, timestamp, epoch = _find(partition, wanted.timestamp, end, lagging=_lags(partition))
        else:
            end = partition.log.log_end_offset
            offset, timestamp, epoch = _find(partition, wanted.timestamp, end, lagging=False)
    except ApiError as e:
        too_new = e.code is ErrorCode.OFFSET_NOT_AVAILABLE and ctx.version < NOT_AVAILABLE_FROM
        answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE if too_new else e.code
        return answer
    answer.offset, answer.timestamp = offset, timestamp
    if ctx.version >= 4:
        answer.leader_epoch = epoch
    return answer


def _lags(partition: Partition) -> bool:
    """Say whether the leader is so new that it does not know yet how much of its log is committed (KIP-207)."""
    led = partition.leadership
    return led is not None and led.epoch_start_offset > partition.log.high_watermark


def _find(partition: Partition, timestamp: int, end: int, *, lagging: bool) -> Found:
    log = partition.log
    if timestamp == LATEST:
        if lagging:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return end, -1, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.leader_epochs.epoch_for_offset(log.log_start_offset)
        return log.log_start_offset, -1, -1 if epoch is None else epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp < 0 and timestamp != MAX_TIMESTAMP:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"no meaning is known for timestamp {timestamp}")
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        if lagging:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return NOTHING
    return found.offset, found.timestamp, -1 if found.leader_epoch is None else found.leader_epoch
