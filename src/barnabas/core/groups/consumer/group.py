"""A group of the consumer protocol, a frozen value: its epochs, members, target, and who has which partition (KIP-848).

The group epoch grows with every change that asks for a new target assignment; the assignment epoch is the group epoch
that the target was computed for; each member walks to the assignment epoch at its own pace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from immutables import Map

from barnabas.core.groups.consumer.asked import Asked
from barnabas.core.groups.consumer.member import LEAVE_EPOCH, ConsumerMember, MemberState, Owned, Target
from barnabas.model.uuid import Uuid

FREE: Final = -1
"""The epoch of a partition that nobody has."""
PROTOCOL_TYPE: Final = "consumer"


class ConsumerGroupState(Enum):
    """The value is how Kafka prints it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that matched. version: of the metadata they were sought in; resolved_ms: when."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ConsumerGroup(NamedTuple):
    """All that the log says of a group, and counts kept beside it so that no request walks over all members.

    A tuple, for the same reason as its members.

    partition_epochs: the epoch of the member that has the partition, or has yet to give it up.
    has_topics_record: coordinators before 4.1 described the topics in a record of their own, which has to go.
    """

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_ms: int = 0
    members: Map[str, ConsumerMember] = Map()
    static_members: Map[str, str] = Map()
    target: Map[str, Target] = Map()
    resolved: Map[str, ResolvedRegex] = Map()
    partition_epochs: Map[Uuid, Map[int, int]] = Map()
    asked: Asked = Asked()
    has_topics_record: bool = False

    @property
    def state(self) -> ConsumerGroupState:
        """Give the state. Walks over the members when the target is computed."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Give the member that stands for the instance."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """Give the epoch at which somebody has the partition, FREE when nobody does."""
        partitions = self.partition_epochs.get(topic_id)
        return FREE if partitions is None else partitions.get(partition, FREE)

    # subscriptions

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return topic in self.asked.names or any(topic in one.topics for one in self.resolved.values())

    def subscribed_topics(self) -> set[str]:
        """Give the topics that members read, by name or by pattern."""
        return set(self.asked.names).union(*(one.topics for one in self.resolved.values()))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Give what the member reads; a pattern that was not resolved yet matches nothing."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        return member.names if resolved is None else member.names | resolved.topics

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same."""
        count = len(self.members)
        if not self.asked.regexes:
            return all(asking == count for asking in self.asked.names.values())
        return not self.asked.names and list(self.asked.regexes.values()) == [count]

    def preferred_assignor(self, default: str) -> str:
        """Give the assignor that most members ask for; of several the first by name."""
        asked = self.asked.assignors
        return min(asked.items(), key=lambda one: (-one[1], one[0]))[0] if asked else default

    # members of the classic protocol

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether one who can do these of the classic protocol can be a member beside those who speak it."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        return any(self.asked.classic_protocols.get(name, 0) == self.asked.classic_members for name in names)

    def must_rejoin(self, member: ConsumerMember) -> bool:
        """Whether a classic member has to send JoinGroup: for a new target, to give up, or to take what is free now."""
        if member.epoch < self.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        return member.state is MemberState.UNRELEASED_PARTITIONS and not self._waits_for_others(member)

    def _waits_for_others(self, member: ConsumerMember) -> bool:
        return any(
            self.partition_epoch(topic, partition) != FREE
            for topic, wanted in self.target.get(member.member_id, {}).items()
            for partition in wanted - member.assigned.get(topic, {}).keys()
        )

    # replay

    def with_member(self, member: ConsumerMember) -> ConsumerGroup:
        """Give the group with the member as it now is."""
        static = self.static_members
        if member.instance_id is not None:
            static = static.set(member.instance_id, member.member_id)
        return self._changing(self.members.get(member.member_id), member, static)

    def without_member(self, member_id: str) -> ConsumerGroup:
        """Give the group without the member."""
        old = self.members.get(member_id)
        if old is None:
            return self
        static = self.static_members
        if old.instance_id is not None and static.get(old.instance_id) == member_id:
            static = static.delete(old.instance_id)
        return self._changing(old, None, static)

    def without_assignment(self, member_id: str) -> ConsumerGroup:
        """Give the group in which the member has nothing any more; its description goes in the next record."""
        old = self.members.get(member_id)
        if old is None:
            return self
        gone = old._replace(epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, pending_revocation={})
        return self.with_member(gone)

    def _changing(
        self, old: ConsumerMember | None, new: ConsumerMember | None, static_members: Map[str, str]
    ) -> ConsumerGroup:
        epochs, members = self.partition_epochs, self.members
        if old is not None:
            epochs = _released(epochs, old.assigned, old.epoch)
            epochs = _released(epochs, old.pending_revocation, old.epoch)
        if new is not None:
            epochs = _taken(epochs, new.assigned, new.epoch)
            epochs = _taken(epochs, new.pending_revocation, new.epoch)
            members = members.set(new.member_id, new)
        elif old is not None:
            members = members.delete(old.member_id)
        return self._replace(
            members=members,
            static_members=static_members,
            partition_epochs=epochs,
            asked=self.asked.after(old, new),
        )


def _released(epochs: Map[Uuid, Map[int, int]], owned: Owned, epoch: int) -> Map[Uuid, Map[int, int]]:
    """Free what the member had, but for what somebody took over at another epoch since."""
    for topic_id, mine in owned.items():
        partitions = epochs.get(topic_id, _NO_EPOCHS)
        with partitions.mutate() as changed:
            for partition in mine:
                if changed.get(partition) == epoch:
                    del changed[partition]
            partitions = changed.finish()
        if partitions:
            epochs = epochs.set(topic_id, partitions)
        elif topic_id in epochs:
            epochs = epochs.delete(topic_id)
    return epochs


def _taken(epochs: Map[Uuid, Map[int, int]], owned: Owned, epoch: int) -> Map[Uuid, Map[int, int]]:
    for topic_id, mine in owned.items():
        partitions = epochs.get(topic_id, _NO_EPOCHS)
        if mine:
            epochs = epochs.set(topic_id, partitions.update(dict.fromkeys(mine, epoch)))
    return epochs


_NO_EPOCHS: Map[int, int] = Map()
