"""The groups of the consumer protocol of one shard: who joins, stays, leaves and is given up (KIP-848).

Each turn takes a group as it is in the image and gives records; the group changes when they are replayed. What is
kept here besides is soft: deadlines, and which topics a group has seen. A deadline is never taken back because a
member goes: it finds nothing to do. So records that do not get into the log cost nobody its deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.coordinators.step import Now, Step
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import records, subscribing, targets
from barnabas.core.groups.consumer.checking import (
    check_epoch,
    check_request,
    identified_member,
    known_member,
    known_static_member,
)
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember, MemberState, Owned
from barnabas.core.groups.consumer.reconciling import Reconciliation
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.subscribing import Seen
from barnabas.core.groups.consumer.world import NO_WORLD, World
from barnabas.core.groups.rebalance import Action, ExpireConsumer, ExpireRevocation
from barnabas.core.groups.tally import Tally
from barnabas.model.ports import NewUuid
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


def session_key(group_id: str, member_id: str) -> tuple[str, ...]:
    """Name the deadline of a member's session."""
    return ("session", group_id, member_id)


def revocation_key(group_id: str, member_id: str) -> tuple[str, ...]:
    """Name the deadline by which a member must have given up what was taken from it."""
    return ("revocation", group_id, member_id)


@dataclass(slots=True)
class ConsumerGroups:
    """What the consumer groups of a shard share: limits, deadlines, fresh ids, the topics last seen."""

    config: GroupConfig
    deadlines: Deadlines[Action]
    new_uuid: NewUuid
    tally: Tally
    seen: Seen = field(default_factory=Seen)
    world: World = NO_WORLD

    def heartbeat(
        self,
        group: ConsumerGroup,
        before: tuple[CoordinatorRecord, ...],
        request: ConsumerGroupHeartbeatRequest,
        who: tuple[str, str],
        now: Now,
    ) -> Step[Response]:
        """Let a member join or go on. before: what has to be written first; who: client id and host.

        The request was checked, and self.world is what its principal sees.
        """
        config, world = self.config.consumer, self.world
        member_id = request.member_id
        if len(group.members) >= config.max_size and member_id not in group.members:
            message = f"The consumer group has reached its maximum capacity of {config.max_size} members."
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        draft = Draft(group)
        draft.records.extend(before)
        found = self._member(draft, request, member_id or str(self.new_uuid()))
        said = _updated(found, request, *who)
        if said != found:
            draft.write(records.member_metadata(group.group_id, said))
        renamed = said.names != found.names
        resubscribed = subscribing.change_regex(draft, found, said, world)
        rematched = subscribing.refresh_regexes(draft, world, config.regex_refresh_interval_ms, now.wall_ms)
        changed = renamed or resubscribed or rematched
        if changed or self.seen.is_stale(group, world):
            subscribing.begin_epoch(draft, world, changed=changed, seen=self.seen)
            self.tally.consumer_rebalances += draft.group.epoch - group.epoch
        if draft.group.assignment_epoch < draft.group.epoch and targets.is_due(
            draft.group.assignment_ms, config.assignment_of(group.group_id), now.wall_ms
        ):
            targets.compute(draft, world, config.assignors[0], now.wall_ms)
        reached = self._reconciled(draft, found, said, request)
        if reached != said:
            draft.write(records.current(group.group_id, reached))
            self._watch_revocation(group.group_id, reached, now)
        self.heard_of(group.group_id, reached, now)
        return Step(tuple(draft.records), self._answer(group.group_id, request, found, reached))

    def _member(self, draft: Draft, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
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
        return _replaced(draft, existing, member_id)

    def _reconciled(
        self,
        draft: Draft,
        found: ConsumerMember,
        said: ConsumerMember,
        request: ConsumerGroupHeartbeatRequest,
    ) -> ConsumerMember:
        group = draft.group
        changed = said.names != found.names or (said.regex or "") != (found.regex or "")
        if not changed and said.is_reconciled_to(group.assignment_epoch):
            return said
        return Reconciliation(
            target_epoch=group.assignment_epoch,
            target=group.target.get(said.member_id, targets.NO_TARGET),
            partition_epoch=group.partition_epoch,
            subscribed=self.world.ids_of(group.topics_of(said)),
            subscription_changed=changed,
            held=request.topic_partitions,
        ).step(said)

    def _answer(
        self,
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
            heartbeat_interval_ms=self.config.consumer.heartbeat_of(group_id),
            assignment=_assignment(reached.assigned) if with_assignment else None,
        )

    # leaving

    def leave(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Step[Response]:
        """Let a member go: for good (-1), or until its instance comes back (-2)."""
        instance_id, member_id = request.instance_id, request.member_id
        response = Response(member_id=member_id, member_epoch=request.member_epoch)
        if instance_id is None:
            return Step(self.fence(group, [known_member(group, member_id)]), response)
        member = known_static_member(group, member_id, instance_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            return Step((records.current(group.group_id, member.left_for_a_while()),), response)
        return Step(self.fence(group, [member]), response)

    def remove(self, group: ConsumerGroup, request: LeaveGroupRequest) -> Step[LeaveGroupResponse]:
        """Let go whom a LeaveGroup names: an administrator asks by member or by instance (KIP-345)."""
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
        made = self.fence(group, list(leaving.values())) if leaving else ()
        return Step(made, LeaveGroupResponse(members=answers))

    def fence(self, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> tuple[CoordinatorRecord, ...]:
        """Give the records by which the group goes on without these members."""
        draft = Draft(group)
        for member in members:
            draft.write(*records.member_tombstones(group.group_id, member.member_id))
        for regex in sorted(group.resolved):
            if regex not in draft.group.regexes:
                draft.write(records.resolved_tombstone(group.group_id, regex))
        if self.world is NO_WORLD:
            # Nobody has told us of topics since we took over. The next heartbeat does, and then we look again.
            metadata_hash = group.metadata_hash
            self.seen.forget(group.group_id)
        else:
            metadata_hash = subscribing.hash_of(draft.group, self.world)
        draft.write(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        return tuple(draft.records)

    # time

    def heard_of(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """Start the member's session anew."""
        self.deadlines.schedule(
            session_key(group_id, member.member_id),
            now.monotonic_ms + self.config.consumer.session_of(group_id),
            ExpireConsumer(group_id, member.member_id),
        )

    def _watch_revocation(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.deadlines.schedule(
                revocation_key(group_id, member.member_id),
                now.monotonic_ms + member.rebalance_timeout_ms,
                ExpireRevocation(group_id, member.member_id, member.epoch),
            )

    def expire(self, group: ConsumerGroup, action: ExpireConsumer | ExpireRevocation, now: Now) -> Step[None]:
        """Give a member up that was not heard of, or did not give up in time what was taken from it."""
        member = group.members.get(action.member_id)
        if member is None:
            return Step()
        if isinstance(action, ExpireRevocation):
            if member.epoch != action.epoch or member.state is not MemberState.UNREVOKED_PARTITIONS:
                return Step()
            self._watch_revocation(group.group_id, member, now)
        else:
            self.heard_of(group.group_id, member, now)  # should the records not get into the log: try again
        return Step(self.fence(group, [member]))

    def loaded(self, group: ConsumerGroup, now: Now) -> None:
        """Expect the members of a group that was read from the log."""
        for member in group.members.values():
            self.heard_of(group.group_id, member, now)
            self._watch_revocation(group.group_id, member, now)

    def forget_group(self, group: ConsumerGroup) -> None:
        """End what is kept of a group that goes."""
        self.seen.forget(group.group_id)

    def clear(self) -> None:
        """Forget all that is soft."""
        self.seen.clear()
        self.world = NO_WORLD


def checked(config: GroupConfig, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raise what is wrong with the request itself."""
    check_request(request, version, config.consumer.assignors)


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerMember:
    """Give the member with what it says now; what it leaves out has not changed."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return replace(
        member,
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


def _replaced(draft: Draft, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Put a static member that comes back in the place of the one that left: the same target, the same partitions."""
    group_id = draft.group.group_id
    target = draft.group.target.get(old.member_id, targets.NO_TARGET)
    member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    draft.write(
        *records.member_tombstones(group_id, old.member_id),
        records.member_metadata(group_id, member),
        records.target(group_id, member_id, target),
        records.current(group_id, member),
    )
    return member


def _assignment(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(mine)) for topic, mine in sorted(assigned.items())
        ]
    )
