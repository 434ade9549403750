"""Requests that a leader has not answered yet: fetches that wait for news, and the change of voters under way."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.voters import Endpoints, ReplicaKey
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it came in. token: what its answer is called by; listener: where it came in."""

    token: int
    version: int
    listener: str


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    """A fetch that nothing could be said to yet; it is answered by `due_ms` at the latest."""

    incoming: Incoming
    request: FetchRequest
    partition: FetchPartition
    due_ms: int


@dataclass(slots=True)
class VoterChange:
    """The change of voters under way; there is one at a time.

    token: the request's, None once it is answered; adds: the voter to be, None for a removal; request_id: of the
    question which versions it runs; last_offset: of the record with the new voters, once there is one.
    """

    token: int | None
    due_ms: int
    adds: ReplicaKey | None = None
    endpoints: Endpoints = ()
    ack_when_committed: bool = True
    request_id: int | None = None
    last_offset: int | None = None
