"""Requests of members, and what time does to them: which of the two protocols' machines has them, and moves between.

A classic group is live and changes at once; a consumer group changes when records are replayed. A group changes its
protocol when nobody is left in it, and, as `migrating.py` says, when somebody is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.coordinators.step import Now, Step, Turn
from barnabas.core.groups import joining, migrating, offset_requests, records, syncing
from barnabas.core.groups.actions import (
    Action,
    CompleteJoin,
    ExpireMember,
    ExpireSync,
    ExtendInitialJoin,
    OfClassic,
    OfConsumers,
)
from barnabas.core.groups.classic import EMPTY, PREPARING, ClassicGroup
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import classic_members, commits, heartbeats
from barnabas.core.groups.consumer.checking import check_request
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.progress import Progress
from barnabas.core.groups.consumer.serving import ConsumerMembers, HasImage
from barnabas.core.groups.consumer.world import World
from barnabas.core.groups.joining import Joining
from barnabas.core.groups.rebalance import NO_MEMBER_ID, Rebalance, refused_join
from barnabas.core.groups.tally import Tally
from barnabas.model.ports import NewUuid
from barnabas.model.uuid import ZERO_UUID
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


class Membership:
    """The members of a shard's groups. The image is the holder's."""

    def __init__(
        self,
        holder: HasImage,
        config: GroupConfig,
        deadlines: Deadlines[Action],
        new_uuid: NewUuid,
        tally: Tally,
        topics: Callable[[], World],
    ) -> None:
        """topics: gives the topics as they are now, NO_WORLD when it does not know."""
        self._holder = holder
        self._config = config
        self._rebalance = Rebalance(config, deadlines, new_uuid, tally)
        self._progress = Progress(config, deadlines, new_uuid, tally, topics)
        self._consumers = ConsumerMembers(holder, config, self._progress, self._rebalance)

    def _groups(self, group_id: str) -> tuple[ClassicGroup | None, ConsumerGroup | None]:
        image = self._holder.image
        return image.groups.get(group_id), image.consumers.get(group_id)

    # the shard comes and goes

    def loaded(self, turn: Turn) -> None:
        """Expect the members that the log names."""
        for _, group in sorted(self._holder.image.groups.items()):
            self._rebalance.loaded(turn, group)
        for _, consumers in sorted(self._holder.image.consumers.items()):
            self._progress.loaded(consumers, turn.now)

    def unload(self, turn: Turn) -> None:
        """Send everybody away who waits."""
        for _, group in sorted(self._holder.image.groups.items()):
            self._rebalance.unload(turn, group)
        self._progress.clear()

    def forget(self, group_id: str) -> None:
        """End what waits for a group that goes."""
        group, consumers = self._groups(group_id)
        if group is not None:
            self._rebalance.forget_group(group)
        if consumers is not None:
            self._progress.forget_group(consumers)

    # time

    def act(self, action: OfClassic, now: Now) -> Step[None]:
        """Do to a classic group what is due."""
        turn = Turn(now)
        group, _ = self._groups(action.group_id)
        if group is not None:
            self._act(turn, group, action)
        return turn.step()

    def _act(self, turn: Turn, group: ClassicGroup, action: OfClassic) -> None:
        match action:
            case ExpireMember(member_id=member_id):
                self._rebalance.expire_member(turn, group, member_id)
            # The join phase may have been that of a group of the same name whose first record was refused.
            case CompleteJoin() if group.state is PREPARING:
                self._rebalance.complete_join(turn, group)
            case ExtendInitialJoin() if group.state is PREPARING:
                self._rebalance.extend_initial_join(turn, group, action)
            case ExpireSync():
                self._rebalance.expire_sync(turn, group, action)

    def expire(self, action: OfConsumers, now: Now) -> Step[None]:
        """Do to a consumer group what is due."""
        _, group = self._groups(action.group_id)
        return Step() if group is None else self._consumers.expire(group, action, now)

    # members of the consumer protocol

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, who: tuple[str, str], now: Now, world: World
    ) -> Step[ConsumerGroupHeartbeatResponse]:
        """Answer a ConsumerGroupHeartbeat. who: the client's id and host; world: what its principal sees."""
        check_request(request, version, self._config.consumer.assignors)
        self._progress.heard = world
        classic, group = self._groups(request.group_id)
        if group is None and request.member_epoch != 0:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        before: Sequence[CoordinatorRecord] = ()
        if group is None:
            group = ConsumerGroup(request.group_id)
            if classic is not None and classic.state is not EMPTY:
                return self._upgrade(classic, request, who, now, world)
            if classic is not None:
                before = offset_requests.tombstones(classic)
        elif request.member_epoch in heartbeats.LEAVING:
            return self._consumers.leave(group, request, now)
        step = heartbeats.heartbeat(self._progress, group, before, request, who, world, now)
        if classic is not None:
            self._rebalance.forget_group(classic)
        return step

    def _upgrade(
        self,
        classic: ClassicGroup,
        request: ConsumerGroupHeartbeatRequest,
        who: tuple[str, str],
        now: Now,
        world: World,
    ) -> Step[ConsumerGroupHeartbeatResponse]:
        """Let a member of the consumer protocol into a classic group. Whoever waits in that is told to join again.

        No deadline of the classic group is taken back: should the records not get into the log, it lives on.
        """
        migrating.check_upgrade(self._config, classic)
        upgraded = migrating.upgraded(classic, world)
        self._progress.forget_group(upgraded.group)
        step = heartbeats.heartbeat(self._progress, upgraded.group, upgraded.records, request, who, world, now)
        turn = Turn(now)
        self._rebalance.send_away(turn, classic, ErrorCode.REBALANCE_IN_PROGRESS)
        self._progress.loaded(upgraded.group, now)
        return step._replace(replies=tuple(turn.replies))

    # members of the classic protocol

    def join(self, asked: Joining, now: Now) -> Step[None]:
        """Answer or park a JoinGroup. The group comes to be with its first member."""
        request = asked.request
        group, consumers = self._groups(request.group_id)
        if consumers is not None and not consumers.is_empty:
            return self._consumers.join(consumers, asked, now)
        turn = Turn(now)
        if group is not None:
            joining.join(self._rebalance, turn, group, asked)
        elif request.member_id != NO_MEMBER_ID:
            turn.reply(asked.waiter, refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            if consumers is not None:
                self.forget(request.group_id)
                turn.records += offset_requests.tombstones(consumers)
            self._join_first(turn, asked)
        return turn.step()

    def _join_first(self, turn: Turn, asked: Joining) -> None:
        """Found the group. It has a record also when its first member has yet to come back with its id."""
        group = ClassicGroup(asked.request.group_id, turn.now.wall_ms)
        self._holder.image = self._holder.image.with_group(group)
        ended = len(turn.records)
        joining.join(self._rebalance, turn, group, asked)
        if len(turn.records) > ended:
            return

        def stored(error: ErrorCode, at: Now) -> Step[None]:
            then = Turn(at)
            if error is not ErrorCode.NONE:
                then.reply(asked.waiter, refused_join(NO_MEMBER_ID, error))
            return then.step()

        turn.store(records.new_group(group), stored)

    def sync(self, request: SyncGroupRequest, waiter: object, now: Now) -> Step[None]:
        """Answer or park a SyncGroup."""
        turn = Turn(now)
        group, consumers = self._groups(request.group_id)
        if consumers is not None:
            return self._consumers.sync(consumers, request, waiter, now)
        if group is None:
            turn.reply(waiter, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            syncing.sync(self._rebalance, turn, group, request, waiter)
        return turn.step()

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> Step[HeartbeatResponse]:
        """Answer a Heartbeat; raises what is wrong with the member."""
        group, consumers = self._groups(request.group_id)
        if consumers is not None:
            return classic_members.heartbeat(self._progress, consumers, request, now)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        turn = Turn(now)
        return turn.step(syncing.heartbeat(self._rebalance, turn, group, request))

    def leave(self, request: LeaveGroupRequest, now: Now) -> Step[LeaveGroupResponse]:
        """Let members go; old versions' single member stands in `members` as well."""
        group, consumers = self._groups(request.group_id)
        if consumers is not None:
            return self._consumers.remove(consumers, request, now)
        if group is None:
            unknown = [
                MemberResponse(
                    member_id=who.member_id,
                    group_instance_id=who.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for who in request.members
            ]
            return Step(response=LeaveGroupResponse(members=unknown))
        turn = Turn(now)
        return turn.step(syncing.leave(self._rebalance, turn, group, request))

    # who may commit offsets

    def check_commit(self, request: OffsetCommitRequest, version: int, now: Now) -> None:
        """Raise what keeps this member from committing offsets; one of a classic group lives, then."""
        group, consumers = self._groups(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is not None:
            syncing.check_commit(group, request.member_id, request.group_instance_id, generation)
            member = group.members.get(request.member_id)
            if member is not None and offset_requests.extends_session(group):
                self._rebalance.heard_of(Turn(now), group, member)
        elif consumers is not None:
            places = ((t.topic_id, p.partition_index) for t in request.topics for p in t.partitions)
            commits.check_commit(consumers, request.member_id, generation, version, places)
        elif generation >= 0:
            # Only since v9 do clients know what GROUP_ID_NOT_FOUND means here.
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Raise what keeps this member from committing offsets in a transaction."""
        group, consumers = self._groups(request.group_id)
        who, instance_id, generation = request.member_id, request.group_instance_id, request.generation_id
        if group is not None:
            syncing.check_commit(group, who, instance_id, generation, in_transaction=True)
        elif consumers is not None:
            ids = self._progress.world().by_name
            places = (
                (ids[t.name].topic_id if t.name in ids else ZERO_UUID, p.partition_index)
                for t in request.topics
                for p in t.partitions
            )
            commits.check_transactional_commit(consumers, who, instance_id, generation, places)
        elif generation >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
