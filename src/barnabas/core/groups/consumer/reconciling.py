"""How one member walks from what it has to its target: give up first, then take what is free (KIP-848).

A partition changes hands in this order: its member is told to revoke it, says that it did, and only then is it given
to the next; so no two members have it at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from barnabas.core.groups.consumer.group import FREE
from barnabas.core.groups.consumer.member import ConsumerMember, MemberState, Owned, Target
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode


class PartitionEpoch(Protocol):
    """Who asks gets the epoch at which somebody has the partition, FREE when nobody does."""

    def __call__(self, topic_id: Uuid, partition: int) -> int: ...


class Held(Protocol):
    """What a heartbeat says that its member holds, of one topic."""

    topic_id: Uuid
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What the next step of a member depends on.

    subscribed: the topics that it reads now. held: what it said that it holds, None when it did not say.
    """

    target_epoch: int
    target: Target
    partition_epoch: PartitionEpoch
    subscribed: frozenset[Uuid]
    subscription_changed: bool
    held: Iterable[Held] | None

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """Give the member after one step; the same when it has to wait. FENCED_MEMBER_EPOCH in an unknown state."""
        match member.state:
            case MemberState.STABLE:
                if member.epoch != self.target_epoch:
                    return self._towards_target(member, member.epoch)
                return self._within_subscription(member) if self.subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if not self._still_holds(member.pending_revocation):
                    return self._towards_target(member, member.epoch)
                return self._within_subscription(member) if self.subscription_changed else member
            case MemberState.UNRELEASED_PARTITIONS:
                return self._towards_target(member, member.epoch)
            case _:
                if self.held is None or list(self.held):
                    raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, _UNKNOWN_STATE)
                return self._towards_target(member, self.target_epoch)

    def _still_holds(self, revoked: Owned) -> bool:
        """Whether the member may still hold one of these; it does as long as it says nothing."""
        if self.held is None:
            return True
        return any(not revoked.get(one.topic_id, _NONE).keys().isdisjoint(one.partitions) for one in self.held)

    def _within_subscription(self, member: ConsumerMember) -> ConsumerMember:
        """Take partitions of topics back that the member does not read any more, before there is a new target."""
        kept = {topic: mine for topic, mine in member.assigned.items() if topic in self.subscribed}
        if len(kept) == len(member.assigned):
            return member
        pending = {topic: dict(mine) for topic, mine in member.pending_revocation.items()}
        for topic, mine in member.assigned.items():
            if topic not in kept:
                pending.setdefault(topic, {}).update(mine)
        if self._still_holds(pending):
            return member.moved(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
        return member._replace(previous_epoch=member.epoch, assigned=kept)

    def _towards_target(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        kept: dict[Uuid, dict[int, int]] = {}
        revoked: dict[Uuid, dict[int, int]] = {}
        granted: dict[Uuid, list[int]] = {}
        waits = False
        for topic in member.assigned.keys() | self.target.keys():
            target = self.target.get(topic, frozenset()) if topic in self.subscribed else frozenset()
            has = member.assigned.get(topic, _NONE)
            giving_up = member.pending_revocation.get(topic, _NONE)
            for partition, since in has.items():
                (kept if partition in target else revoked).setdefault(topic, {})[partition] = since
            for partition in target - has.keys():
                # What the member itself has just given up is still noted as its own: nobody else can have it.
                if partition in giving_up or self.partition_epoch(topic, partition) == FREE:
                    granted.setdefault(topic, []).append(partition)
                else:
                    waits = True
        if revoked and self._still_holds(revoked):
            return member.moved(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
        for topic, partitions in granted.items():
            kept.setdefault(topic, {}).update(dict.fromkeys(partitions, self.target_epoch))
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return member.moved(self.target_epoch, state, kept, {})


_NONE: Final[Mapping[int, int]] = {}
_UNKNOWN_STATE: Final = (
    "a newer coordinator left the member in a state that this one does not know: give up all partitions and join again"
)
