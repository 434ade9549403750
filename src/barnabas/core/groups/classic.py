"""A group of the classic protocol: its states, its members, and how each may change. KIP-62, KIP-345.

States: EMPTY (no members; offsets may remain), PREPARING_REBALANCE (members are joining),
COMPLETING_REBALANCE (the leader computes the assignment), STABLE, DEAD (unloaded or deleted).
`PREVIOUS_STATES` says which moves exist. Nothing here parks, times or stores: see `rebalance.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from barnabas.core.groups import subscription
from barnabas.wire.errors import ApiError, ErrorCode

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
Protocols = tuple[tuple[str, bytes], ...]
"""What a member can speak, best liked first: (name, metadata)."""


class ClassicGroupState(Enum):
    """The value is how Kafka prints it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicGroupState

PREVIOUS_STATES: Final[dict[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({EMPTY, COMPLETING, STABLE}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    DEAD: frozenset(ClassicGroupState),
}


@dataclass(slots=True)
class Member:
    """One member. awaiting_join, awaiting_sync: the parked request, if there is one.

    is_new: its first JoinGroup has not been answered yet, so it does not know its id and cannot heartbeat.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: object | None = None
    awaiting_sync: object | None = None
    is_new: bool = False

    def metadata(self, protocol: str) -> bytes:
        """Give what the member said about a protocol that it supports."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"member {self.member_id} does not support protocol {protocol}")

    def vote(self, candidates: set[str]) -> str:
        """Give the candidate that this member likes best."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether a missing heartbeat is forgiven: a parked request is a sign of life, but not a first one."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)


@dataclass(slots=True)
class ClassicGroup:
    """A live group. timestamp_ms: when it entered its state, None when a record did not say."""

    group_id: str
    timestamp_ms: int | None
    state: ClassicGroupState = EMPTY
    previous_state: ClassicGroupState = DEAD
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_join: dict[str, None] = field(default_factory=dict)
    """Member ids that were handed out and did not come back yet (KIP-394), in order."""
    pending_sync: dict[str, None] = field(default_factory=dict)
    subscribed_topics: frozenset[str] | None = None
    new_member_added: bool = False
    awaiting_join_count: int = 0
    _supported: Counter[str] = field(default_factory=Counter)

    # state

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        """Enter a state; a move that `PREVIOUS_STATES` does not list is a mistake of ours."""
        if self.state not in PREVIOUS_STATES[state]:
            raise AssertionError(f"group {self.group_id}: no way from {self.state} to {state}")
        self.previous_state = self.state
        self.state = state
        self.timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether PREPARING_REBALANCE can be entered from here."""
        return self.state in PREVIOUS_STATES[PREPARING]

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members speak the protocol of Kafka's consumers, so that we can read subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as is known; a consumer group we cannot read counts."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # members

    def add(self, member: Member) -> None:
        """Take a member in; the first one decides the protocol type and leads."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._supported.update(_names(member.protocols))
        self.awaiting_join_count += member.awaiting_join is not None
        self.pending_join.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Let a member, or the holder of a pending id, go; the oldest of the rest leads if it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(_names(member.protocols))
            self.awaiting_join_count -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_join.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def update(
        self, member: Member, protocols: Protocols, rebalance_ms: int, session_ms: int, waiter: object | None
    ) -> None:
        """Take over what a rejoining member says now; waiter is its parked JoinGroup, or None."""
        self._supported.subtract(_names(member.protocols))
        member.protocols = protocols
        self._supported.update(_names(protocols))
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms
        self.awaiting_join_count += (waiter is not None) - (member.awaiting_join is not None)
        member.awaiting_join = waiter

    def take_join(self, member: Member) -> object | None:
        """Give the member's parked JoinGroup, which is parked no more, or None."""
        waiter, member.awaiting_join = member.awaiting_join, None
        self.awaiting_join_count -= waiter is not None
        return waiter

    def take_sync(self, member: Member) -> object | None:
        """Give the member's parked SyncGroup, which is parked no more, or None."""
        waiter, member.awaiting_sync = member.awaiting_sync, None
        return waiter

    def rename_static(self, instance_id: str, old_id: str, new_id: str) -> Member:
        """Put the member behind a static instance under a new id; its parked requests must be gone by now."""
        old = self.members.pop(old_id)
        member = Member(
            new_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.members[new_id] = member
        if self.leader == old_id:
            self.leader = new_id
        self.static_members[instance_id] = new_id
        return member

    def validate_member(self, member_id: str, instance_id: str | None) -> None:
        """Raise UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another id now stands for the instance."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether nobody is missing: each member has a parked JoinGroup, each id handed out came back."""
        return len(self.members) == self.awaiting_join_count and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is among those who joined; False when there is no such member."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    # protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can be one of us."""
        names = list(names)
        if self.state is EMPTY:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supported[name] == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Give the protocol with the most votes among those that all members support."""
        candidates = {name for name, count in self._supported.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Give the topics that the members read; None when that is not known."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return subscription.topics_of(m.metadata(self.protocol) for m in self.members.values())

    def init_next_generation(self, now_ms: int) -> None:
        """Close the join phase: COMPLETING_REBALANCE with those who joined, or EMPTY."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(COMPLETING if self.members else EMPTY, now_ms)
        self.pending_sync.clear()


def _names(protocols: Sequence[tuple[str, bytes]]) -> list[str]:
    return [name for name, _ in protocols]
