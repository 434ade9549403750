"""LeaderAndIsr v0-7 (v5 topic ids): a broker in ZooKeeper mode hears which partitions it leads or follows. KIP-380."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

_BY_TOPIC = 5
"""The first version that answers by topic id."""


@handles(LeaderAndIsrRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def leader_and_isr(request: LeaderAndIsrRequest, ctx: RequestContext) -> LeaderAndIsrResponse:
    """Take the roles; the answer names the replicas whose logs cannot be used."""
    await ctx.node.hear(request)
    topics = [
        LeaderAndIsrTopicError(
            topic_id=topic.topic_id,
            partition_errors=[
                LeaderAndIsrPartitionError(
                    topic_name=topic.topic_name,
                    partition_index=state.partition_index,
                    error_code=_error(TopicPartition(topic.topic_name, state.partition_index), ctx),
                )
                for state in topic.partition_states
            ],
        )
        for topic in request.topic_states
    ]
    if ctx.version >= _BY_TOPIC:
        return LeaderAndIsrResponse(topics=topics)
    return LeaderAndIsrResponse(partition_errors=[error for topic in topics for error in topic.partition_errors])


def _error(tp: TopicPartition, ctx: RequestContext) -> ErrorCode:
    found = ctx.node.partitions.find(tp)
    return ErrorCode.KAFKA_STORAGE_ERROR if found is None or found.log.is_offline else ErrorCode.NONE
