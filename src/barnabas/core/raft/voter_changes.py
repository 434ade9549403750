"""Changes of the voters as the leader makes them, one at a time (KIP-853): AddRaftVoter, RemoveRaftVoter.

A new set holds for the leader from the moment it is appended; it is answered when it is committed. Because two sets in
a row share a majority, nothing else is needed for safety than that the one before is committed.
"""

from __future__ import annotations

from typing import Final

from barnabas.core.raft.addressing import has_valid_cluster, named_endpoints
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.pending import Incoming, VoterChange
from barnabas.core.raft.ready import Peer
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet, endpoint_on
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

KRAFT_VERSION_FEATURE: Final = "kraft.version"
_AGAIN: Final = "; try again later"


def on_add(replica: Replica, incoming: Incoming, request: AddRaftVoterRequest) -> None:
    """Add a voter that has caught up, once it has said which versions it runs."""
    role = replica.role
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    endpoints = named_endpoints(request.listeners)
    endpoint = endpoint_on(endpoints, replica.settings.listener)
    refused = _refusal(replica, request.cluster_id, key) or _no_new_voter(replica, key, endpoint)
    if refused is not None or not isinstance(role, Leader) or endpoint is None:
        error, message = refused or (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        replica.reply(incoming.token, AddRaftVoterResponse(error_code=error, error_message=message))
        return
    request_id = replica.send(Peer(key.node_id, endpoint), ApiVersionsRequest())
    due = replica.now_ms + replica.settings.request_timeout_ms
    role.change = VoterChange(incoming.token, due, key, endpoints, request.ack_when_committed, request_id)


def on_api_versions_response(replica: Replica, request_id: int, response: ApiVersionsResponse | None) -> bool:
    """Take in which versions the voter to be runs; says whether it answered well. None: it did not answer."""
    role = replica.role
    if not isinstance(role, Leader) or role.change is None or role.change.request_id != request_id:
        return True
    change = role.change
    key = change.adds
    if key is None or response is None or response.error_code != ErrorCode.NONE:
        finish(replica, role, ErrorCode.REQUEST_TIMED_OUT, "the new voter did not say its versions" + _AGAIN)
        return False
    feature = next((f for f in response.supported_features if f.name == KRAFT_VERSION_FEATURE), None)
    versions = (0, 0) if feature is None else (feature.min_version, feature.max_version)
    if not versions[0] <= replica.kraft_version <= versions[1]:
        finish(
            replica,
            role,
            ErrorCode.INVALID_REQUEST,
            f"the new voter runs {KRAFT_VERSION_FEATURE} {versions[0]} to {versions[1]}, not {replica.kraft_version}",
        )
    elif not role.is_caught_up(key, replica.now_ms):
        finish(replica, role, ErrorCode.REQUEST_TIMED_OUT, f"the log of node {key.node_id} lags behind" + _AGAIN)
    else:
        change.request_id = None
        change.last_offset = _append(replica, replica.voters.with_voter(Voter(key, change.endpoints, versions)))
        if not change.ack_when_committed and change.token is not None:
            replica.reply(change.token, AddRaftVoterResponse(error_message=None))
            change.token = None
    return True


def on_remove(replica: Replica, incoming: Incoming, request: RemoveRaftVoterRequest) -> None:
    """Remove a voter; the leader itself leads on until its removal is committed."""
    role = replica.role
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    refused = _refusal(replica, request.cluster_id, key)
    voters = replica.voters.without(key)
    if refused is None and voters is None:
        refused = (
            ErrorCode.VOTER_NOT_FOUND,
            f"node {key.node_id} with directory {key.directory_id} is no voter, or the only one",
        )
    if refused is not None or not isinstance(role, Leader) or voters is None:
        error, message = refused or (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        replica.reply(incoming.token, RemoveRaftVoterResponse(error_code=error, error_message=message))
        return
    due = replica.now_ms + replica.settings.request_timeout_ms
    role.change = VoterChange(incoming.token, due, last_offset=_append(replica, voters))


def committed(replica: Replica, role: Leader) -> None:
    """Answer the change that the high watermark has passed; a leader whose removal is committed resigns."""
    change, high_watermark = role.change, role.high_watermark
    if (
        change is not None
        and change.last_offset is not None
        and high_watermark is not None
        and high_watermark > change.last_offset
    ):
        finish(replica, role, ErrorCode.NONE)
    if not replica.is_voter and is_settled(replica, role):
        role.resign_requested = True


def expire(replica: Replica, role: Leader) -> None:
    """Give up a change that takes too long; when its record is in the log it may still be committed."""
    if role.change is not None and role.change.due_ms <= replica.now_ms:
        finish(replica, role, ErrorCode.REQUEST_TIMED_OUT)


def finish(replica: Replica, role: Leader, error: ErrorCode, message: str | None = None) -> None:
    """Answer the change that is under way, and be open for the next."""
    change, role.change = role.change, None
    if change is None or change.token is None:
        return
    answer: Message
    if change.adds is not None:
        answer = AddRaftVoterResponse(error_code=error, error_message=message)
    else:
        answer = RemoveRaftVoterResponse(error_code=error, error_message=message)
    replica.reply(change.token, answer)


def is_settled(replica: Replica, role: Leader) -> bool:
    """Say whether the voters in force are committed; only then they may change again."""
    return role.high_watermark is not None and replica.control.voters.last.offset < role.high_watermark


def _refusal(replica: Replica, cluster_id: str | None, key: ReplicaKey) -> tuple[ErrorCode, str | None] | None:
    """Give why no change at all can be made now, None when one can."""
    role = replica.role
    if not has_valid_cluster(replica, cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {replica.cluster_id}"
    if not isinstance(role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    if key.node_id < 0 or not any(key.directory_id):
        return ErrorCode.INVALID_REQUEST, "the voter's ids are not valid"
    expire(replica, role)
    if role.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way" + _AGAIN
    if role.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed anything of its epoch" + _AGAIN
    if replica.kraft_version < 1:
        version = replica.kraft_version
        return ErrorCode.UNSUPPORTED_VERSION, f"the voters are static at {KRAFT_VERSION_FEATURE} {version}"
    if not is_settled(replica, role):
        return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed" + _AGAIN
    return None


def _no_new_voter(replica: Replica, key: ReplicaKey, endpoint: Endpoint | None) -> tuple[ErrorCode, str] | None:
    if endpoint is None:
        return ErrorCode.INVALID_REQUEST, f"the voter has no endpoint on listener {replica.settings.listener}"
    if replica.voters.get(key.node_id) is not None:
        return ErrorCode.DUPLICATE_VOTER, f"node {key.node_id} is a voter already"
    if not replica.connections.can_send(key.node_id):
        return ErrorCode.REQUEST_TIMED_OUT, "the new voter is busy" + _AGAIN
    return None


def _append(replica: Replica, voters: VoterSet) -> int:
    return replica.append_control([voters.to_record()]).end_offset - 1
