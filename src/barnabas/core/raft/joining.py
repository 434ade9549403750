"""What a follower tells its leader of itself (KIP-853): its endpoints, or that it joins or replaces a voter."""

from __future__ import annotations

from barnabas.core.raft.follower import Follower
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.responses import Outcome, common
from barnabas.core.raft.voters import Endpoint, Endpoints
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.messages.add_raft_voter import Listener as AddListener
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.wire.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

_JOINED = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)


def news_of_me(replica: Replica, role: Follower) -> Message | None:
    """Give what the leader has to be told, None when it knows all."""
    if replica.is_voter:
        return _update(replica, role)
    if replica.kraft_version < 1 or not (replica.settings.can_vote and replica.settings.auto_join):
        return None
    stale = replica.voters.get(replica.key.node_id)
    if stale is not None:
        # Another directory of this node votes: it was lost, or this node would not be an observer.
        return RemoveRaftVoterRequest(
            cluster_id=replica.cluster_id, voter_id=stale.node_id, voter_directory_id=stale.key.directory_id
        )
    return AddRaftVoterRequest(
        cluster_id=replica.cluster_id,
        timeout_ms=replica.settings.request_timeout_ms,
        voter_id=replica.key.node_id,
        voter_directory_id=replica.key.directory_id,
        listeners=[AddListener(name=n, host=e.host, port=e.port) for n, e in replica.voter.endpoints],
        ack_when_committed=False,
    )


def _update(replica: Replica, role: Follower) -> UpdateRaftVoterRequest | None:
    known = replica.voters.get(replica.key.node_id) == replica.voter if replica.kraft_version > 0 else role.has_updated
    if known:
        return None
    low, high = replica.voter.versions
    return UpdateRaftVoterRequest(
        cluster_id=replica.cluster_id,
        current_leader_epoch=replica.epoch,
        voter_id=replica.key.node_id,
        voter_directory_id=replica.key.directory_id,
        listeners=[Listener(name=n, host=e.host, port=e.port) for n, e in replica.voter.endpoints],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=low, max_supported_version=high),
    )


def on_update_response(replica: Replica, response: UpdateRaftVoterResponse) -> Outcome:
    """Take note that the leader knows this voter, or cannot."""
    role = replica.role
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(role, Follower):
        role.has_updated = True
        return Outcome.DONE
    leader = response.current_leader
    endpoints: Endpoints = ()
    if leader.leader_id >= 0 and leader.host:
        endpoints = ((replica.settings.listener, Endpoint(leader.host, leader.port)),)
    outcome = common(replica, response.error_code, leader.leader_id, leader.leader_epoch, endpoints)
    if outcome is not Outcome.UNHANDLED:
        return outcome
    if response.error_code != ErrorCode.NONE or not isinstance(role, Follower):
        return Outcome.FAILED
    role.has_updated = True
    role.deadline_ms = replica.now_ms + replica.settings.fetch_timeout_ms
    role.has_fetched = True
    return Outcome.DONE


def on_join_response(replica: Replica, response: AddRaftVoterResponse | RemoveRaftVoterResponse) -> Outcome:
    """Take note of what came of joining; it is tried again until this replica votes."""
    if isinstance(replica.role, Follower):
        replica.role.update_ms = replica.now_ms + replica.settings.fetch_timeout_ms
    return Outcome.DONE if response.error_code in _JOINED else Outcome.FAILED
