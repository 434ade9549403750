"""OffsetForLeaderEpoch v2-4 (v3 replica id, v4 flexible). KIP-101, KIP-320: where a leader epoch ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


DEBUGGER = -2
"""The replica id of a client that asks any replica, not only the leader."""


@handles(OffsetForLeaderEpochRequest, authz=BY_HANDLER)
def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, ctx: RequestContext) -> OffsetForLeaderEpochResponse:
    """Give the end of each epoch asked for, and the epoch that it is the end of."""
    names = [t.topic for t in request.topics]
    if ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, audit_denied=False):
        allowed = set(names)
    else:
        allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=t.topic,
                partitions=[_end(t.topic, p, t.topic in allowed, request.replica_id, ctx) for p in t.partitions],
            )
            for t in request.topics
        ]
    )


def _end(
    topic: str, wanted: OffsetForLeaderPartition, allowed: bool, replica_id: int, ctx: RequestContext
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        if not allowed:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        replicas = ctx.node.partitions
        find = replicas.replica if replica_id == DEBUGGER else replicas.leader
        log = find(topic, wanted.partition, wanted.current_leader_epoch).log
        answer.leader_epoch, answer.end_offset = log.leader_epochs.end_offset_for(
            wanted.leader_epoch, log.log_end_offset
        )
    except ApiError as e:
        answer.error_code = e.code
    return answer
