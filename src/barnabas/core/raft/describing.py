"""DescribeQuorum: voters and observers as the leader sees them (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from barnabas.core.raft.addressing import PARTITION, TOPIC, the_partition
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.progress import Progress
from barnabas.core.raft.replica import Replica
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)


def on_describe(replica: Replica, incoming: Incoming, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe the quorum; only its leader can."""
    if the_partition(request.topics) is None:
        return DescribeQuorumResponse(error_message=None, topics=_unknown(request))
    role = replica.role
    if not isinstance(role, Leader):
        refused = _refused(PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return DescribeQuorumResponse(
            error_message=None, topics=[ResponseTopicData(topic_name=TOPIC, partitions=[refused])]
        )
    role.forget_observers(replica.now_ms)
    voters = [role.voters[n] for n in sorted(role.voters)]
    observers = [role.observers[key] for key in sorted(role.observers)]
    partition = ResponsePartitionData(
        partition_index=PARTITION,
        error_message=None,
        leader_id=role.node_id,
        leader_epoch=role.epoch,
        high_watermark=-1 if role.high_watermark is None else role.high_watermark,
        current_voters=[_state(replica, incoming, p) for p in voters],
        observers=[_state(replica, incoming, p) for p in observers],
    )
    response = DescribeQuorumResponse(
        error_message=None, topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])]
    )
    if incoming.version >= 2:
        response.nodes = [
            Node(node_id=p.key.node_id, listeners=[Listener(name=n, host=e.host, port=e.port) for n, e in p.endpoints])
            for p in voters
        ]
    return response


def _state(replica: Replica, incoming: Incoming, progress: Progress) -> ReplicaState:
    is_leader = progress.is_of(replica.key)
    state = ReplicaState(
        replica_id=progress.key.node_id,
        log_end_offset=-1 if progress.end is None else progress.end,
        last_fetch_timestamp=replica.now_ms if is_leader else progress.fetched_ms,
        last_caught_up_timestamp=replica.now_ms if is_leader else progress.caught_up_ms,
    )
    if incoming.version >= 2:
        state.replica_directory_id = progress.key.directory_id
    return state


def _refused(index: int, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=index, error_code=error, error_message=error.message)


def _unknown(request: DescribeQuorumRequest) -> list[ResponseTopicData]:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        ResponseTopicData(
            topic_name=topic.topic_name, partitions=[_refused(p.partition_index, error) for p in topic.partitions]
        )
        for topic in request.topics
    ]
