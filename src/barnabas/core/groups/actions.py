"""What time does to groups: each deadline's action, and the names of the deadlines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpireMember:
    """A member, or the holder of a pending id, was not heard of in time."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class CompleteJoin:
    """The join phase has lasted long enough."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ExtendInitialJoin:
    """The first join phase of a group: wait a little more while new members come (KIP-134)."""

    group_id: str
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class ExpireSync:
    """Members were told to send SyncGroup and some did not."""

    group_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Look for expired offsets and groups that nobody needs."""


@dataclass(frozen=True, slots=True)
class ExpireConsumer:
    """A member of the consumer protocol was not heard of in time."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ExpireRevocation:
    """A member of the consumer protocol did not give up in time what was taken from it; epoch: its own then."""

    group_id: str
    member_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class ExpireClassic:
    """A member that speaks the classic protocol inside of a consumer group sent no JoinGroup or SyncGroup in time."""

    group_id: str
    member_id: str


OfClassic = ExpireMember | CompleteJoin | ExtendInitialJoin | ExpireSync
"""What time does to a group of the classic protocol."""
OfConsumers = ExpireConsumer | ExpireRevocation | ExpireClassic
"""What time does to a member of a group of the consumer protocol."""
Action = OfClassic | OfConsumers | CleanUp


def member_key(group_id: str, member_id: str) -> tuple[str, ...]:
    """Name a member's session deadline."""
    return ("heartbeat", group_id, member_id)


def join_key(group_id: str) -> tuple[str, ...]:
    """Name the deadline of a group's join phase."""
    return ("join", group_id)


def sync_key(group_id: str) -> tuple[str, ...]:
    """Name the deadline of a group's sync phase."""
    return ("sync", group_id)


def session_key(group_id: str, member_id: str) -> tuple[str, ...]:
    """Name the deadline of the session of a member of a consumer group."""
    return ("session", group_id, member_id)


def revocation_key(group_id: str, member_id: str) -> tuple[str, ...]:
    """Name the deadline by which a member must have given up what was taken from it."""
    return ("revocation", group_id, member_id)


def rejoin_key(group_id: str, member_id: str) -> tuple[str, ...]:
    """Name the deadline by which a classic member of a consumer group must have sent JoinGroup again."""
    return ("rejoin", group_id, member_id)


def resync_key(group_id: str, member_id: str) -> tuple[str, ...]:
    """Name the deadline by which a classic member of a consumer group must have fetched its assignment."""
    return ("resync", group_id, member_id)
