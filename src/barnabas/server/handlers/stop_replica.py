"""StopReplica v0-4 (v3 by topic): a broker in ZooKeeper mode is told to have a replica no longer. KIP-570."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(StopReplicaRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def stop_replica(request: StopReplicaRequest, ctx: RequestContext) -> StopReplicaResponse:
    """Cease to follow. Logs go when the metadata says that their replicas are none, which is told before."""
    await ctx.node.hear(request)
    found = list(_partitions(request))
    for topic, number, deletes in found:
        partition = ctx.node.partitions.find(TopicPartition(topic, number))
        if partition is not None and not deletes and not partition.is_leader:
            ctx.node.replicas.fetchers.stop(partition)
    return StopReplicaResponse(
        partition_errors=[StopReplicaPartitionError(topic_name=topic, partition_index=n) for topic, n, _ in found]
    )


def _partitions(request: StopReplicaRequest) -> Iterator[tuple[str, int, bool]]:
    """Give the partitions, which each version tells in a form of its own, and whether their replicas are none."""
    deletes = request.delete_partitions
    yield from ((one.topic_name, one.partition_index, deletes) for one in request.ungrouped_partitions)
    yield from ((one.name, number, deletes) for one in request.topics for number in one.partition_indexes)
    for topic in request.topic_states:
        yield from ((topic.topic_name, one.partition_index, one.delete_partition) for one in topic.partition_states)
