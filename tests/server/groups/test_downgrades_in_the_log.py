"""Downgrades of consumer groups that the log does not take: memory is never ahead of it (KIP-848)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from barnabas.core.groups.config import Bounded, ConsumerGroupConfig, GroupConfig
from barnabas.core.groups.image import ShardImage
from barnabas.server.coordinators.runtime import LogSettings
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.topics import GroupTopics
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.record_batch import Compression
from tests.core.groups.migration.driving import subscription
from tests.server.groups.test_consumer_coordinator import Metadata, beat
from tests.server.groups.test_coordinator import WatchedLog, World, commit_request, fetched, refusal

E = ErrorCode
CONSUMER = "consumer"
LEAVE = -1
FENCE_FITS = 400
"""In a batch of so many bytes the group of these tests goes on without a member, but becomes no classic group."""


class Log(WatchedLog):
    """Takes so many more batches as `takes` says, all of them when it says nothing."""

    takes: int | None = None

    def append(self, batch: bytes | bytearray, **how: Any) -> int:
        if self.takes == 0:
            raise ApiError(E.NOT_ENOUGH_REPLICAS)
        offset = super().append(batch, **how)
        self.takes = None if self.takes is None else self.takes - 1
        return offset


class Mixed(World):
    """A coordinator with a consumer group of one member of each protocol."""

    def __init__(self, compression: Compression = Compression.NONE) -> None:
        self.of_groups = {"consumer.assignment.interval.ms": 0}
        consumer = ConsumerGroupConfig(
            session_timeout_ms=Bounded(45_000, 1, 60_000), overrides=lambda _: self.of_groups
        )
        super().__init__(config=GroupConfig(consumer=consumer), settings=LogSettings(compression=compression))
        self.written = Log()
        self.logs[0] = self.written

    async def start(self) -> GroupCoordinator:
        self.groups.topics = GroupTopics(lambda: Metadata().image)
        return await super().start()

    async def mixed(self) -> GroupCoordinator:
        await self.start()
        await beat(self.groups, CONSUMER)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            group_instance_id="i",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(["t"]))],
        )
        self.joined = await self.groups.join(request, "classic", "127.0.0.1", 9)
        assert self.joined.error_code == E.NONE
        return self.groups

    def leave(self) -> Awaitable[ConsumerGroupHeartbeatResponse]:
        return beat(self.groups, CONSUMER, LEAVE)

    def image(self) -> ShardImage:
        """Give what is in memory, committed or not."""
        return self.groups.shards.at(0).shard.image

    def members(self) -> set[str]:
        """Give the members of the group, which is a consumer group, as they are committed."""
        return set(self.groups.shards.at(0).committed_image().consumers["g"].members)

    async def is_as_in_the_log(self) -> bool:
        """Say whether another coordinator, which loads the log, has the same group; it has taken over then."""
        before = self.image()
        await self.groups.close()
        self.groups = self.restarted()
        await self.start()
        after = self.image()
        return (before.consumers, set(before.groups)) == (after.consumers, set(after.groups))


async def test_a_leave_whose_downgrade_is_too_large_is_refused_and_changes_nothing() -> None:
    world = Mixed()
    groups = await world.mixed()
    before, count = world.image(), len(world.written.batches)
    world.written.max_batch_bytes = FENCE_FITS
    assert await refusal(world.leave()) is E.UNKNOWN_SERVER_ERROR
    assert world.image() == before
    assert len(world.written.batches) == count
    heartbeat = HeartbeatRequest(
        group_id="g", group_instance_id="i", member_id=world.joined.member_id, generation_id=world.joined.generation_id
    )
    assert (await groups.heartbeat(heartbeat)).error_code in (E.NONE, E.REBALANCE_IN_PROGRESS)
    assert world.members() == {CONSUMER, world.joined.member_id}
    assert await world.is_as_in_the_log()
    world.written.max_batch_bytes *= 10
    assert (await world.leave()).member_epoch == LEAVE
    assert set(world.image().groups) == {"g"}
    assert not world.image().consumers
    assert await world.is_as_in_the_log()
    await world.groups.close()


async def test_a_leave_is_one_batch_that_may_be_larger_before_it_is_compressed() -> None:
    world = Mixed(Compression.GZIP)
    await world.mixed()
    world.written.max_batch_bytes = FENCE_FITS
    assert (await world.leave()).member_epoch == LEAVE
    assert set(world.image().groups) == {"g"}
    assert await world.is_as_in_the_log()
    await world.groups.close()


async def test_a_silent_member_goes_without_a_downgrade_that_is_too_large() -> None:
    world = Mixed()
    groups = await world.mixed()
    world.written.max_batch_bytes = FENCE_FITS
    world.of_groups["consumer.session.timeout.ms"] = 1
    await beat(groups, CONSUMER, world.image().consumers["g"].members[CONSUMER].epoch)
    async with asyncio.timeout(60):
        while CONSUMER in world.members():
            world.written.appended.clear()
            await world.written.appended.wait()
    assert world.members() == {world.joined.member_id}
    assert await world.is_as_in_the_log()
    await world.groups.close()


@pytest.mark.parametrize("takes", [0, 1])
async def test_a_downgrade_that_begins_a_batch_leaves_no_trace_in_the_one_before(takes: int) -> None:
    world = Mixed()
    groups = await world.mixed()
    before = world.image()
    world.written.max_batch_bytes, world.written.takes = 2_000, takes

    async def commit() -> object:
        return await groups.commit_offsets(commit_request(7, "other", partitions=20), 9)

    together = await asyncio.gather(commit(), world.leave(), return_exceptions=True)  # in one turn of the loop
    stored = [one for one in together if not isinstance(one, ApiError)]
    assert len(stored) == takes
    world.written.takes = None
    assert world.image().consumers == before.consumers
    assert await fetched(groups, "other") == ({"t": [7] * 20} if takes else {})
    assert await world.is_as_in_the_log()
    await world.groups.close()
