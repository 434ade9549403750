"""A live group changes its protocol: the same members, with the same partitions, in another kind of group (KIP-848).

A classic group of consumers becomes a consumer group when a member of the consumer protocol joins it, and becomes a
classic one again when only members of the classic protocol are left. In both directions the generation and the group
epoch are one count, and the members have to join again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from barnabas.core.groups import embedded
from barnabas.core.groups import records as classic_records
from barnabas.core.groups.classic import CONSUMER_PROTOCOL_TYPE, STABLE, ClassicGroup, Member
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import records, subscribing
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ClassicProtocols, ConsumerMember, Target
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.world import World
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError

# upgrading


def check_upgrade(config: GroupConfig, group: ClassicGroup) -> None:
    """Raise GROUP_ID_NOT_FOUND with what keeps a classic group with members from becoming a consumer group."""
    if not config.consumer.migration_policy.upgrades:
        raise _stays(group, "group.consumer.migration.policy does not allow it")
    if not group.uses_consumer_protocol:
        raise _stays(group, "its members are no consumers")
    if len(group.members) > config.consumer.max_size:
        raise _stays(group, "it has more members than group.consumer.max.size allows")


def upgraded(group: ClassicGroup, world: World) -> Draft:
    """Give the consumer group with the members of a classic one, and the records that put it in its place.

    Each member has, and shall have, what the last leader assigned to it. GROUP_ID_NOT_FOUND when what the members say
    cannot be read, or when an assignor of their own keeps something in the assignments.
    """
    group_id, generation = group.group_id, group.generation
    try:
        members = [_consumer(group, one, world) for one in group.members.values()]
    except ProtocolError as e:
        raise _stays(group, f"what its members say as consumers cannot be read: {e}") from e
    owners = Counter((topic, p) for one in members for topic, mine in one.assigned.items() for p in mine)
    if owners and max(owners.values()) > 1:
        message = f"Group {group_id} cannot become a consumer group: its leader assigned a partition to two members."
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    draft = Draft(ConsumerGroup(group_id))
    draft.records.append(classic_records.group_tombstone(group_id))
    draft.write(*(records.member_metadata(group_id, one) for one in members))
    # What the leader left out, or had not dealt out yet, is assigned once the group finds that its topics are others.
    # With Kafka nobody has it when a static member upgrades the group, for that changes no subscription.
    all_dealt = owners.keys() >= _partitions(draft.group, world)
    metadata_hash = subscribing.hash_of(draft.group, world) if all_dealt else 0
    draft.write(records.group_epoch(group_id, generation, metadata_hash))
    draft.write(*(records.target(group_id, one.member_id, _target(one)) for one in members))
    draft.write(records.target_epoch(group_id, generation, 0))
    draft.write(*(records.current(group_id, one) for one in members))
    return draft


def _stays(group: ClassicGroup, why: str) -> ApiError:
    message = f"Group {group.group_id} is a classic group and cannot become a consumer group: {why}."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _consumer(group: ClassicGroup, member: Member, world: World) -> ConsumerMember:
    # A group in its first join phase has not chosen a protocol yet. What it would choose now is as good.
    subscription = embedded.read_subscription(member.metadata(group.protocol or group.select_protocol()))
    assignment = embedded.read_assignment(member.assignment)
    if assignment.user_data:
        raise _stays(group, "an assignor that is not Kafka's own keeps user data in the assignments")
    return ConsumerMember(
        member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        names=subscription.topics,
        assigned={
            world.by_name[name].topic_id: dict.fromkeys(partitions, group.generation)
            for name, partitions in assignment.partitions.items()
            if name in world.by_name
        },
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
    )


def _partitions(group: ConsumerGroup, world: World) -> set[tuple[Uuid, int]]:
    """Give all that the group's members read."""
    return {(topic, p) for topic in world.ids_of(group.asked.names) for p in range(world.partition_count(topic))}


def _target(member: ConsumerMember) -> Target:
    return {topic: frozenset(mine) for topic, mine in member.assigned.items()}


# downgrading


def may_downgrade(config: GroupConfig, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
    """Whether the group becomes a classic one when these members leave."""
    left = len(group.members) - len(leaving)
    classic = group.asked.classic_members - sum(one.uses_classic for one in leaving)
    return 0 < left == classic and left <= config.max_size and config.consumer.migration_policy.downgrades


def may_downgrade_replacing(config: GroupConfig, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Whether the group becomes a classic one when a static member comes back that speaks the classic protocol now."""
    count = len(group.members)
    is_last = not replaced.uses_classic and group.asked.classic_members == count - 1
    return is_last and count <= config.max_size and config.consumer.migration_policy.downgrades


def downgraded(
    group: ConsumerGroup, leaving: Collection[str], generation: int, world: World, now_ms: int, *, rebalances: bool
) -> ClassicGroup:
    """Give the classic group with the members of a consumer group but for those that leave; nothing of them waits yet.

    leaving: member ids; all others speak the classic protocol. Each of them is assigned its target; but when the group
    rebalances, what it has: it may hold that still should the group be upgraded again before it is told to join. (With
    Kafka it is the target always, and what the member holds is then given to another.)
    """
    classic = ClassicGroup(group.group_id, now_ms, STABLE, generation=generation)
    for member_id, member in sorted(group.members.items()):
        if member_id not in leaving:
            classic.add(_classic(member))
    classic.protocol = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    for one in classic.members.values():
        try:
            version = embedded.read_subscription(one.metadata(classic.protocol)).version
        except ProtocolError as e:
            message = f"Group {group.group_id} cannot become a classic group: {e}"
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message) from e
        has = owned(group.members[one.member_id]) if rebalances else group.target.get(one.member_id, {})
        one.assignment = embedded.write_assignment(named(has, world), version)
    return classic


def owned(member: ConsumerMember) -> Target:
    """Give what a member has, with what it has yet to give up."""
    both = (member.assigned, member.pending_revocation)
    topics = {topic for one in both for topic in one}
    return {topic: frozenset(p for one in both for p in one.get(topic, ())) for topic in topics}


def _classic(member: ConsumerMember) -> Member:
    assert member.classic is not None, "whoever stays speaks the classic protocol"
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        CONSUMER_PROTOCOL_TYPE,
        member.classic.protocols,
    )


def named(partitions: Mapping[Uuid, Collection[int]], world: World) -> dict[str, frozenset[int]]:
    """Give partitions by the names of their topics, without those of topics that are gone."""
    return {
        world.by_id[topic_id].name: frozenset(mine) for topic_id, mine in partitions.items() if topic_id in world.by_id
    }
