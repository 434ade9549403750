"""BeginQuorumEpoch (KIP-595): the leader tells voters that it leads."""

from __future__ import annotations

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
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.responses import Outcome, common, is_consistent, learn
from barnabas.core.raft.vote import is_me
from barnabas.core.raft.voters import ReplicaKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    LeaderEndpoint,
    NodeEndpoint,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)


def begin_request(replica: Replica, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    """Give what a leader tells a voter."""
    partition = RequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=replica.key.node_id,
        leader_epoch=replica.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=replica.cluster_id,
        voter_id=voter.node_id,
        topics=[RequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[LeaderEndpoint(name=n, host=e.host, port=e.port) for n, e in replica.voter.endpoints],
    )


def on_begin(replica: Replica, incoming: Incoming, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Follow the leader that says it is one, when its epoch is not over."""
    if not has_valid_cluster(replica, request.cluster_id):
        return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    told = the_partition(request.topics)
    if told is None:
        return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    if told.leader_epoch < replica.epoch:
        return _answer(replica, incoming, ErrorCode.FENCED_LEADER_EPOCH)
    if told.leader_id < 0 or not is_consistent(replica, told.leader_id, told.leader_epoch):
        return _answer(replica, incoming, ErrorCode.INVALID_REQUEST)
    endpoints = named_endpoints(request.leader_endpoints) or replica.voters.endpoints_of(told.leader_id)
    learn(replica, told.leader_id, told.leader_epoch, endpoints)
    if request.voter_id >= 0 and not is_me(replica, ReplicaKey(request.voter_id, told.voter_directory_id)):
        return _answer(replica, incoming, ErrorCode.INVALID_VOTER_KEY)
    return _answer(replica, incoming, ErrorCode.NONE)


def _answer(replica: Replica, incoming: Incoming, error: ErrorCode) -> BeginQuorumEpochResponse:
    partition = ResponsePartitionData(
        partition_index=PARTITION, error_code=error, leader_id=leader_id(replica), leader_epoch=replica.epoch
    )
    response = BeginQuorumEpochResponse(topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])])
    endpoint = leader_endpoint(replica, incoming) if incoming.version >= 1 else None
    if endpoint is not None:
        response.node_endpoints = [NodeEndpoint(node_id=partition.leader_id, host=endpoint.host, port=endpoint.port)]
    return response


def on_begin_response(replica: Replica, response: BeginQuorumEpochResponse) -> Outcome:
    """Take in what a voter says; that it agrees needs no note, its fetches show it."""
    partition = the_partition(response.topics)
    if response.error_code != ErrorCode.NONE or partition is None:
        return Outcome.FAILED
    endpoints = answered_endpoints(replica, partition.leader_id, response.node_endpoints)
    outcome = common(replica, partition.error_code, partition.leader_id, partition.leader_epoch, endpoints)
    if outcome is not Outcome.UNHANDLED:
        return outcome
    return Outcome.DONE if partition.error_code == ErrorCode.NONE else Outcome.FAILED
