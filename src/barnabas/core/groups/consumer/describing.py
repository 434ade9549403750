"""ConsumerGroupDescribe: what an administrator sees of consumer groups (KIP-848, KIP-1099)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.core.groups.consumer.world import World
from barnabas.core.groups.image import ShardImage
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from barnabas.wire.messages.consumer_group_describe import Member as DescribedMember

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(image: ShardImage, group_ids: Iterable[str], world: World, default_assignor: str) -> list[DescribedGroup]:
    """Describe groups by id; GROUP_ID_NOT_FOUND for one that is not there, or is of the classic protocol."""
    return [_described(image, group_id, world, default_assignor) for group_id in group_ids]


def _described(image: ShardImage, group_id: str, world: World, default_assignor: str) -> DescribedGroup:
    group = image.consumers.get(group_id)
    if group is None:
        why = "is not a consumer group" if group_id in image.groups else "not found"
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {why}.",
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
        members=[_member(group, member, world) for _, member in sorted(group.members.items())],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, world: World) -> DescribedMember:
    """Describe a member; it has what it has yet to give up, too."""
    has: dict[Uuid, list[int]] = {}
    for owned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in owned.items():
            has.setdefault(topic_id, []).extend(partitions)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.names),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(has, world),
        target_assignment=_assignment(group.target.get(member.member_id, {}), world),
        member_type=CLASSIC_MEMBER if member.uses_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[Any]], world: World) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(mine))
            for topic_id, mine in sorted(partitions.items())
            if (topic := world.by_id.get(topic_id)) is not None
        ]
    )
