"""Membership of a classic consumer group: join, share partitions out, keep the heart beating, leave.

States: out -> joining -> member -> joining again when the group rebalances. The owner calls `ensure_joined` before
each poll; heartbeats run beside it and only note that the group has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from barnabas.client.admin.groups import CONSUMER, GroupMember, assigned_partitions
from barnabas.client.assignors import ASSIGNORS, assignor_names
from barnabas.client.cluster import Cluster, CoordinatorKind
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.message import decode_from, encode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.wire.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.records.consumer_protocol_assignment import TopicPartition as AssignedTopic
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription

_PROTOCOL_VERSION: Final = 1
_JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_FORGOTTEN: Final = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class GroupMembership:
    """One member of one group."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._config = cluster.config
        self.group = group
        self.topics = sorted(topics)
        self.member_id = ""
        self.generation = -1
        self.partitions: tuple[TopicPartition, ...] = ()
        self._instance_id = self._config.text("group.instance.id")
        self._strategies = assignor_names(self._config["partition.assignment.strategy"])
        self._rejoin = True
        self._heart: asyncio.Task[None] | None = None
        self._failed: Exception | None = None

    @property
    def must_join(self) -> bool:
        """Say whether the group has moved, so that the partitions are no longer this member's."""
        return self._rejoin

    async def ensure_joined(self) -> bool:
        """Join, or join again when the group has moved; say whether the assignment is new. ApiError when refused."""
        if self._failed is not None:
            raise self._failed
        if not self._rejoin:
            return False
        await self._stop_heart()
        while self._rejoin:
            self._rejoin = False
            try:
                await self._join()
            except ApiError as e:
                await self._join_failed(e)
        self._heart = asyncio.create_task(self._beat(), name=f"heartbeats of {self.group}")
        return True

    async def leave(self) -> None:
        """Leave the group, unless the member is static, so that its partitions are given away at once."""
        await self._stop_heart()
        if self.member_id and self._instance_id is None:
            me = MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")
            try:
                await self._call(LeaveGroupRequest(group_id=self.group, member_id="", members=[me]))
            except (ApiError, DisconnectedError, RequestTimeoutError, ProtocolError):
                pass  # the session time-out does the same, later
        self.member_id, self.generation, self._rejoin = "", -1, True

    def as_member(self) -> GroupMember:
        """Give this member as others see it."""
        return GroupMember(self.member_id, self._instance_id, self._config["client.id"], "", self.partitions)

    async def _join(self) -> None:
        subscription = self._subscription()
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._config.integer("session.timeout.ms"),
            rebalance_timeout_ms=self._config.integer("max.poll.interval.ms"),
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription) for name in self._strategies],
        )
        wait_ms = self._config.integer("max.poll.interval.ms") + 5_000
        joined: JoinGroupResponse = await self._call(request, timeout_ms=wait_ms)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        self._check(joined.error_code)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._share_out(joined)
        synced: SyncGroupResponse = await self._call(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type=CONSUMER,
                protocol_name=joined.protocol_name,
                assignments=assignments,
            ),
            timeout_ms=wait_ms,
        )
        self._check(synced.error_code)
        self.partitions = assigned_partitions(synced.assignment)

    async def _join_failed(self, e: ApiError) -> None:
        if e.code in _FORGOTTEN:
            self.member_id, self.generation = "", -1
        elif e.code not in _JOIN_AGAIN:
            raise e
        if e.code not in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.group)
            await asyncio.sleep(self._config.integer("retry.backoff.ms") / 1000)
        self._rejoin = True

    async def _share_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        subscriptions = {m.member_id: _topics_of(m.metadata) for m in joined.members}
        wanted = {topic for topics in subscriptions.values() for topic in topics}
        known = await self._cluster.topics()
        partitions = {name: len(known[name].partitions) for name in wanted if name in known}
        given = ASSIGNORS[joined.protocol_name or "range"](subscriptions, partitions)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=_assignment(mine)) for member, mine in given.items()
        ]

    def _subscription(self) -> bytes:
        message = ConsumerProtocolSubscription(topics=list(self.topics))
        return _PROTOCOL_VERSION.to_bytes(2, "big") + encode(message, _PROTOCOL_VERSION)

    async def _beat(self) -> None:
        interval_s = self._config.integer("heartbeat.interval.ms") / 1000
        while not self._rejoin:
            await asyncio.sleep(interval_s)
            try:
                beat: HeartbeatResponse = await self._call(
                    HeartbeatRequest(
                        group_id=self.group,
                        generation_id=self.generation,
                        member_id=self.member_id,
                        group_instance_id=self._instance_id,
                    )
                )
                self._check(beat.error_code)
            except (DisconnectedError, RequestTimeoutError):
                continue  # the session may still outlive this
            except ApiError as e:
                if e.code in _FORGOTTEN:
                    self.member_id, self.generation = "", -1
                elif e.code not in _JOIN_AGAIN:
                    self._failed = e
                self._rejoin = True

    async def _stop_heart(self) -> None:
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)

    async def _call(self, request: Any, **how: Any) -> Any:
        return await self._cluster.call_coordinator(CoordinatorKind.GROUP, self.group, request, **how)

    def _check(self, code: int) -> None:
        if code != ErrorCode.NONE:
            raise ApiError(ErrorCode(code), f"group {self.group!r}: {ErrorCode(code).message}")


def _topics_of(metadata: bytes) -> list[str]:
    version = min(int.from_bytes(metadata[:2], "big", signed=True), ConsumerProtocolSubscription.MAX_VERSION)
    subscription, _ = decode_from(ConsumerProtocolSubscription, max(version, 0), metadata, 2)
    return subscription.topics


def _assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic=t, partitions=ps) for t, ps in by_topic.items()]
    )
    return _PROTOCOL_VERSION.to_bytes(2, "big") + encode(message, _PROTOCOL_VERSION)
