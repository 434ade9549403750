"""How a consumer group goes on, whatever its members speak: what they set off, who goes, what time does (KIP-848).

Each turn takes a group as it is in the image and gives records; the group changes when they are replayed. What is
kept here besides is soft: deadlines, and which topics a group has seen. A deadline is never taken back because a
member goes: it finds nothing to do. So records that do not get into the log cost nobody its deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.coordinators.step import Now
from barnabas.core.groups.actions import (
    Action,
    ExpireClassic,
    ExpireConsumer,
    ExpireRevocation,
    OfConsumers,
    rejoin_key,
    resync_key,
    revocation_key,
    session_key,
)
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import records, subscribing, targets
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember, MemberState
from barnabas.core.groups.consumer.reconciling import Held, Reconciliation
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.subscribing import Seen
from barnabas.core.groups.consumer.world import NO_WORLD, World
from barnabas.core.groups.tally import Tally
from barnabas.model.ports import NewUuid
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ApiError, ErrorCode


def _nobody_says() -> World:
    return NO_WORLD


@dataclass(slots=True)
class Progress:
    """What the consumer groups of a shard share: limits, deadlines, fresh ids, the topics.

    topics: gives the topics as they are now, NO_WORLD when it does not know. heard: those of the last heartbeat.
    """

    config: GroupConfig
    deadlines: Deadlines[Action]
    new_uuid: NewUuid
    tally: Tally
    topics: Callable[[], World] = _nobody_says
    seen: Seen = field(default_factory=Seen)
    heard: World = NO_WORLD

    def world(self) -> World:
        """Give the topics for what no principal's heartbeat asks; NO_WORLD when nobody has told since we took over."""
        now = self.topics()
        return self.heard if now is NO_WORLD else now

    def known_world(self) -> World:
        """Give the same; COORDINATOR_LOAD_IN_PROGRESS when nobody has told yet."""
        world = self.world()
        if world is NO_WORLD:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return world

    # what a member sets off

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GROUP_MAX_SIZE_REACHED when the member would be one too many."""
        most = self.config.consumer.max_size
        if len(group.members) >= most and member_id not in group.members:
            message = f"The consumer group has reached its maximum capacity of {most} members."
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def subscribe(
        self, draft: Draft, found: ConsumerMember, said: ConsumerMember, world: World, now: Now, *, refresh: bool
    ) -> bool:
        """Take in what the member says now, and begin an epoch when that, or the topics, changed anything.

        refresh: whether to resolve regular expressions that are due. Gives whether the member's subscription changed.
        """
        if said != found:
            draft.write(records.member_metadata(draft.group.group_id, said))
        renamed = said.names != found.names
        changed = subscribing.change_regex(draft, found, said, world) or renamed
        if refresh:
            interval_ms = self.config.consumer.regex_refresh_interval_ms
            changed |= subscribing.refresh_regexes(draft, world, interval_ms, now.wall_ms)
        self.look_at_topics(draft, world, changed=changed)
        return renamed or (said.regex or "") != (found.regex or "")

    def look_at_topics(self, draft: Draft, world: World, *, changed: bool) -> None:
        """Begin an epoch when topics changed since the group last looked; in any case when subscriptions changed."""
        epoch = draft.group.epoch
        if changed or self.seen.is_stale(draft.group, world):
            subscribing.begin_epoch(draft, world, changed=changed, seen=self.seen)
            self.tally.consumer_rebalances += draft.group.epoch - epoch

    def aim(self, draft: Draft, world: World, now: Now) -> None:
        """Compute the target of the group's epoch, when there is none yet and it may be."""
        config, group = self.config.consumer, draft.group
        due = targets.is_due(group.assignment_ms, config.assignment_of(group.group_id), now.wall_ms)
        if group.assignment_epoch < group.epoch and due:
            targets.compute(draft, world, config.assignors[0], now.wall_ms)

    def walk(
        self,
        draft: Draft,
        member: ConsumerMember,
        world: World,
        now: Now,
        *,
        resubscribed: bool,
        held: Iterable[Held] | None,
    ) -> ConsumerMember:
        """Let the member take its next step to the target; gives it as it then is."""
        group = draft.group
        if not resubscribed and member.is_reconciled_to(group.assignment_epoch):
            return member
        reached = Reconciliation(
            target_epoch=group.assignment_epoch,
            target=group.target.get(member.member_id, targets.NO_TARGET),
            partition_epoch=group.partition_epoch,
            subscribed=world.ids_of(group.topics_of(member)),
            subscription_changed=resubscribed,
            held=held,
        ).step(member)
        if reached != member:
            draft.write(records.current(group.group_id, reached))
            self._watch_revocation(group.group_id, reached, now)
        return reached

    def fence(self, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> tuple[CoordinatorRecord, ...]:
        """Give the records by which the group goes on without these members."""
        draft = Draft(group)
        for member in members:
            draft.write(*records.member_tombstones(group.group_id, member.member_id))
        for regex in sorted(group.resolved):
            if regex not in draft.group.asked.regexes:
                draft.write(records.resolved_tombstone(group.group_id, regex))
        world = self.world()
        if world is NO_WORLD:
            # Nobody has told us of topics since we took over. The next heartbeat does, and then we look again.
            metadata_hash = group.metadata_hash
            self.seen.forget(group.group_id)
        else:
            metadata_hash = subscribing.hash_of(draft.group, world)
        draft.write(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        return tuple(draft.records)

    # time

    def heard_of(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """Start the member's session anew; one that speaks the classic protocol said itself how long it lasts."""
        classic = member.classic
        session_ms = self.config.consumer.session_of(group_id) if classic is None else classic.session_timeout_ms
        self.deadlines.schedule(
            session_key(group_id, member.member_id),
            now.monotonic_ms + session_ms,
            ExpireConsumer(group_id, member.member_id),
        )

    def expect_join(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """Wait for the JoinGroup of a classic member that was told to join again, from the first time that it was."""
        key = rejoin_key(group_id, member.member_id)
        if key not in self.deadlines:
            at_ms = now.monotonic_ms + member.rebalance_timeout_ms
            self.deadlines.schedule(key, at_ms, ExpireClassic(group_id, member.member_id))

    def expect_sync(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """Wait for the SyncGroup of a classic member that has joined."""
        at_ms = now.monotonic_ms + member.rebalance_timeout_ms
        key = resync_key(group_id, member.member_id)
        self.deadlines.schedule(key, at_ms, ExpireClassic(group_id, member.member_id))

    def has_joined(self, group_id: str, member_id: str) -> None:
        """End the wait for a classic member's JoinGroup."""
        self.deadlines.cancel(rejoin_key(group_id, member_id))

    def has_synced(self, group_id: str, member_id: str) -> None:
        """End the wait for a classic member's SyncGroup."""
        self.deadlines.cancel(resync_key(group_id, member_id))

    def _watch_revocation(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """See that the member gives up in time what is taken from it; a classic one is expected to join instead."""
        if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic:
            self.deadlines.schedule(
                revocation_key(group_id, member.member_id),
                now.monotonic_ms + member.rebalance_timeout_ms,
                ExpireRevocation(group_id, member.member_id, member.epoch),
            )

    def overdue(self, group: ConsumerGroup, action: OfConsumers, now: Now) -> ConsumerMember | None:
        """Give the member whose time is over, None when it is gone or did what it was expected to do."""
        member = group.members.get(action.member_id)
        if member is None:
            return None
        if isinstance(action, ExpireRevocation):
            if member.epoch != action.epoch or member.state is not MemberState.UNREVOKED_PARTITIONS:
                return None
            self._watch_revocation(group.group_id, member, now)
        elif isinstance(action, ExpireClassic) and not member.uses_classic:
            return None
        else:
            self.heard_of(group.group_id, member, now)  # should the records not get into the log: try again
        return member

    def loaded(self, group: ConsumerGroup, now: Now) -> None:
        """Expect the members of a group that was read from the log, or was a classic one until now."""
        for member in group.members.values():
            self.heard_of(group.group_id, member, now)
            self._watch_revocation(group.group_id, member, now)

    def forget_group(self, group: ConsumerGroup) -> None:
        """End what is kept of a group that goes."""
        self.seen.forget(group.group_id)
        for member_id in group.members:
            self.has_joined(group.group_id, member_id)
            self.has_synced(group.group_id, member_id)

    def clear(self) -> None:
        """Forget all that is soft."""
        self.seen.clear()
        self.heard = NO_WORLD


def replaced(draft: Draft, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Put a static member that comes back in the place of the one that left: the same target, the same partitions."""
    group_id = draft.group.group_id
    target = draft.group.target.get(old.member_id, targets.NO_TARGET)
    member = old._replace(member_id=member_id, epoch=0, previous_epoch=0)
    draft.write(
        *records.member_tombstones(group_id, old.member_id),
        records.member_metadata(group_id, member),
        records.target(group_id, member_id, target),
        records.current(group_id, member),
    )
    return member
