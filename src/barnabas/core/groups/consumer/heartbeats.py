"""ConsumerGroupHeartbeat: members of the consumer protocol join, stay and leave (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.core.coordinators.step import Now, Step
from barnabas.core.groups.consumer import records
from barnabas.core.groups.consumer.checking import (
    check_epoch,
    identified_member,
    known_member,
    known_static_member,
)
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember, Owned
from barnabas.core.groups.consumer.progress import Progress, replaced
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.world import World
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

LEAVING: Final = (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
Response = ConsumerGroupHeartbeatResponse


def heartbeat(
    p: Progress,
    group: ConsumerGroup,
    before: Sequence[CoordinatorRecord],
    request: ConsumerGroupHeartbeatRequest,
    who: tuple[str, str],
    world: World,
    now: Now,
) -> Step[Response]:
    """Let a member join or go on. before: what has to be written first; who: client id and host.

    The request was checked; world is what its principal sees.
    """
    p.check_room(group, request.member_id)
    draft = Draft(group)
    draft.records.extend(before)
    found = _member(draft, request, request.member_id or str(p.new_uuid()))
    said = _updated(found, request, *who)
    resubscribed = p.subscribe(draft, found, said, world, now, refresh=True)
    p.aim(draft, world, now)
    reached = p.walk(draft, said, world, now, resubscribed=resubscribed, held=request.topic_partitions)
    p.heard_of(group.group_id, reached, now)
    return Step(tuple(draft.records), _answer(p, group.group_id, request, found, reached))


def _member(draft: Draft, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    """Give the member that asks, a new one when it joins."""
    group, epoch, instance_id = draft.group, request.member_epoch, request.instance_id
    if epoch != 0:
        if instance_id is None:
            member = known_member(group, member_id)
        else:
            member = known_static_member(group, member_id, instance_id)
        check_epoch(member, epoch, request.topic_partitions)
        return member
    existing = group.static_member(instance_id)
    if existing is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not existing.uses_classic and existing.epoch != STATIC_LEAVE_EPOCH:
        message = f"Instance id {instance_id} is owned by member {existing.member_id}, which has not left."
        raise ApiError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    return replaced(draft, existing, member_id)


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerMember:
    """Give the member with what it says now; what it leaves out has not changed."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return member._replace(
        instance_id=_said(request.instance_id, member.instance_id),
        rack_id=_said(request.rack_id, member.rack_id),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_said(request.server_assignor, member.server_assignor),
        names=member.names if names is None else frozenset(names),
        regex=_said(request.subscribed_topic_regex, member.regex),
        client_id=client_id,
        client_host=client_host,
        classic=None,
    )


def _said(new: str | None, old: str | None) -> str | None:
    return old if new is None else new


def _answer(
    p: Progress,
    group_id: str,
    request: ConsumerGroupHeartbeatRequest,
    found: ConsumerMember,
    reached: ConsumerMember,
) -> Response:
    """Give the answer; the assignment only when it is news, or when the member told all of itself."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    tells_all = request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
    with_assignment = request.member_epoch == 0 or tells_all or reached.assigned != found.assigned
    return Response(
        member_id=reached.member_id,
        member_epoch=reached.epoch,
        heartbeat_interval_ms=p.config.consumer.heartbeat_of(group_id),
        assignment=_assignment(reached.assigned) if with_assignment else None,
    )


def _assignment(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(mine)) for topic, mine in sorted(assigned.items())
        ]
    )


# leaving


def leaver(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """Give the member that says that it leaves; raises when the group does not know it so."""
    if request.instance_id is None:
        return known_member(group, request.member_id)
    return known_static_member(group, request.member_id, request.instance_id)


def pause(group: ConsumerGroup, member: ConsumerMember) -> CoordinatorRecord:
    """Give the record by which a static member is away until its instance comes back."""
    return records.current(group.group_id, member.left_for_a_while())


def leavers(group: ConsumerGroup, request: LeaveGroupRequest) -> tuple[list[ConsumerMember], LeaveGroupResponse]:
    """Give whom a LeaveGroup names, by member or by instance (KIP-345), and what it is answered."""
    leaving: dict[str, ConsumerMember] = {}
    answers = []
    for who in request.members:
        error = ErrorCode.NONE
        try:
            member = identified_member(group, who.member_id, who.group_instance_id)
        except ApiError as e:
            error = e.code
        else:
            leaving[member.member_id] = member
        answers.append(
            MemberResponse(member_id=who.member_id, group_instance_id=who.group_instance_id, error_code=error)
        )
    return list(leaving.values()), LeaveGroupResponse(members=answers)
