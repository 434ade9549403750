"""UpdateRaftVoter as the leader serves it, and the upgrade of kraft.version that needs what it tells (KIP-853).

At kraft.version 0 no record holds the voters' directories and versions, so each leader keeps what they tell in memory,
until an upgrade writes it down.
"""

from __future__ import annotations

from barnabas.core.raft.addressing import has_valid_cluster, leader_endpoint, leader_id, named_endpoints
from barnabas.core.raft.fetch_serving import leader_only
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voter_changes import expire, is_settled
from barnabas.core.raft.voters import ReplicaKey, Voter, endpoint_on
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord


def on_update(replica: Replica, incoming: Incoming, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    """Take over a voter's endpoints and versions; answers before the record with them is committed."""
    role = replica.role
    if not has_valid_cluster(replica, request.cluster_id):
        return _answer(replica, incoming, ErrorCode.INCONSISTENT_CLUSTER_ID)
    error = leader_only(replica, request.current_leader_epoch)
    if error is not ErrorCode.NONE or not isinstance(role, Leader):
        return _answer(replica, incoming, error)
    versions = (
        request.kraft_version_feature.min_supported_version,
        request.kraft_version_feature.max_supported_version,
    )
    voter = Voter(
        ReplicaKey(request.voter_id, request.voter_directory_id), named_endpoints(request.listeners), versions
    )
    return _answer(replica, incoming, _update(replica, role, voter))


def _update(replica: Replica, role: Leader, voter: Voter) -> ErrorCode:
    has_key = voter.node_id >= 0 and any(voter.key.directory_id)
    runs = 0 <= voter.versions[0] <= replica.kraft_version <= voter.versions[1]
    if not has_key or not runs or endpoint_on(voter.endpoints, replica.settings.listener) is None:
        return ErrorCode.INVALID_REQUEST
    expire(replica, role)
    if role.change is not None or role.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if replica.kraft_version == 0:
        if role.volatile_voters is None:
            return ErrorCode.REQUEST_TIMED_OUT
        if role.volatile_voters.get(voter.node_id) is None:
            return ErrorCode.VOTER_NOT_FOUND
        role.volatile_voters = role.volatile_voters.with_voter(voter)
    else:
        if not is_settled(replica, role):
            return ErrorCode.REQUEST_TIMED_OUT
        if not replica.voters.has(voter.key):
            return ErrorCode.VOTER_NOT_FOUND
        replica.append_control([replica.voters.with_voter(voter).to_record()])
    role.follows(voter.key, replica.now_ms)
    return ErrorCode.NONE


def _answer(replica: Replica, incoming: Incoming, error: ErrorCode) -> UpdateRaftVoterResponse:
    leader = CurrentLeader(leader_id=leader_id(replica), leader_epoch=replica.epoch)
    endpoint = leader_endpoint(replica, incoming)
    if endpoint is not None:
        leader.host, leader.port = endpoint
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def upgrade_kraft_version(replica: Replica, role: Leader, version: int, *, validate_only: bool) -> int | None:
    """Write kraft.version 1 and the voters that go with it; gives the end of the records, None when it stands already.

    ValueError when a voter does not run it or has not said that it does.
    """
    if version == replica.kraft_version:
        return None
    if version < replica.kraft_version:
        raise ValueError(f"kraft.version stands at {replica.kraft_version} and cannot be lowered to {version}")
    voters = role.volatile_voters
    if voters is None or voters.node_ids != replica.voters.node_ids:
        raise ValueError(f"kraft.version cannot go from {replica.kraft_version} to {version}")
    for voter in voters:
        if not any(voter.key.directory_id) or not voter.versions[0] <= version <= voter.versions[1]:
            raise ValueError(f"voter {voter.node_id} does not run kraft.version {version}, or has not said so yet")
    if validate_only:
        return None
    messages: list[Message] = [KRaftVersionRecord(version=0, kraft_version=version), voters.to_record()]
    entry = replica.append_control(messages)
    role.volatile_voters = None
    role.use_voters(replica.voters)
    return entry.end_offset
