"""EndQuorumEpoch (KIP-595): a leader that resigns tells the voters, so that they need not wait for a timeout."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.core.raft.addressing import (
    PARTITION,
    TOPIC,
    answered_endpoints,
    has_valid_cluster,
    leader_endpoint,
    leader_id,
    named_endpoints,
    the_partition,
)
from barnabas.core.raft.follower import Follower
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.ready import Peer
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.resigned import Resigned
from barnabas.core.raft.responses import Outcome, common, is_consistent, learn
from barnabas.core.raft.vote import is_me
from barnabas.core.raft.voters import ReplicaKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    NodeEndpoint,
    ReplicaInfo,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)


def end_request(replica: Replica, role: Resigned) -> EndQuorumEpochRequest:
    """Give what a leader that resigned tells a voter. Version 0 knows node ids only."""
    partition = RequestPartitionData(
        partition_index=PARTITION,
        leader_id=replica.key.node_id,
        leader_epoch=role.epoch,
        preferred_successors=[key.node_id for key in role.successors],
        preferred_candidates=[
            ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id) for key in role.successors
        ],
    )
    topic = RequestTopicData(topic_name=TOPIC, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=replica.cluster_id, topics=[topic])


def on_end(replica: Replica, incoming: Incoming, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Stand soon, when this replica's leader resigned: at once as its first successor, later as one behind."""
    if not has_valid_cluster(replica, request.cluster_id):
        return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    told = the_partition(request.topics)
    if told is None:
        return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    if told.leader_epoch < replica.epoch:
        return _answer(replica, incoming, ErrorCode.FENCED_LEADER_EPOCH)
    if told.leader_id < 0 or not is_consistent(replica, told.leader_id, told.leader_epoch):
        return _answer(replica, incoming, ErrorCode.INVALID_REQUEST)
    endpoints = named_endpoints(request.leader_endpoints) or replica.voters.endpoints_of(told.leader_id)
    learn(replica, told.leader_id, told.leader_epoch, endpoints)
    role = replica.role
    if isinstance(role, Follower) and role.leader_id == told.leader_id:
        role.deadline_ms = replica.now_ms + _backoff(replica, _successors(told))
    return _answer(replica, incoming, ErrorCode.NONE)


def _successors(told: RequestPartitionData) -> list[ReplicaKey]:
    if told.preferred_candidates:
        return [ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in told.preferred_candidates]
    return [ReplicaKey(node_id) for node_id in told.preferred_successors]


def _backoff(replica: Replica, successors: Sequence[ReplicaKey]) -> int:
    longest = replica.settings.election_backoff_max_ms
    position = next((i for i, key in enumerate(successors) if is_me(replica, key)), len(successors))
    if position == 0 and successors:
        return 0
    if position >= len(successors):
        # Kafka counts a list of nobody like being the first of it.
        return longest if successors else 0
    return min(longest, (longest >> (len(successors) - 1)) << (position - 1))


def _answer(replica: Replica, incoming: Incoming, error: ErrorCode) -> EndQuorumEpochResponse:
    partition = ResponsePartitionData(
        partition_index=PARTITION, error_code=error, leader_id=leader_id(replica), leader_epoch=replica.epoch
    )
    response = EndQuorumEpochResponse(topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])])
    endpoint = leader_endpoint(replica, incoming) if incoming.version >= 1 else None
    if endpoint is not None:
        response.node_endpoints = [NodeEndpoint(node_id=partition.leader_id, host=endpoint.host, port=endpoint.port)]
    return response


def on_end_response(replica: Replica, peer: Peer, response: EndQuorumEpochResponse) -> Outcome:
    """Take note that a voter has heard."""
    partition = the_partition(response.topics)
    if response.error_code != ErrorCode.NONE or partition is None:
        return Outcome.FAILED
    endpoints = answered_endpoints(replica, partition.leader_id, response.node_endpoints)
    outcome = common(replica, partition.error_code, partition.leader_id, partition.leader_epoch, endpoints)
    if outcome is not Outcome.UNHANDLED:
        return outcome
    if partition.error_code != ErrorCode.NONE:
        return Outcome.FAILED
    if isinstance(replica.role, Resigned):
        replica.role.unacknowledged.discard(peer.node_id)
    return Outcome.DONE
