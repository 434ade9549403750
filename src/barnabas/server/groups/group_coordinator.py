"""The group coordinator of a node: the partitions of `__consumer_offsets` that it leads, and who asks for which."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from barnabas.core.coordinators.step import Now, Producer, Step
from barnabas.core.groups import describing, offset_requests
from barnabas.core.groups.classic import ClassicGroupState
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import describing as consumer_describing
from barnabas.core.groups.consumer.checking import check_request
from barnabas.core.groups.consumer.group import ConsumerGroupState
from barnabas.core.groups.consumer.world import World
from barnabas.core.groups.errors import response_error
from barnabas.core.groups.image import ShardImage
from barnabas.core.groups.joining import Joining
from barnabas.core.groups.partitioning import partition_for
from barnabas.core.groups.shard import GroupShard
from barnabas.core.groups.tally import Tally
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.ports import Clock, NewUuid
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.server.coordinators.coordinator_log import CoordinatorLog
from barnabas.server.coordinators.runtime import Ask, Kind, LogSettings, Marker, ShardRuntime
from barnabas.server.coordinators.shards import Shards
from barnabas.server.groups.topics import Allowed, GroupTopics, nobodys
from barnabas.storage.producer_verification import VerificationGuard
from barnabas.wire.coordinator_records import decode_group_record
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.delete_groups import DeletableGroupResult
from barnabas.wire.messages.describe_groups import DescribedGroup
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.wire.messages.list_groups import ListedGroup
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

OFFSETS_TOPIC: Final = "__consumer_offsets"
log = structlog.get_logger("kafka.coordinator.group")
R = TypeVar("R")
VerifyTransaction = Callable[[TopicPartition, str, Producer, int], Awaitable[VerificationGuard | None]]
"""Gives the guard of a producer's transaction in a partition: (partition, transactional id, producer, version of the
request); ApiError when the partition is not part of it."""


async def unverified(
    tp: TopicPartition, transactional_id: str, producer: Producer, version: int
) -> VerificationGuard | None:
    """Ask nobody."""
    return None


class GroupCoordinator:
    """All shards of this node. Requests for a group go to the shard of its partition.

    partition_count: how many partitions the offsets topic has, or will have. open_log: gives the log of a
    partition that this node has come to lead.
    """

    def __init__(
        self,
        config: GroupConfig,
        *,
        clock: Clock,
        new_uuid: NewUuid,
        partition_count: Callable[[], int],
        open_log: Callable[[TopicPartition], CoordinatorLog],
        settings: LogSettings | None = None,
        verify: VerifyTransaction = unverified,
        topics: GroupTopics | None = None,
    ) -> None:
        """verify: asks a transaction's coordinator before its offsets are written. topics: of the cluster, none when
        left out."""
        self.config = config
        self.topics = topics or GroupTopics(lambda: MetadataImage.EMPTY)
        self._verify = verify
        self._partition_count = partition_count
        self.tally = Tally()
        self.shards: Shards[GroupShard, ShardImage] = Shards(
            Kind("groups", "kafka.coordinator.group", decode_group_record, response_error),
            OFFSETS_TOPIC,
            lambda _: GroupShard(config, new_uuid, self.tally, self._world),
            clock=clock,
            open_log=open_log,
            settings=settings or LogSettings(),
        )

    def _world(self) -> World:
        return self.topics.world(nobodys)

    # leadership

    def elected(self, partition: int) -> asyncio.Task[None]:
        """Take a partition over, or again after its epoch changed; the task ends when its groups are loaded."""
        return self.shards.elected(partition)

    def resigned(self, partition: int) -> None:
        """Give a partition up: its groups are somebody else's now, or nobody's."""
        self.shards.resigned(partition)

    async def close(self) -> None:
        """Give all partitions up, and wait until nothing of them runs."""
        await self.shards.close()

    def topics_deleted(self, deleted: Sequence[tuple[str, Uuid]]) -> None:
        """Forget what groups committed for topics that are gone: (name, id)."""
        for partition, runtime in self.shards.active():
            future = runtime.submit(lambda shard, now: shard.topics_deleted(deleted))
            future.add_done_callback(partial(_report, partition))

    # who looks after what

    def partition_for(self, group_id: str) -> int:
        """Give the partition of `__consumer_offsets` that a group belongs to."""
        return partition_for(group_id, self._partition_count())

    def _shard(self, group_id: str) -> ShardRuntime[GroupShard, ShardImage]:
        return self.shards.at(self.partition_for(group_id))

    def _by_partition(self, group_ids: Iterable[str]) -> dict[int, list[str]]:
        by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        return by_partition

    def _submit(self, group_id: str, ask: Ask[GroupShard, R]) -> Awaitable[R]:
        return self._shard(group_id).submit(ask)

    # members; each raises ApiError with what a whole request is refused for

    def join(self, request: JoinGroupRequest, client_id: str, host: str, version: int) -> Awaitable[JoinGroupResponse]:
        """Answer JoinGroup, at the end of the join phase if need be. host: the client's IP."""
        return self._shard(request.group_id).submit_parking(
            lambda shard, now, waiter: shard.join(Joining(request, client_id, f"/{host}", version, waiter), now)
        )

    def sync(self, request: SyncGroupRequest) -> Awaitable[SyncGroupResponse]:
        """Answer SyncGroup, when the leader has assigned."""
        return self._shard(request.group_id).submit_parking(lambda shard, now, waiter: shard.sync(request, waiter, now))

    def heartbeat(self, request: HeartbeatRequest) -> Awaitable[HeartbeatResponse]:
        """Answer Heartbeat."""
        return self._submit(request.group_id, lambda shard, now: shard.heartbeat(request, now))

    def leave(self, request: LeaveGroupRequest) -> Awaitable[LeaveGroupResponse]:
        """Answer LeaveGroup; the members stand in `members` whatever the version."""
        return self._submit(request.group_id, lambda shard, now: shard.leave(request, now))

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client_id: str, host: str, allowed: Allowed
    ) -> Awaitable[ConsumerGroupHeartbeatResponse]:
        """Answer ConsumerGroupHeartbeat (KIP-848). allowed: gives which topics the member may describe."""
        check_request(request, version, self.config.consumer.assignors)
        return self._submit(
            request.group_id,
            lambda shard, now: shard.consumer_heartbeat(
                request, version, client_id, f"/{host}", now, self.topics.world(allowed)
            ),
        )

    # offsets

    def commit_offsets(self, request: OffsetCommitRequest, version: int) -> Awaitable[OffsetCommitResponse]:
        """Commit offsets of topics that exist; each topic carries its name and its id."""
        return self._submit(request.group_id, lambda shard, now: shard.commit_offsets(request, version, now))

    async def commit_in_transaction(self, request: TxnOffsetCommitRequest, version: int) -> TxnOffsetCommitResponse:
        """Commit offsets of partitions that exist in a producer's transaction: they count once that is committed."""
        partition = self.partition_for(request.group_id)
        self.shards.at(partition)
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        producer = Producer(request.producer_id, request.producer_epoch)
        try:
            tp = TopicPartition(OFFSETS_TOPIC, partition)
            guard = await self._verify(tp, request.transactional_id, producer, version)
        except ApiError as e:
            raise ApiError(response_error(e.code), e.message) from None
        runtime = self.shards.at(partition)
        return await runtime.submit(lambda shard, now: shard.commit_in_transaction(request, now), guard=guard)

    def end_transaction(self, partition: int, marker: Marker) -> Awaitable[None]:
        """Write a transaction's marker to a partition of the offsets' topic; ApiError when it cannot be now."""
        return self.shards.at(partition).end_transaction(marker)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Awaitable[OffsetDeleteResponse]:
        """Delete offsets of topics that the group does not read."""
        return self._submit(request.group_id, lambda shard, now: shard.delete_offsets(request))

    async def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """Give committed offsets: of all partitions when topics is None.

        require_stable reads the newest state, and answers when all of that is committed.
        """
        runtime = self._shard(request.group_id)
        if not require_stable:
            return offset_requests.fetch(runtime.committed_image(), request, require_stable=False)
        return await runtime.submit(lambda shard, now: shard.fetch_stable_offsets(request))

    # administration

    def describe(self, group_ids: Iterable[str], version: int) -> list[DescribedGroup]:
        """Describe groups; one whose shard is not here or not ready says so by its error."""
        described: list[DescribedGroup] = []
        for group_id in group_ids:
            try:
                image = self._shard(group_id).committed_image()
                described += describing.describe(image, [group_id], version)
            except ApiError as e:
                described.append(DescribedGroup(group_id=group_id, error_code=e.code))
        return described

    def describe_consumers(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        """Describe groups of the consumer protocol; one whose shard is not here or not ready says so by its error."""
        world = self._world()
        described: list[DescribedConsumerGroup] = []
        for group_id in group_ids:
            if not group_id:
                described.append(DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID))
                continue
            try:
                image = self._shard(group_id).committed_image()
                default = self.config.consumer.assignors[0]
                described += consumer_describing.describe(image, [group_id], world, default)
            except ApiError as e:
                described.append(DescribedConsumerGroup(group_id=group_id, error_code=e.code))
        return described

    def listed(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """List the groups of this node; raises COORDINATOR_LOAD_IN_PROGRESS while a shard loads."""
        return [group for image in self.shards.committed_images() for group in describing.listed(image, states, types)]

    def group_count(self, state: ClassicGroupState | None = None) -> int:
        """Give the number of groups of the classic protocol, of all or of those in a state."""
        images = [shard.shard.image for shard in self.shards.by_partition.values()]
        if state is None:
            return sum(len(image.groups) for image in images)
        return sum(group.state is state for image in images for group in image.groups.values())

    def consumer_group_count(self, state: ConsumerGroupState | None = None) -> int:
        """Give the number of groups of the consumer protocol, of all or of those in a state."""
        images = [shard.shard.image for shard in self.shards.by_partition.values()]
        if state is None:
            return sum(len(image.consumers) for image in images)
        return sum(group.state is state for image in images for group in image.consumers.values())

    def offset_count(self) -> int:
        """Give the number of committed offsets."""
        return sum(len(shard.shard.image.offsets) for shard in self.shards.by_partition.values())

    async def delete_groups(self, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
        """Delete groups without members, and their offsets."""
        results: list[DeletableGroupResult] = []
        for partition, ids in self._by_partition(group_ids).items():
            try:
                results += await self.shards.at(partition).submit(partial(_delete, ids))
            except ApiError as e:
                results += [DeletableGroupResult(group_id=group_id, error_code=e.code) for group_id in ids]
        return results


def _delete(group_ids: list[str], shard: GroupShard, now: Now) -> Step[Sequence[DeletableGroupResult]]:
    return shard.delete_groups(group_ids)


def _report(partition: int, future: asyncio.Future[Any]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.error("offsets of deleted topics remain", partition=partition, error=str(error))
