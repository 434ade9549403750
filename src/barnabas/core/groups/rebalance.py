"""How a group of the classic protocol moves from one generation to the next, and what time does to it.

Requests come in through `joining.py` and `syncing.py`; this is what they share with the deadlines. Kafka's
words: the join phase ends when all members have a parked JoinGroup (or when time is up), the sync phase when
the leader's assignment is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.coordinators.step import Now, Step, Turn
from barnabas.core.groups import records
from barnabas.core.groups.actions import (
    Action,
    CompleteJoin,
    ExpireMember,
    ExpireSync,
    ExtendInitialJoin,
    join_key,
    member_key,
    sync_key,
)
from barnabas.core.groups.classic import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, ClassicGroup, Member
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.tally import Tally
from barnabas.model.ports import NewUuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.sync_group import SyncGroupResponse

NO_MEMBER_ID: Final = ""
"""What a member says that has no id yet."""


def refused_join(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    """Give the JoinGroup response that says no."""
    return JoinGroupResponse(member_id=member_id, error_code=error)


def joined(group: ClassicGroup, member_id: str, *, with_members: bool) -> JoinGroupResponse:
    """Give the JoinGroup response of the current generation; with_members: for the leader."""
    members = []
    if with_members:
        members = [
            JoinGroupResponseMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                metadata=m.metadata(group.protocol or ""),
            )
            for m in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member_id,
        members=members,
    )


@dataclass(slots=True)
class Rebalance:
    """The machinery of all groups of a shard: their limits, their deadlines, fresh member ids."""

    config: GroupConfig
    deadlines: Deadlines[Action]
    new_uuid: NewUuid
    tally: Tally

    def new_member_id(self, prefix: str) -> str:
        """Give a fresh member id as Kafka makes them: the instance's or the client's name and a UUID."""
        h = self.new_uuid().hex()
        return f"{prefix}-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"

    def heard_of(self, turn: Turn, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """Start the member's session anew, or wait for it as long as timeout_ms."""
        after = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.deadlines.schedule(
            member_key(group.group_id, member.member_id),
            turn.now.monotonic_ms + after,
            ExpireMember(group.group_id, member.member_id),
        )

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        """End the wait for a member."""
        self.deadlines.cancel(member_key(group.group_id, member_id))

    def forget_group(self, group: ClassicGroup) -> None:
        """End all waits for a group that goes."""
        for member_id in (*group.members, *group.pending_join):
            self.forget(group, member_id)
        self.deadlines.cancel(join_key(group.group_id))
        self.deadlines.cancel(sync_key(group.group_id))

    # the join phase

    def rebalance_or_complete_join(self, turn: Turn, group: ClassicGroup) -> None:
        """A member came, went or changed: begin a rebalance, or see whether the one under way is complete."""
        if group.can_rebalance:
            self.prepare(turn, group)
        else:
            self.complete_join_if_ready(turn, group)

    def prepare(self, turn: Turn, group: ClassicGroup) -> None:
        """Begin the join phase. The first one of a group lasts a while, so that more members can come."""
        if group.state is COMPLETING:
            self.propagate_error(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.deadlines.cancel(sync_key(group.group_id))
        initial = group.state is EMPTY
        group.transition_to(PREPARING, turn.now.wall_ms)
        if initial:
            delay = self.config.initial_rebalance_delay_ms
            remaining = max(group.rebalance_timeout_ms - delay, 0)
            self._wait_initially(turn, group, delay, remaining)
        elif group.has_all_members_joined:
            self.complete_join(turn, group)
        else:
            self._wait_for_join(turn, group)

    def complete_join_if_ready(self, turn: Turn, group: ClassicGroup) -> None:
        """End the join phase when everybody is there; the first one of a group always lasts its time."""
        if group.state is PREPARING and group.previous_state is not EMPTY and group.has_all_members_joined:
            self.complete_join(turn, group)

    def complete_join(self, turn: Turn, group: ClassicGroup) -> None:
        """End the join phase with those who joined: answer them all, and wait for their SyncGroup."""
        self.deadlines.cancel(join_key(group.group_id))
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.group_instance_id is None:
                group.remove(member.member_id)
                self.forget(group, member.member_id)
        if group.state is DEAD:
            return
        if not group.elect_joined_leader() and group.members:
            # Only silent static members are left: their sessions decide, so wait once more.
            self._wait_for_join(turn, group)
            return
        group.init_next_generation(turn.now.wall_ms)
        if group.state is EMPTY:
            turn.records.append(records.group_metadata(group, {}))
            return
        for member in group.members.values():
            waiter = group.take_join(member)
            if waiter is not None:
                is_leader = member.member_id == group.leader
                turn.reply(waiter, joined(group, member.member_id, with_members=is_leader))
            self.heard_of(turn, group, member)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        self.deadlines.schedule(
            sync_key(group.group_id),
            turn.now.monotonic_ms + group.rebalance_timeout_ms,
            ExpireSync(group.group_id, group.generation),
        )

    def extend_initial_join(self, turn: Turn, group: ClassicGroup, action: ExtendInitialJoin) -> None:
        """Go on waiting when a member came in the meantime and time remains, else end the join phase."""
        if not group.new_member_added or action.remaining_ms == 0:
            self.complete_join(turn, group)
            return
        group.new_member_added = False
        delay = min(self.config.initial_rebalance_delay_ms, action.remaining_ms)
        self._wait_initially(turn, group, delay, max(action.remaining_ms - action.delay_ms, 0))

    def _wait_initially(self, turn: Turn, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self.deadlines.schedule(
            join_key(group.group_id),
            turn.now.monotonic_ms + delay_ms,
            ExtendInitialJoin(group.group_id, delay_ms, remaining_ms),
        )

    def _wait_for_join(self, turn: Turn, group: ClassicGroup) -> None:
        self.deadlines.schedule(
            join_key(group.group_id),
            turn.now.monotonic_ms + group.rebalance_timeout_ms,
            CompleteJoin(group.group_id),
        )

    # the sync phase

    def store_assignment(self, turn: Turn, group: ClassicGroup, assignment: Mapping[str, bytes]) -> None:
        """Append what the leader decided; the group is stable, and members are told, once it is committed."""
        generation = group.generation
        complete = {member_id: assignment.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode, now: Now) -> Step[None]:
            then = Turn(now)
            # Somebody may have joined or left while the record was on its way: then this assignment is void.
            if group.state is COMPLETING and group.generation == generation:
                if error is ErrorCode.NONE:
                    self._make_stable(then, group, complete)
                else:
                    self.propagate_error(then, group, error)
                    self.rebalance_or_complete_join(then, group)
            return then.step()

        turn.store(records.group_metadata(group, complete), stored)

    def _make_stable(self, turn: Turn, group: ClassicGroup, assignment: Mapping[str, bytes]) -> None:
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, b"")
            waiter = group.take_sync(member)
            if waiter is not None:
                turn.reply(waiter, self.assigned(group, member))
                self.heard_of(turn, group, member)
        group.transition_to(STABLE, turn.now.wall_ms)
        self.tally.rebalances_completed += 1

    def assigned(self, group: ClassicGroup, member: Member) -> SyncGroupResponse:
        """Give the SyncGroup response that carries the member's assignment."""
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )

    def propagate_error(self, turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
        """Void the assignment under way, and tell those who wait for it."""
        for member in group.members.values():
            member.assignment = b""
            waiter = group.take_sync(member)
            if waiter is not None:
                turn.reply(waiter, SyncGroupResponse(error_code=error))
                self.heard_of(turn, group, member)

    def sync_received(self, group: ClassicGroup, member_id: str) -> None:
        """Note a member's SyncGroup; the wait ends with the last one."""
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            self.deadlines.cancel(sync_key(group.group_id))

    def expire_sync(self, turn: Turn, group: ClassicGroup, action: ExpireSync) -> None:
        """Drop those who were answered but never sent SyncGroup, and rebalance without them."""
        current = group.generation == action.generation and group.state in (COMPLETING, STABLE)
        if not current or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            group.remove(member_id)
            self.forget(group, member_id)
        self.prepare(turn, group)

    # members that go

    def expire_member(self, turn: Turn, group: ClassicGroup, member_id: str) -> None:
        """Drop a member whose session ended, or an id that nobody came back with."""
        if group.state is DEAD:
            return
        if member_id in group.pending_join:
            group.remove(member_id)
            if group.state is PREPARING and group.has_all_members_joined:
                self.complete_join(turn, group)
            return
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return
        self.remove(turn, group, member)
        if group.state in (STABLE, COMPLETING):
            self.rebalance_or_complete_join(turn, group)
        elif group.state is PREPARING and group.has_all_members_joined:
            self.complete_join(turn, group)

    def remove(self, turn: Turn, group: ClassicGroup, member: Member) -> None:
        """Let a member go. A JoinGroup of it that is still parked is told to start again."""
        self.forget(group, member.member_id)
        waiter = group.take_join(member)
        if waiter is not None:
            turn.reply(waiter, refused_join(NO_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    # the shard comes and goes

    def loaded(self, turn: Turn, group: ClassicGroup) -> None:
        """Expect the members of a group that was read from the log; too many must rebalance."""
        for member in group.members.values():
            self.heard_of(turn, group, member)
        if len(group.members) > self.config.max_size:
            self.prepare(turn, group)

    def send_away(self, turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer everybody who waits that this is over."""
        for member in group.members.values():
            join, sync = group.take_join(member), group.take_sync(member)
            if join is not None:
                turn.reply(join, refused_join(member.member_id, error))
            if sync is not None:
                turn.reply(sync, SyncGroupResponse(error_code=error))

    def unload(self, turn: Turn, group: ClassicGroup) -> None:
        """Let go of a group that another coordinator has now."""
        self.send_away(turn, group, ErrorCode.NOT_COORDINATOR)
        group.transition_to(DEAD, turn.now.wall_ms)
