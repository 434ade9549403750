"""Which module takes which message."""

from __future__ import annotations

from barnabas.core.raft.begin_epoch import on_begin, on_begin_response
from barnabas.core.raft.describing import on_describe
from barnabas.core.raft.end_epoch import on_end, on_end_response
from barnabas.core.raft.fetch_serving import on_fetch
from barnabas.core.raft.fetching import on_fetch_response
from barnabas.core.raft.joining import on_join_response, on_update_response
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.ready import Peer
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.responses import Outcome
from barnabas.core.raft.snapshot_fetching import on_fetch_snapshot_response
from barnabas.core.raft.snapshot_serving import on_fetch_snapshot
from barnabas.core.raft.vote import on_vote, on_vote_response
from barnabas.core.raft.voter_changes import on_add, on_api_versions_response, on_remove
from barnabas.core.raft.voter_updates import on_update
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from barnabas.wire.messages.vote import VoteRequest, VoteResponse


def dispatch_request(replica: Replica, incoming: Incoming, request: Message) -> None:
    """Let the right module answer, now or later."""
    match request:
        case FetchRequest():
            on_fetch(replica, incoming, request)
        case FetchSnapshotRequest():
            on_fetch_snapshot(replica, incoming, request)
        case VoteRequest():
            replica.reply(incoming.token, on_vote(replica, incoming, request))
        case BeginQuorumEpochRequest():
            replica.reply(incoming.token, on_begin(replica, incoming, request))
        case EndQuorumEpochRequest():
            replica.reply(incoming.token, on_end(replica, incoming, request))
        case AddRaftVoterRequest():
            on_add(replica, incoming, request)
        case RemoveRaftVoterRequest():
            on_remove(replica, incoming, request)
        case UpdateRaftVoterRequest():
            replica.reply(incoming.token, on_update(replica, incoming, request))
        case DescribeQuorumRequest():
            replica.reply(incoming.token, on_describe(replica, incoming, request))
        case _:
            raise TypeError(f"{type(request).__name__} is no request of the quorum")


def dispatch_response(replica: Replica, request_id: int, response: Message | None) -> None:
    """Let the right module take what came of a request, unless a move to another role made it void."""
    peer = replica.connections.peer_of(request_id)
    if peer is None:
        return
    if _handle(replica, peer, request_id, response) is Outcome.DONE:
        replica.connections.done(request_id)
    else:
        replica.connections.failed(request_id, replica.now_ms)


def _handle(replica: Replica, peer: Peer, request_id: int, response: Message | None) -> Outcome:
    match response:
        case FetchResponse():
            return on_fetch_response(replica, response)
        case FetchSnapshotResponse():
            return on_fetch_snapshot_response(replica, response)
        case VoteResponse():
            return on_vote_response(replica, peer, response)
        case BeginQuorumEpochResponse():
            return on_begin_response(replica, response)
        case EndQuorumEpochResponse():
            return on_end_response(replica, peer, response)
        case UpdateRaftVoterResponse():
            return on_update_response(replica, response)
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            return on_join_response(replica, response)
        case ApiVersionsResponse() | None:
            well = on_api_versions_response(replica, request_id, response)
            return Outcome.DONE if well and response is not None else Outcome.FAILED
        case _:
            raise TypeError(f"{type(response).__name__} is no response of the quorum")
