"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol, and who may commit offsets when."""

from __future__ import annotations

from barnabas.core.coordinators.step import Turn
from barnabas.core.groups.classic import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, ClassicGroup
from barnabas.core.groups.rebalance import NO_MEMBER_ID, Rebalance
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(r: Rebalance, turn: Turn, group: ClassicGroup, request: SyncGroupRequest, waiter: object) -> None:
    """Answer a SyncGroup, or park it until the leader's assignment is stored."""
    error = _sync_error(group, request)
    if error is not ErrorCode.NONE:
        turn.reply(waiter, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    r.sync_received(group, member.member_id)
    if group.state is STABLE:
        turn.reply(waiter, r.assigned(group, member))
        return
    abandoned = group.take_sync(member)
    if abandoned is not None:
        # The client gave that one up and asks again. Kafka never answers it; we free it.
        turn.reply(abandoned, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = waiter
    if group.leader == member.member_id:
        r.store_assignment(turn, group, {a.member_id: bytes(a.assignment) for a in request.assignments})


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    try:
        group.validate_member(request.member_id, request.group_instance_id)
    except ApiError as e:
        return e.code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING else ErrorCode.NONE


def _differ(said: str | None, ours: str | None) -> bool:
    return said is not None and ours is not None and said != ours


def heartbeat(r: Rebalance, turn: Turn, group: ClassicGroup, request: HeartbeatRequest) -> HeartbeatResponse:
    """Note that a member lives, and tell it of a rebalance; raises what is wrong with it."""
    if group.state is DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    r.heard_of(turn, group, group.members[request.member_id])
    if group.state is PREPARING:
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse()


def leave(r: Rebalance, turn: Turn, group: ClassicGroup, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Let members go: by id, or by instance when an administrator asks (KIP-345)."""
    if group.state is DEAD:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    responses = [
        MemberResponse(
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
            error_code=_leave_one(r, turn, group, who),
        )
        for who in request.members
    ]
    if any(response.error_code == ErrorCode.NONE for response in responses):
        if group.state in (STABLE, COMPLETING):
            r.rebalance_or_complete_join(turn, group)
        elif group.state is PREPARING:
            r.complete_join_if_ready(turn, group)
    return LeaveGroupResponse(members=responses)


def _leave_one(r: Rebalance, turn: Turn, group: ClassicGroup, who: MemberIdentity) -> ErrorCode:
    member_id = who.member_id
    if member_id == NO_MEMBER_ID:
        by_instance = group.static_members.get(who.group_instance_id or "")
        if by_instance is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = by_instance
    elif member_id in group.pending_join:
        group.remove(member_id)
        r.forget(group, member_id)
        return ErrorCode.NONE
    else:
        try:
            group.validate_member(member_id, who.group_instance_id)
        except ApiError as e:
            return e.code
    r.remove(turn, group, group.members[member_id])
    return ErrorCode.NONE


def check_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool = False
) -> None:
    """Raise what keeps this member from committing offsets; members of an empty group need no generation.

    in_transaction: producers fence each other by their epochs; old ones do not say for which member they commit, and
    it does not matter what the group is doing (KIP-447).
    """
    if group.state is DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation < 0 and group.state is EMPTY:
        return
    if generation >= 0 or member_id or instance_id is not None:
        group.validate_member(member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    elif group.state is not EMPTY and not in_transaction:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state is COMPLETING and not in_transaction:
        # The member has the new generation but not its partitions yet.
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
