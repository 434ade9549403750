"""Vote (KIP-595), with pre-vote (KIP-996): asking for votes, giving them, counting them."""

from __future__ import annotations

from barnabas.core.raft.addressing import (
    PARTITION,
    TOPIC,
    answered_endpoints,
    has_valid_cluster,
    leader_endpoint,
    leader_id,
    the_partition,
)
from barnabas.core.raft.candidate import Candidate
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.prospective import Prospective
from barnabas.core.raft.ready import Peer
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.responses import Outcome, common
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.voters import ReplicaKey
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.vote import (
    NodeEndpoint,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
    VoteRequest,
    VoteResponse,
)


def vote_request(replica: Replica, voter: ReplicaKey) -> VoteRequest:
    """Give what a prospective or a candidate asks a voter."""
    end = replica.log.end_and_epoch
    partition = RequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=replica.epoch,
        replica_id=replica.key.node_id,
        replica_directory_id=replica.key.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=isinstance(replica.role, Prospective),
    )
    topic = RequestTopicData(topic_name=TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=replica.cluster_id, voter_id=voter.node_id, topics=[topic])


def on_vote(replica: Replica, incoming: Incoming, request: VoteRequest) -> VoteResponse:
    """Give or refuse a vote; a given one is on disk before the answer goes out."""
    if not has_valid_cluster(replica, request.cluster_id):
        return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = the_partition(request.topics)
    if asked is None:
        return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = _refusal(replica, asked)
    if error is not ErrorCode.NONE:
        return _answer(replica, incoming, error)
    if asked.replica_epoch > replica.epoch:
        replica.become_unattached(asked.replica_epoch)
    if request.voter_id >= 0 and not is_me(replica, ReplicaKey(request.voter_id, asked.voter_directory_id)):
        return _answer(replica, incoming, ErrorCode.INVALID_VOTER_KEY)
    return _answer(replica, incoming, ErrorCode.NONE, granted=_vote(replica, asked))


def is_me(replica: Replica, key: ReplicaKey) -> bool:
    """Say whether a request is meant for this replica; a key without a directory goes by the node id alone."""
    return key.node_id == replica.key.node_id and (
        not any(key.directory_id) or key.directory_id == replica.key.directory_id
    )


def _refusal(replica: Replica, asked: RequestPartitionData) -> ErrorCode:
    # A candidate has raised its epoch above that of its log, a prospective has not.
    epochs_fit = asked.last_offset_epoch < asked.replica_epoch + asked.pre_vote
    if asked.last_offset < 0 or asked.last_offset_epoch < 0 or not epochs_fit:
        return ErrorCode.INVALID_REQUEST
    if asked.replica_epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if asked.replica_id < 0 else ErrorCode.NONE


def _vote(replica: Replica, asked: RequestPartitionData) -> bool:
    key = ReplicaKey(asked.replica_id, asked.replica_directory_id)
    up_to_date = replica.log.reaches(OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch))
    role = replica.role
    granted = role.grants(key, up_to_date=up_to_date, pre_vote=asked.pre_vote)
    if granted and not asked.pre_vote and isinstance(role, Unattached | Prospective) and role.voted is None:
        role.voted = key
        role.deadline_ms = replica.election_deadline() if replica.may_stand else role.deadline_ms
    return granted


def _answer(replica: Replica, incoming: Incoming, error: ErrorCode, *, granted: bool = False) -> VoteResponse:
    partition = ResponsePartitionData(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id(replica),
        leader_epoch=replica.epoch,
        vote_granted=granted,
    )
    response = VoteResponse(topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])])
    endpoint = leader_endpoint(replica, incoming) if incoming.version >= 1 else None
    if endpoint is not None:
        response.node_endpoints = [NodeEndpoint(node_id=partition.leader_id, host=endpoint.host, port=endpoint.port)]
    return response


def on_vote_response(replica: Replica, peer: Peer, response: VoteResponse) -> Outcome:
    """Count an answer; the election may be over with it."""
    role = replica.role
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(role, Prospective):
        # A voter that does not know pre-votes: stand at once, as before there were any.
        replica.become_candidate()
        return Outcome.DONE
    partition = the_partition(response.topics)
    if response.error_code != ErrorCode.NONE or partition is None:
        return Outcome.FAILED
    endpoints = answered_endpoints(replica, partition.leader_id, response.node_endpoints)
    outcome = common(replica, partition.error_code, partition.leader_id, partition.leader_epoch, endpoints)
    if outcome is not Outcome.UNHANDLED:
        return outcome
    if partition.error_code != ErrorCode.NONE:
        return Outcome.FAILED
    if isinstance(replica.role, Prospective | Candidate):
        replica.role.votes.record(peer.node_id, partition.vote_granted)
        settle_election(replica)
    return Outcome.DONE


def settle_election(replica: Replica) -> None:
    """Move on when enough have answered."""
    role = replica.role
    if isinstance(role, Candidate):
        if role.votes.is_won:
            replica.become_leader(role.votes)
    elif isinstance(role, Prospective):
        if role.votes.is_won:
            replica.become_candidate()
        elif role.votes.is_lost:
            give_up(replica, role)


def give_up(replica: Replica, role: Prospective) -> None:
    """Go back to what was before the pre-vote: the leader, when there was one."""
    if role.leader_id is not None and role.leader_endpoints and role.leader_id != replica.key.node_id:
        replica.become_follower(role.epoch, role.leader_id, role.leader_endpoints)
    else:
        replica.become_unattached(role.epoch, role.leader_id)
