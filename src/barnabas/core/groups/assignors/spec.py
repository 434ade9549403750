"""What an assignor of a group is given and gives: members, topics, who shall have which partition (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from barnabas.model.uuid import Uuid

Assignment = Mapping[str, Mapping[Uuid, frozenset[int]]]
"""The partitions of each member, by member id and topic id. Every member is there; no set in it is empty."""


class MemberSpec(NamedTuple):
    """A member as an assignor sees it: the topics that it wants, and its target assignment so far.

    The assignors of Kafka 4.3 take no notice of racks; the rack is there for those that will.
    """

    rack_id: str | None
    instance_id: str | None
    subscribed: frozenset[Uuid]
    assigned: Mapping[Uuid, frozenset[int]]


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The members by id; homogeneous: all of them want the same topics."""

    members: Mapping[str, MemberSpec]
    homogeneous: bool


class Topics(Protocol):
    """What an assignor may ask about the topics of the cluster."""

    def partition_count(self, topic_id: Uuid) -> int:
        """Give how many partitions the topic has, -1 when there is no such topic."""

    def racks_of(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        """Give the racks that have a replica of the partition."""


class PartitionAssignorError(Exception):
    """No assignment can be made: a member is subscribed to a topic that is not there."""


def existing_count(topics: Topics, topic_id: Uuid) -> int:
    """Give how many partitions the topic has; PartitionAssignorError when there is no such topic."""
    count = topics.partition_count(topic_id)
    if count < 0:
        raise PartitionAssignorError(f"members are subscribed to topic {topic_id}, which does not exist")
    return count


def kept(spec: GroupSpec, counts: Mapping[Uuid, int]) -> tuple[Assignment, Mapping[Uuid, set[int]]]:
    """Give what each member has and still wants, the members sorted, and by topic what nobody has then.

    Partitions that the topic does not have are left out, and whatever an earlier member has already.
    """
    free = {topic_id: set(range(count)) for topic_id, count in counts.items()}
    keeping: dict[str, dict[Uuid, frozenset[int]]] = {}
    for member_id in sorted(spec.members):
        member = spec.members[member_id]
        mine = keeping[member_id] = {}
        for topic_id, numbers in member.assigned.items():
            if topic_id not in member.subscribed:
                continue
            left = free[topic_id]
            stays = numbers if numbers <= left else numbers & left
            if stays:
                left -= stays
                mine[topic_id] = stays
    return keeping, free


def frozen(partitions: Mapping[str, Mapping[Uuid, set[int]]]) -> Assignment:
    """Give the assignment that these sets, some of them perhaps empty, amount to."""
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in by_topic.items() if numbers}
        for member_id, by_topic in partitions.items()
    }
