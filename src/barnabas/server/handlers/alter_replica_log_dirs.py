"""AlterReplicaLogDirs v1-2 (v2 flexible). KIP-113: moves replicas between directories of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AlterReplicaLogDirsRequest, authz=BY_HANDLER)
def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, ctx: RequestContext) -> AlterReplicaLogDirsResponse:
    """Begin each move; what comes of it stands in DescribeLogDirs."""
    allowed = ctx.authorize(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for number in topic.partitions:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if allowed:
                    code = ctx.node.replicas.moves.request(TopicPartition(topic.name, number), directory.path)
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))
