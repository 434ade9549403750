"""DescribeLogDirs v1-5 (v3 top-level error, v4 disk space, v5 cordoned). KIP-113, KIP-827, KIP-1066."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.router import BY_HANDLER, handles
from barnabas.storage.log_dir import LogDir
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


UNKNOWN_LAG = -1


@handles(DescribeLogDirsRequest, authz=BY_HANDLER)
def describe_log_dirs(request: DescribeLogDirsRequest, ctx: RequestContext) -> DescribeLogDirsResponse:
    """Tell each directory's space, and the sizes of the partitions asked for (all, when none is named)."""
    if not ctx.authorize(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED if ctx.version >= 3 else ErrorCode.NONE
        )
    if request.topics is None:
        return DescribeLogDirsResponse(results=[_directory(d, ctx, _any) for d in ctx.node.log_dirs.directories])
    wanted = {TopicPartition(t.topic, p) for t in request.topics for p in t.partitions}
    return DescribeLogDirsResponse(
        results=[_directory(d, ctx, wanted.__contains__) for d in ctx.node.log_dirs.directories]
    )


def _any(tp: TopicPartition) -> bool:
    return True


def _directory(
    directory: LogDir, ctx: RequestContext, wanted: Callable[[TopicPartition], bool]
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=str(directory.path))
    try:
        if directory.offline is not None:
            raise directory.offline
        result.total_bytes, result.usable_bytes = directory.disk_space()
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    log_dirs = ctx.node.log_dirs
    found = [(log, False) for log in log_dirs.logs_in(directory)]
    found += [(log, True) for log in log_dirs.futures_in(directory)]
    for log, is_future in sorted(found, key=lambda one: one[0].topic_partition):
        tp = log.topic_partition
        if wanted(tp):
            current = log_dirs.get(tp) if is_future else log
            lag = current.log_end_offset - log.log_end_offset if current is not None else UNKNOWN_LAG
            partition = DescribeLogDirsPartition(
                partition_index=tp.partition, partition_size=log.size, offset_lag=lag, is_future_key=is_future
            )
            topics.setdefault(tp.topic, []).append(partition)
    result.topics = [DescribeLogDirsTopic(name=name, partitions=those) for name, those in topics.items()]
    return result
