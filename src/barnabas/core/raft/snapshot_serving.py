"""FetchSnapshot as the leader serves it (KIP-630): stretches of a snapshot, by position."""

from __future__ import annotations

from barnabas.core.raft.addressing import (
    PARTITION,
    TOPIC,
    has_valid_cluster,
    leader_endpoint,
    leader_id,
)
from barnabas.core.raft.fetch_serving import leader_only
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.ready import SnapshotRead
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voters import ReplicaKey
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    RequestPartitionSnapshot,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
    SnapshotId,
)


def on_fetch_snapshot(replica: Replica, incoming: Incoming, request: FetchSnapshotRequest) -> None:
    """Answer with the bytes from `position` on, or why not."""
    if not has_valid_cluster(replica, request.cluster_id):
        replica.reply(incoming.token, FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        replica.reply(incoming.token, FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    topic, asked = request.topics[0].name, request.topics[0].partitions[0]
    if (topic, asked.partition) != (TOPIC, PARTITION):
        answer = ResponsePartitionSnapshot(index=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica.reply(incoming.token, _response(replica, incoming, topic, answer))
        return
    answer = ResponsePartitionSnapshot(
        index=PARTITION,
        snapshot_id=SnapshotId(end_offset=-1, epoch=-1),
        current_leader=LeaderIdAndEpoch(leader_id=leader_id(replica), leader_epoch=replica.epoch),
    )
    read = _serve(replica, request, asked, answer)
    replica.reply(incoming.token, _response(replica, incoming, TOPIC, answer), read)


def _serve(
    replica: Replica, request: FetchSnapshotRequest, asked: RequestPartitionSnapshot, answer: ResponsePartitionSnapshot
) -> SnapshotRead | None:
    snapshot_id = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    size = replica.log.snapshot_size(snapshot_id)
    answer.error_code = leader_only(replica, asked.current_leader_epoch)
    if answer.error_code != ErrorCode.NONE:
        return None
    if size is None or snapshot_id == BOOTSTRAP_SNAPSHOT:
        answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return None
    if not 0 <= asked.position < size:
        answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        return None
    if isinstance(replica.role, Leader):
        replica.role.follows(ReplicaKey(request.replica_id, asked.replica_directory_id), replica.now_ms)
    answer.snapshot_id = asked.snapshot_id
    answer.size = size
    answer.position = asked.position
    return SnapshotRead(snapshot_id, asked.position, max(1, min(request.max_bytes, size - asked.position)))


def _response(
    replica: Replica, incoming: Incoming, topic: str, answer: ResponsePartitionSnapshot
) -> FetchSnapshotResponse:
    response = FetchSnapshotResponse(topics=[ResponseTopicSnapshot(name=topic, partitions=[answer])])
    endpoint = leader_endpoint(replica, incoming) if incoming.version >= 1 else None
    if endpoint is not None:
        leader = leader_id(replica)
        response.node_endpoints = [NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port)]
    return response
