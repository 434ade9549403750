"""StopReplica v0-4 (v3 by topic): a broker in ZooKeeper mode is told to have a replica no longer. KIP-570."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(StopReplicaRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def stop_replica(request: StopReplicaRequest, ctx: RequestContext) -> StopReplicaResponse:
    """Agree: logs go when the metadata says that their replicas are none, which was told before."""
    await ctx.node.hear(request)
    found = _partitions(request)
    return StopReplicaResponse(
        partition_errors=[StopReplicaPartitionError(topic_name=topic, partition_index=n) for topic, n in found]
    )


def _partitions(request: StopReplicaRequest) -> Iterator[tuple[str, int]]:
    """Give the partitions, which each version tells in a form of its own."""
    yield from ((one.topic_name, one.partition_index) for one in request.ungrouped_partitions)
    yield from ((one.name, number) for one in request.topics for number in one.partition_indexes)
    yield from (
        (one.topic_name, state.partition_index) for one in request.topic_states for state in one.partition_states
    )
