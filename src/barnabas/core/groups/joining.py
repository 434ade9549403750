"""JoinGroup of the classic protocol: who may come in, under which id, and what that sets off.

KIP-345 (static members), KIP-394 (an id must be known before a place is taken), KIP-814 (a static leader
that returns may skip the assignment).
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.coordinators.step import Now, Step, Turn
from barnabas.core.groups import records
from barnabas.core.groups.actions import ExpireMember, member_key
from barnabas.core.groups.classic import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    Member,
    Protocols,
)
from barnabas.core.groups.rebalance import (
    NO_MEMBER_ID,
    Rebalance,
    joined,
    refused_join,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse

FIRST_VERSION_WITH_KNOWN_ID = 4
FIRST_VERSION_SKIPPING_ASSIGNMENT = 9


@dataclass(frozen=True, slots=True)
class Joining:
    """A JoinGroup as it came: the request, from whom, and where its response goes.

    client_host: as Kafka shows it, a slash and the address. version: of the request.
    """

    request: JoinGroupRequest
    client_id: str
    client_host: str
    version: int
    waiter: object

    @property
    def protocols(self) -> Protocols:
        """What the member can speak, best liked first."""
        return tuple((p.name, bytes(p.metadata)) for p in self.request.protocols)


def join(r: Rebalance, turn: Turn, group: ClassicGroup, asked: Joining) -> None:
    """Answer a JoinGroup, or park it until the join phase ends."""
    request = asked.request
    member_id = request.member_id
    if not _has_room(r, group, member_id):
        group.remove(member_id)
        _refuse(turn, asked, NO_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif group.state is DEAD:
        _refuse(turn, asked, member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not group.supports(request.protocol_type, (p.name for p in request.protocols)):
        _refuse(turn, asked, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif member_id == NO_MEMBER_ID:
        _join_without_id(r, turn, group, asked)
    elif member_id in group.pending_join:
        if request.group_instance_id is not None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "a static member never has a pending id")
        _add(r, turn, group, asked, member_id)
    else:
        _rejoin(r, turn, group, asked)


def _has_room(r: Rebalance, group: ClassicGroup, member_id: str) -> bool:
    """Whether the member still fits under group.max.size.

    During the join phase those who already wait are counted, not the members: the limit may have been
    lowered, and then the last to rejoin are the ones who go.
    """
    if group.state in (EMPTY, DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is PREPARING:
        waits = member is not None and member.awaiting_join is not None
        return waits or group.awaiting_join_count < r.config.max_size
    return member is not None or len(group.members) < r.config.max_size


def _refuse(turn: Turn, asked: Joining, member_id: str, error: ErrorCode) -> None:
    turn.reply(asked.waiter, refused_join(member_id, error))


# members without an id


def _join_without_id(r: Rebalance, turn: Turn, group: ClassicGroup, asked: Joining) -> None:
    instance_id = asked.request.group_instance_id
    new_id = r.new_member_id(asked.client_id if instance_id is None else instance_id)
    if instance_id is not None:
        existing = group.static_members.get(instance_id)
        if existing is None:
            _add(r, turn, group, asked, new_id)
        else:
            _replace_static(r, turn, group, asked, existing, new_id)
    elif asked.version >= FIRST_VERSION_WITH_KNOWN_ID:
        group.pending_join[new_id] = None
        r.deadlines.schedule(
            member_key(group.group_id, new_id),
            turn.now.monotonic_ms + asked.request.session_timeout_ms,
            ExpireMember(group.group_id, new_id),
        )
        _refuse(turn, asked, new_id, ErrorCode.MEMBER_ID_REQUIRED)
    else:
        _add(r, turn, group, asked, new_id)


def _add(r: Rebalance, turn: Turn, group: ClassicGroup, asked: Joining, member_id: str) -> None:
    request = asked.request
    member = Member(
        member_id,
        request.group_instance_id,
        asked.client_id,
        asked.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        asked.protocols,
        awaiting_join=asked.waiter,
        is_new=True,
    )
    if group.state is PREPARING and group.previous_state is EMPTY:
        group.new_member_added = True
    group.add(member)
    # A new member cannot heartbeat before it is answered; a limit of its own keeps those whose clients
    # gave up meanwhile from piling up in a long join phase.
    r.heard_of(turn, group, member, r.config.new_member_join_timeout_ms)
    r.rebalance_or_complete_join(turn, group)


# members that come again


def _rejoin(r: Rebalance, turn: Turn, group: ClassicGroup, asked: Joining) -> None:
    request = asked.request
    member_id = request.member_id
    try:
        group.validate_member(member_id, request.group_instance_id)
    except ApiError as e:
        refusal = refused_join(member_id, e.code)
        refusal.protocol_name = None
        turn.reply(asked.waiter, refusal)
        return
    member = group.members[member_id]
    same = member.protocols == asked.protocols
    is_leader = group.leader == member_id
    if group.state is EMPTY:
        _refuse(turn, asked, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    elif same and group.state is COMPLETING:
        # It may have missed our response: the same again.
        turn.reply(asked.waiter, joined(group, member_id, with_members=is_leader))
    elif same and group.state is STABLE and not is_leader:
        turn.reply(asked.waiter, joined(group, member_id, with_members=False))
    else:
        # Also a leader that changed nothing: it asks for a new assignment, say after new partitions.
        _update(turn, group, member, asked)
        r.rebalance_or_complete_join(turn, group)


def _update(turn: Turn, group: ClassicGroup, member: Member, asked: Joining) -> None:
    request = asked.request
    abandoned = group.take_join(member)
    if abandoned is not None:
        # The client gave that one up and asks again. Kafka never answers it; we free it.
        turn.reply(abandoned, refused_join(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
    group.update(member, asked.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, asked.waiter)


# static members that come back


def _replace_static(r: Rebalance, turn: Turn, group: ClassicGroup, asked: Joining, old_id: str, new_id: str) -> None:
    """Give the instance its new id and send whoever still waits under the old one away.

    In a stable group nothing else has to change: the record with the new id is stored and the member is
    answered with the current generation.
    """
    leader_before = group.leader
    old = group.members[old_id]
    before = (old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
    member = _rename(r, turn, group, old, new_id)
    _update(turn, group, member, asked)
    if group.state is STABLE:
        if group.protocol != group.select_protocol():
            r.rebalance_or_complete_join(turn, group)
            return

        def stored(error: ErrorCode, now: Now) -> Step[None]:
            then = Turn(now)
            if error is ErrorCode.NONE:
                waiter = group.take_join(member)
                if waiter is not None:
                    then.reply(waiter, _returned(group, asked, new_id, leader_before))
            elif new_id in group.members:
                group.update(member, *before, None)
                _rename(r, then, group, member, old_id)
                then.reply(asked.waiter, _not_returned(group, leader_before, error))
            return then.step()

        assignments = {m.member_id: m.assignment for m in group.members.values()}
        turn.store(records.group_metadata(group, assignments), stored)
    elif group.state is COMPLETING:
        # The leader may be computing an assignment for the old id.
        r.prepare(turn, group)
    else:
        r.complete_join_if_ready(turn, group)


def _rename(r: Rebalance, turn: Turn, group: ClassicGroup, old: Member, new_id: str) -> Member:
    join_waiter, sync_waiter = group.take_join(old), group.take_sync(old)
    if join_waiter is not None:
        fenced = refused_join(old.member_id, ErrorCode.FENCED_INSTANCE_ID)
        fenced.protocol_name = None
        turn.reply(join_waiter, fenced)
    if sync_waiter is not None:
        turn.reply(sync_waiter, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    member = group.rename_static(old.group_instance_id or "", old.member_id, new_id)
    r.heard_of(turn, group, member)
    return member


def _returned(group: ClassicGroup, asked: Joining, member_id: str, leader_before: str | None) -> JoinGroupResponse:
    """Answer a static member that came back to a stable group.

    A leader that does not know skip_assignment is told its old id as the leader's, so that it does not assign.
    """
    if asked.version >= FIRST_VERSION_SKIPPING_ASSIGNMENT:
        is_leader = group.leader == member_id
        response = joined(group, member_id, with_members=is_leader)
        response.skip_assignment = is_leader
    else:
        response = joined(group, member_id, with_members=False)
        response.leader = leader_before or ""
    return response


def _not_returned(group: ClassicGroup, leader_before: str | None, error: ErrorCode) -> JoinGroupResponse:
    response = joined(group, NO_MEMBER_ID, with_members=False)
    response.leader = leader_before or ""
    response.error_code = error
    return response
