"""The words in which traces tell of the quorum's messages: a request and what came of it, in one line."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterResponse
from barnabas.wire.messages.vote import VoteRequest, VoteResponse
from barnabas.wire.record_batch import iter_headers


def said(request: Message, response: Message | None) -> str:
    """Give the line, "" for a fetch that brought nothing."""
    if response is None:
        return "" if isinstance(request, FetchRequest) else f"{asked(request)}: lost"
    answer = answered(response)
    return f"{asked(request)}: {answer}" if answer else ""


def asked(request: Message) -> str:
    """Give what a request asks."""
    match request:
        case VoteRequest():
            want = request.topics[0].partitions[0]
            kind = "PreVote" if want.pre_vote else "Vote"
            return f"{kind} epoch={want.replica_epoch} end={want.last_offset}@{want.last_offset_epoch}"
        case BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch epoch={request.topics[0].partitions[0].leader_epoch}"
        case EndQuorumEpochRequest():
            told = request.topics[0].partitions[0]
            first = ",".join(str(c.candidate_id) for c in told.preferred_candidates)
            return f"EndQuorumEpoch epoch={told.leader_epoch} successors={first}"
        case FetchRequest():
            part = request.topics[0].partitions[0]
            return f"Fetch epoch={part.current_leader_epoch} from={part.fetch_offset}@{part.last_fetched_epoch}"
        case FetchSnapshotRequest():
            stretch = request.topics[0].partitions[0]
            return f"FetchSnapshot {stretch.snapshot_id.end_offset}@{stretch.snapshot_id.epoch} from={stretch.position}"
        case AddRaftVoterRequest() | RemoveRaftVoterRequest():
            return f"{request.NAME.removesuffix('Request')} {request.voter_id}"
        case _:
            return request.NAME.removesuffix("Request")


def answered(response: Message) -> str:
    """Give what a response says, "" for nothing new."""
    match response:
        case VoteResponse():
            vote = response.topics[0].partitions[0]
            word = "granted" if vote.vote_granted else "refused"
            return f"{word} epoch={vote.leader_epoch} leader={vote.leader_id}{_error(vote.error_code)}"
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            took = response.topics[0].partitions[0]
            return f"epoch={took.leader_epoch} leader={took.leader_id}{_error(took.error_code)}"
        case FetchResponse():
            return _fetched(response)
        case FetchSnapshotResponse():
            part = response.topics[0].partitions[0]
            size = memoryview(part.unaligned_records).nbytes  # type: ignore[arg-type]
            return f"{size} of {part.size} bytes{_error(part.error_code)}"
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            return f"{ErrorCode(response.error_code).name} {response.error_message or ''}".strip()
        case UpdateRaftVoterResponse() | ApiVersionsResponse():
            return ErrorCode(response.error_code).name
        case _:
            return ""


def _fetched(response: FetchResponse) -> str:
    part = response.responses[0].partitions[0]
    leader = f" epoch={part.current_leader.leader_epoch} leader={part.current_leader.leader_id}"
    if part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ""
    if part.error_code:
        return ErrorCode(part.error_code).name + leader
    if part.diverging_epoch.epoch >= 0:
        return f"diverging, epoch {part.diverging_epoch.epoch} ends at {part.diverging_epoch.end_offset}"
    if part.snapshot_id.epoch >= 0:
        return f"snapshot {part.snapshot_id.end_offset}@{part.snapshot_id.epoch}"
    assert isinstance(part.records, bytes)
    batches = " ".join(f"{h.base_offset}-{h.last_offset}@{h.leader_epoch}" for _, h in iter_headers(part.records))
    return f"records {batches} hw={part.high_watermark}" if batches else ""


def _error(code: int) -> str:
    return f" {ErrorCode(code).name}" if code else ""
