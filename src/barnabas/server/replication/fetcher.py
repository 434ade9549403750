"""A follower's connection to one leader broker: fetches, again and again, what is followed there.

Records go from the buffer that the socket filled to the log without a copy.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from barnabas.core.replication.fetching import Ask, Position, TopicIdPartition
from barnabas.net.client import Channel, ChannelError, ChannelSettings
from barnabas.server.replication.followed_partitions import FollowedPartitions, FollowerHost
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from barnabas.model.metrics import Meter
    from barnabas.server.replication.partition import Partition

log = structlog.get_logger("kafka.server.ReplicaFetcher")

THROTTLE_LOOK_MS: Final = 100
LATEST: Final = -1
EARLIEST: Final = -2


class FetcherHost(FollowerHost, Protocol):
    """What a fetcher knows of its broker."""

    def channel_settings(self) -> ChannelSettings:
        """Give how to connect to another broker."""
        ...

    def address(self, broker_id: int) -> tuple[str, int] | None:
        """Give where a broker listens for others; None while it is not known."""
        ...

    def new_meter(self, event: str) -> Meter:
        """Give a meter that nobody else counts in. event: what it counts."""
        ...


class ReplicaFetcher:
    """One connection. followed: what is fetched by it."""

    def __init__(self, leader_id: int, host: FetcherHost) -> None:
        self.leader_id = leader_id
        self.followed = FollowedPartitions(leader_id, host)
        self.requests = host.new_meter("requests")
        self._host = host
        self._news = asyncio.Event()
        self._channel: Channel | None = None
        self._failures = 0

    def put(self, partition: Partition) -> None:
        """Follow a partition in its present leader epoch."""
        self.followed.put(partition)
        self._news.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                await self._round()
        finally:
            await self._hang_up()

    async def _round(self) -> None:
        self._news.clear()
        try:
            # Connected first: a partition may leave while this waits, and must not be in what is asked for then.
            channel = await self._connection() if len(self.followed) else None
            ask = self.followed.next()
            if channel is not None and ask is not None:
                await self._fetch(channel, ask)
                self._failures = 0
                return
        except (ChannelError, ApiError) as e:
            await self._failed(str(e))
            return
        await self._wait_for_news()

    async def _fetch(self, channel: Channel, ask: Ask) -> None:
        version = channel.versions(FetchRequest())
        request = self.followed.request(ask, version)
        self.requests.mark()
        for key, position in self.followed.take(ask, await channel.call(request, version=version)):
            await self._start_elsewhere(key, position)

    async def _failed(self, why: str) -> None:
        say = log.info if self._failures == 0 else log.debug
        say("cannot fetch", leader=self.leader_id, partitions=len(self.followed), why=why)
        self.followed.unanswered()
        await self._hang_up()
        pause_ms = self.followed.backoff_ms(self._failures)
        self._failures += 1
        await asyncio.sleep(pause_ms / 1000)

    async def _wait_for_news(self) -> None:
        due = self.followed.next_due_ms()
        wait_ms = self._host.fetcher_settings().backoff_ms if due is None else due - self._host.now_ms()
        if self._host.follower_quota.active:
            wait_ms = min(wait_ms, THROTTLE_LOOK_MS)
        try:
            await asyncio.wait_for(self._news.wait(), max(wait_ms, 1) / 1000)
        except TimeoutError:
            pass

    async def _connection(self) -> Channel:
        if self._channel is None or self._channel.is_closed:
            address = self._host.address(self.leader_id)
            if address is None:
                raise ChannelError(f"broker {self.leader_id} is not there, or does not listen for brokers")
            self._channel = await Channel.open(*address, self._host.channel_settings())
        return self._channel

    async def _hang_up(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def _start_elsewhere(self, key: TopicIdPartition, position: Position) -> None:
        partition = self.followed.partition_at(key, position)
        if partition is None:
            return
        try:
            end = await self._offset(partition, position.leader_epoch, LATEST)
            start = await self._offset(partition, position.leader_epoch, EARLIEST)
        except ApiError as e:
            if self.followed.partition_at(key, position) is not None:
                self.followed.refused(key, e.code)
            return
        self.followed.start_elsewhere(key, position, start, end)

    async def _offset(self, partition: Partition, leader_epoch: int, timestamp: int) -> int:
        wanted = ListOffsetsPartition(
            partition_index=partition.tp.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._host.node_id, topics=[ListOffsetsTopic(name=partition.tp.topic, partitions=[wanted])]
        )
        channel = await self._connection()
        response: ListOffsetsResponse = await channel.call(request)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code))
        return answer.offset
