"""Members of consumer groups, whichever protocol they speak: what they ask, and what time does to them (KIP-848).

When the last member of the consumer protocol goes and only classic ones are left, the group goes on as a classic one,
which is live: it changes at once, and its records only describe it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from barnabas.core.coordinators.step import Now, Step, Turn
from barnabas.core.groups import migrating, records
from barnabas.core.groups.actions import OfConsumers
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import classic_members, heartbeats
from barnabas.core.groups.consumer import records as consumer_records
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from barnabas.core.groups.consumer.progress import Progress
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.world import NO_WORLD
from barnabas.core.groups.image import ShardImage
from barnabas.core.groups.joining import Joining
from barnabas.core.groups.rebalance import NO_MEMBER_ID, Rebalance, refused_join
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

R = TypeVar("R")


class HasImage(Protocol):
    """Holds the image of a shard."""

    image: ShardImage


class ConsumerMembers:
    """The members of a shard's consumer groups. The image is the holder's."""

    def __init__(self, holder: HasImage, config: GroupConfig, progress: Progress, rebalance: Rebalance) -> None:
        self._holder = holder
        self._config = config
        self._progress = progress
        self._rebalance = rebalance

    # those of the consumer protocol

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now: Now
    ) -> Step[ConsumerGroupHeartbeatResponse]:
        """Let a member go: for good (-1), or until its instance comes back (-2)."""
        member = heartbeats.leaver(group, request)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            return Step((heartbeats.pause(group, member),), response)
        return self._fence(group, [member], response, now)

    # all of them

    def expire(self, group: ConsumerGroup, action: OfConsumers, now: Now) -> Step[None]:
        """Give a member up that was not heard of, or did not do in time what it was told to."""
        member = self._progress.overdue(group, action, now)
        if member is None:
            return Step()
        step: Step[None] = self._fence(group, [member], None, now)
        settled = step.resume
        if settled is None:
            return step

        def without_downgrade(error: ErrorCode, at: Now) -> Step[None]:
            then, left = settled(error, at), self._holder.image.consumers.get(group.group_id)
            if error is not ErrorCode.UNKNOWN_SERVER_ERROR or left is None or member.member_id not in left.members:
                return then
            # So large a downgrade the log never takes. With Kafka the member then stays for ever.
            return Step(self._progress.fence(left, [member]), replies=then.replies)

        return step._replace(resume=without_downgrade)

    def remove(self, group: ConsumerGroup, request: LeaveGroupRequest, now: Now) -> Step[LeaveGroupResponse]:
        """Let those go whom a LeaveGroup names."""
        leaving, response = heartbeats.leavers(group, request)
        return self._fence(group, leaving, response, now) if leaving else Step(response=response)

    def _fence(self, group: ConsumerGroup, members: Sequence[ConsumerMember], response: R | None, now: Now) -> Step[R]:
        """Let members of a consumer group go. When only classic ones are left, it is a classic group from here on."""
        if self._progress.world() is not NO_WORLD and migrating.may_downgrade(self._config, group, members):
            leaving = {member.member_id for member in members}
            # A group whose members cannot be read as a classic group stays what it is.
            with suppress(ApiError):
                return self._downgrade(Draft(group), leaving, group.epoch, now, rebalance=True, response=response)
        return Step(self._progress.fence(group, members), response)

    def _downgrade(
        self,
        draft: Draft,
        leaving: Collection[str],
        generation: int,
        now: Now,
        *,
        rebalance: bool,
        response: R | None = None,
        then_do: Callable[[Turn, ErrorCode], None] = lambda turn, error: None,
    ) -> Step[R]:
        """Put a classic group in the place of the draft's. It lives from here on; its records only describe it.

        then_do: what else to do when the records are committed, or refused.
        """
        group = draft.group
        world = self._progress.world()
        classic = migrating.downgraded(group, leaving, generation, world, now.wall_ms, rebalances=rebalance)

        def stored(error: ErrorCode, at: Now) -> Step[None]:
            then = Turn(at)
            if error is ErrorCode.NONE:
                self._progress.forget_group(group)
            elif self._holder.image.groups.get(group.group_id) is not classic:
                self._rebalance.unload(then, classic)  # it has been undone, and with it who waits in it
            then_do(then, error)
            return then.step()

        turn = Turn(now)
        turn.records += [*draft.records, *consumer_records.group_tombstones(group)]
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        turn.store(records.group_metadata(classic, assignments), stored)
        self._holder.image = self._holder.image.with_group(classic)
        self._rebalance.loaded(turn, classic)
        if rebalance:
            self._rebalance.prepare(turn, classic)
        return turn.step(response)

    # those of the classic protocol

    def join(self, group: ConsumerGroup, asked: Joining, now: Now) -> Step[None]:
        """Answer a JoinGroup, once its records are committed."""
        turn, group_id, p = Turn(now), group.group_id, self._progress
        try:
            joined = classic_members.join(p, group, asked, now)
            if isinstance(joined, str):
                turn.reply(asked.waiter, refused_join(joined, ErrorCode.MEMBER_ID_REQUIRED))
                return turn.step()
            member, response, downgrades = joined.member, joined.response, joined.downgrades

            def then_do(then: Turn, error: ErrorCode) -> None:
                if error is not ErrorCode.NONE:
                    then.reply(asked.waiter, refused_join(NO_MEMBER_ID, error))
                    return
                p.has_joined(group_id, member.member_id)
                if not downgrades:
                    p.heard_of(group_id, member, then.now)
                    p.expect_sync(group_id, member, then.now)
                then.reply(asked.waiter, response)

            if downgrades:
                return self._downgrade(joined.draft, (), group.epoch, now, rebalance=joined.stale, then_do=then_do)
        except ApiError as e:
            turn.reply(asked.waiter, refused_join(NO_MEMBER_ID, e.code))
            return turn.step()

        def stored(error: ErrorCode, at: Now) -> Step[None]:
            then = Turn(at)
            then_do(then, error)
            return then.step()

        return Step(tuple(joined.draft.records), resume=stored)

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, waiter: object, now: Now) -> Step[None]:
        """Answer a SyncGroup, once what it tells of is committed."""
        group_id, p = group.group_id, self._progress
        try:
            response = classic_members.sync(p, group, request, now)
        except ApiError as e:
            turn = Turn(now)
            turn.reply(waiter, SyncGroupResponse(error_code=e.code))
            return turn.step()

        def stored(error: ErrorCode, at: Now) -> Step[None]:
            then = Turn(at)
            if error is ErrorCode.NONE:
                p.has_synced(group_id, request.member_id)
                p.heard_of(group_id, group.members[request.member_id], at)
                then.reply(waiter, response)
            else:
                then.reply(waiter, SyncGroupResponse(error_code=error))
            return then.step()

        return Step(resume=stored)
