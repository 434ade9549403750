"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup and Heartbeat (KIP-848).

The coordinator is their leader: JoinGroup is a heartbeat that lets them take a step, and is answered at once with the
member's epoch as the generation; SyncGroup fetches what they have then; Heartbeat says when to join again.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.coordinators.step import Now, Step
from barnabas.core.groups import embedded, migrating
from barnabas.core.groups.config import MigrationPolicy
from barnabas.core.groups.consumer.checking import known_member, known_static_member
from barnabas.core.groups.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.core.groups.consumer.member import ClassicProtocols, ConsumerMember, MemberState
from barnabas.core.groups.consumer.progress import Progress, replaced
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.world import NO_WORLD
from barnabas.core.groups.joining import FIRST_VERSION_WITH_KNOWN_ID, Joining
from barnabas.core.groups.rebalance import NO_MEMBER_ID
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.messages.consumer_group_heartbeat import TopicPartitions
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(frozen=True, slots=True)
class Joined:
    """What a JoinGroup comes to. downgrades: whether only classic members are left, so that the group becomes theirs.

    stale: whether its target is that of an earlier epoch, so that the classic group has to rebalance.
    """

    draft: Draft
    member: ConsumerMember
    downgrades: bool
    stale: bool

    @property
    def response(self) -> JoinGroupResponse:
        """Give the answer, for when the records are committed."""
        return JoinGroupResponse(
            generation_id=self.member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_protocols(self.member).protocols[0][0],
            member_id=self.member.member_id,
        )


def join(p: Progress, group: ConsumerGroup, asked: Joining, now: Now) -> Joined | str:
    """Let a classic member join or come again; a fresh member id is the answer to one that has to come back with it.

    Raises what is wrong with it. INCONSISTENT_GROUP_PROTOCOL too when group.consumer.migration.policy is disabled.
    """
    request = asked.request
    if p.config.consumer.migration_policy is MigrationPolicy.DISABLED:
        message = f"Group {group.group_id} is a consumer group, and group.consumer.migration.policy is disabled."
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    is_new = request.member_id == NO_MEMBER_ID
    member_id = str(p.new_uuid()) if is_new else request.member_id
    p.check_room(group, member_id)
    if not group.supports_classic(request.protocol_type, (one.name for one in request.protocols)):
        message = f"No protocol of member {member_id} is one that all classic members of the group support."
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    if is_new and request.group_instance_id is None and asked.version >= FIRST_VERSION_WITH_KNOWN_ID:
        return member_id
    draft, world = Draft(group), p.known_world()
    standing = group.static_member(request.group_instance_id)
    found = _member(draft, standing, asked, member_id, is_new=is_new)
    downgrades = standing is not None and migrating.may_downgrade_replacing(p.config, group, standing)
    subscription = _subscription(asked)
    said = found._replace(
        instance_id=found.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=found.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        names=subscription.topics,
        regex="",
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=ClassicProtocols(request.session_timeout_ms, asked.protocols),
    )
    resubscribed = p.subscribe(draft, found, said, world, now, refresh=False)
    stale = draft.group.assignment_epoch < draft.group.epoch
    if not downgrades:
        p.aim(draft, world, now)
    elif stale:
        return Joined(draft, said, downgrades, stale)
    held = [
        TopicPartitions(topic_id=world.by_name[name].topic_id, partitions=sorted(mine))
        for name, mine in subscription.owned.items()
        if name in world.by_name
    ]
    reached = p.walk(draft, said, world, now, resubscribed=resubscribed, held=held)
    return Joined(draft, reached, downgrades, stale)


def _member(
    draft: Draft, standing: ConsumerMember | None, asked: Joining, member_id: str, *, is_new: bool
) -> ConsumerMember:
    """Give the member that asks; standing: who stands for its instance."""
    group, instance_id = draft.group, asked.request.group_instance_id
    if instance_id is not None and not is_new:
        return known_static_member(group, member_id, instance_id)
    if standing is not None:
        return replaced(draft, standing, member_id)
    return group.members.get(member_id) or ConsumerMember(member_id)


def _subscription(asked: Joining) -> embedded.Subscription:
    """Give what the member reads; all its protocols say the same of that, so the first one will do."""
    try:
        return embedded.read_subscription(asked.protocols[0][1])
    except ProtocolError as e:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The subscription in JoinGroup cannot be read: {e}") from e


def sync(p: Progress, group: ConsumerGroup, request: SyncGroupRequest, now: Now) -> SyncGroupResponse:
    """Give what the member has, for when all before is committed; raises what is wrong with it."""
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    protocol, metadata = _protocols(member).protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # One that has been told to give partitions up will join again anyway, when it has.
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        p.expect_join(group.group_id, member, now)
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    try:
        version = embedded.read_subscription(metadata).version
    except ProtocolError as e:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The subscription of the member cannot be read: {e}") from e
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=embedded.write_assignment(migrating.named(member.assigned, p.known_world()), version),
    )


def heartbeat(p: Progress, group: ConsumerGroup, request: HeartbeatRequest, now: Now) -> Step[HeartbeatResponse]:
    """Note that a member lives, and tell it when to join again; raises what is wrong with it."""
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    p.heard_of(group.group_id, member, now)
    draft = Draft(group)
    if group.asked.classic_members == len(group.members):
        _tend(p, draft, now)
    if not draft.group.must_rejoin(member):
        return Step(tuple(draft.records), HeartbeatResponse())
    p.expect_join(group.group_id, member, now)
    return Step(tuple(draft.records), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _tend(p: Progress, draft: Draft, now: Now) -> None:
    """Do what heartbeats of the consumer protocol do for a group, as none come; with Kafka it waits for a JoinGroup."""
    world = p.world()
    if world is NO_WORLD:
        return
    p.look_at_topics(draft, world, changed=False)
    p.aim(draft, world, now)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """Give the member; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, or ILLEGAL_GENERATION when it is in another epoch."""
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    if not member.uses_classic:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not speak the classic protocol.")
    if generation != member.epoch:
        message = f"Generation {generation} is not that of member {member_id}, which is {member.epoch}."
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, message)
    return member


def _protocols(member: ConsumerMember) -> ClassicProtocols:
    assert member.classic is not None, "the member speaks the classic protocol"
    return member.classic
