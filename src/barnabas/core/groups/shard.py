"""One partition of `__consumer_offsets` as a machine: requests, deadlines and log records in, `Step`s out.

Hard state is the image and changes by replay alone, but for one case that is Kafka's own: a group comes into
the image when its first member does, and its first record follows in the same step. If that step's records
do not get into the log, the shell puts the earlier image back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Now, Producer, Step, Turn
from barnabas.core.groups import image as images
from barnabas.core.groups import offset_requests
from barnabas.core.groups.actions import Action, CleanUp, ExpireClassic, ExpireConsumer, ExpireRevocation
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer.world import NO_WORLD, World
from barnabas.core.groups.image import REPLAYS, ShardImage
from barnabas.core.groups.joining import Joining
from barnabas.core.groups.membership import Membership
from barnabas.core.groups.rebalance import refused_join
from barnabas.core.groups.retention import Retention
from barnabas.core.groups.tally import Tally
from barnabas.model.ports import NewUuid
from barnabas.model.uuid import Uuid
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.delete_groups import DeletableGroupResult
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


def _nobody_says() -> World:
    return NO_WORLD


class GroupShard:
    """The groups of one partition. next_deadline_ms is on the monotonic clock."""

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: NewUuid,
        tally: Tally | None = None,
        topics: Callable[[], World] = _nobody_says,
    ) -> None:
        """tally: where to count, the shard's own unless it is shared.

        topics: gives the topics as they are now, for members of the classic protocol in consumer groups. Without it
        the shard goes by what the last ConsumerGroupHeartbeat told, and until there is one they have to wait.
        """
        self.config = config
        self.tally = tally or Tally()
        self.image = ShardImage()
        self._deadlines: Deadlines[Action] = Deadlines()
        self._members = Membership(self, config, self._deadlines, new_uuid, self.tally, topics)
        self._retention = Retention(config, self._deadlines, self.tally)

    # the log

    def replay(self, record: CoordinatorRecord, at: At) -> bool:
        """Take one record in; False for kinds of groups that this release does not serve: they stay in the log."""
        if type(record.key) not in REPLAYS:
            return False
        self.image = REPLAYS.replay(self.image, record.key, record.value, at)
        return True

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Take a transaction's marker in."""
        self.image = images.end_transaction(self.image, producer_id, commit=commit)

    def loaded(self, now: Now) -> Step[None]:
        """Begin to serve: expect the members that the log names, and plan the first clean-up."""
        turn = Turn(now)
        self._members.loaded(turn)
        self._retention.begin(now)
        return turn.step()

    def unload(self, now: Now) -> Step[None]:
        """Stop serving: everybody who waits is sent away."""
        turn = Turn(now)
        self._members.unload(turn)
        self._deadlines.clear()
        self.image = ShardImage()
        return turn.step()

    # time

    def held(self) -> int:
        """Give how many groups there are."""
        return len(self.image.groups) + len(self.image.consumers)

    def next_deadline_ms(self) -> int | None:
        """Give when, on the monotonic clock, `tick` has something to do next."""
        return self._deadlines.next_ms()

    def tick(self, now: Now) -> Step[None] | None:
        """Do the one most overdue thing, or give None when nothing is due. Call until None."""
        action = self._deadlines.pop_due(now.monotonic_ms)
        if action is None:
            return None
        if isinstance(action, CleanUp):
            return self._clean_up(now)
        if isinstance(action, ExpireConsumer | ExpireRevocation | ExpireClassic):
            return self._members.expire(action, now)
        return self._members.act(action, now)

    def _clean_up(self, now: Now) -> Step[None]:
        made, gone = self._retention.clean_up(self.image, now)
        for group_id in gone:
            self._members.forget(group_id)
        return Step(tuple(made), atomic=False)

    # members of the consumer protocol

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str,
        client_host: str,
        now: Now,
        world: World,
    ) -> Step[ConsumerGroupHeartbeatResponse]:
        """Answer a ConsumerGroupHeartbeat (KIP-848); raises what is wrong with the request or its member.

        client_host: as Kafka shows it, a slash and the address. world: the topics, and the patterns of the principal.
        """
        return self._members.consumer_heartbeat(request, version, (client_id, client_host), now, world)

    # members of the classic protocol

    def join(self, asked: Joining, now: Now) -> Step[None]:
        """Answer or park a JoinGroup. The group comes to be with its first member."""
        request = asked.request
        if not request.group_id:
            return self._refuse_join(asked, ErrorCode.INVALID_GROUP_ID, now)
        config = self.config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return self._refuse_join(asked, ErrorCode.INVALID_SESSION_TIMEOUT, now)
        return self._members.join(asked, now)

    def _refuse_join(self, asked: Joining, error: ErrorCode, now: Now) -> Step[None]:
        turn = Turn(now)
        turn.reply(asked.waiter, refused_join(asked.request.member_id, error))
        return turn.step()

    def sync(self, request: SyncGroupRequest, waiter: object, now: Now) -> Step[None]:
        """Answer or park a SyncGroup."""
        if request.group_id:
            return self._members.sync(request, waiter, now)
        turn = Turn(now)
        turn.reply(waiter, SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return turn.step()

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> Step[HeartbeatResponse]:
        """Answer a Heartbeat; raises what is wrong with the member."""
        _require_id(request.group_id)
        return self._members.heartbeat(request, now)

    def leave(self, request: LeaveGroupRequest, now: Now) -> Step[LeaveGroupResponse]:
        """Let members go; old versions' single member stands in `members` as well."""
        _require_id(request.group_id)
        return self._members.leave(request, now)

    # offsets

    def commit_offsets(self, request: OffsetCommitRequest, version: int, now: Now) -> Step[OffsetCommitResponse]:
        """Commit offsets; raises what keeps this member from it. Without a generation, no group is needed."""
        self._members.check_commit(request, version, now)
        made, response = offset_requests.commit(self.config, request, now.wall_ms)
        self.tally.offsets_committed += len(made)
        return Step(tuple(made), response)

    def commit_in_transaction(self, request: TxnOffsetCommitRequest, now: Now) -> Step[TxnOffsetCommitResponse]:
        """Commit offsets that count once the producer's transaction does; raises what keeps this member from it."""
        self._members.check_transactional_commit(request)
        made, response = offset_requests.commit_in_transaction(self.config, request, now.wall_ms)
        self.tally.offsets_committed += len(made)
        return Step(tuple(made), response, producer=Producer(request.producer_id, request.producer_epoch))

    def fetch_stable_offsets(self, request: OffsetFetchRequestGroup) -> Step[OffsetFetchResponseGroup]:
        """Give the newest offsets; those that an open transaction may still change say so."""
        return Step(response=offset_requests.fetch(self.image, request, require_stable=True))

    def delete_offsets(self, request: OffsetDeleteRequest) -> Step[OffsetDeleteResponse]:
        """Delete offsets of topics that the group does not read."""
        _require_id(request.group_id)
        made, response = offset_requests.delete(self.image, request)
        self.tally.offsets_deleted += len(made)
        return Step(tuple(made), response)

    def delete_groups(self, group_ids: Iterable[str]) -> Step[Sequence[DeletableGroupResult]]:
        """Delete groups that have no members, and their offsets."""
        made: list[CoordinatorRecord] = []
        results = []
        for group_id in group_ids:
            error = ErrorCode.NONE
            try:
                made += offset_requests.delete_group(self.image, group_id)
            except ApiError as e:
                error = e.code
            else:
                self._members.forget(group_id)
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return Step(tuple(made), results)

    def topics_deleted(self, deleted: Iterable[tuple[str, Uuid]]) -> Step[None]:
        """Forget the offsets of topics that are gone: (name, id)."""
        return Step(tuple(offset_requests.of_deleted_topics(self.image, deleted)), atomic=False)


def _require_id(group_id: str) -> None:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
