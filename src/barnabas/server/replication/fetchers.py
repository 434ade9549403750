"""The fetchers of a broker: which connection follows which partition, and the tasks behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

from barnabas.core.replication.fetching import TopicIdPartition
from barnabas.model.metrics import Meter
from barnabas.server.peer_channels import peer_settings
from barnabas.server.replication.fetcher import ReplicaFetcher
from barnabas.server.replication.followed_partitions import FetcherSettings
from barnabas.server.replication.partition import NO_LEADER, Partition

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.model.ports import Clock
    from barnabas.net.client import ChannelSettings
    from barnabas.server.config import NodeConfig
    from barnabas.server.replication.quota import ReplicationQuota

FetcherKey = tuple[int, int]
"""(leader's broker id, number of the connection to it)."""


class ReplicaFetchers:
    """Follows partitions; to each fetcher it is the host. Nothing is fetched before `start`."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        *,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        follower_quota: ReplicationQuota,
        bytes_in: Meter,
        reassignment_bytes_in: Meter,
    ) -> None:
        self.node_id = config.node_id
        self.broker_epoch = broker_epoch
        self.follower_quota = follower_quota
        self.bytes_in = bytes_in
        self.reassignment_bytes_in = reassignment_bytes_in
        self.now_ms = clock.monotonic_ms
        self._clock = clock
        self._config = config
        self._settings = _settings(config)
        self._channels: ChannelSettings | None = None
        self._image = image
        self._fetchers: dict[FetcherKey, ReplicaFetcher] = {}
        self._by_partition: dict[TopicIdPartition, FetcherKey] = {}
        self._tasks: dict[FetcherKey, asyncio.Task[None]] = {}
        self._started = False

    def __iter__(self) -> Iterator[ReplicaFetcher]:
        return iter(list(self._fetchers.values()))

    # --- to each fetcher

    def fetcher_settings(self) -> FetcherSettings:
        """Give the settings of the moment."""
        return self._settings

    def channel_settings(self) -> ChannelSettings:
        """Give how to connect to another broker: the same while the configuration stays, so that a token is kept."""
        if self._channels is None:
            config = self._config
            made = peer_settings(config, config.inter_broker_listener_name, f"broker-{self.node_id}-fetcher")
            self._channels = replace(
                made,
                request_timeout_ms=config["replica.socket.timeout.ms"],
                receive_buffer_bytes=config["replica.socket.receive.buffer.bytes"],
            )
        return self._channels

    def address(self, broker_id: int) -> tuple[str, int] | None:
        """Give where a broker listens for others; None while it is not known."""
        broker = self._image().cluster.brokers.get(broker_id)
        endpoint = broker.listeners.get(self._config.inter_broker_listener_name) if broker is not None else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def new_meter(self, event: str) -> Meter:
        """Give a meter that nobody else counts in. event: what it counts."""
        return Meter(self._clock, event)

    # --- following

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader of the moment, if it has one, and from nowhere else."""
        key = TopicIdPartition(partition.topic_id, partition.tp.partition)
        fetcher_key = self._fetcher_for(partition)
        if self._by_partition.get(key) != fetcher_key:
            self.stop(partition)
        if partition.leader_id == NO_LEADER or partition.log.is_offline:
            return
        fetcher = self._fetchers.get(fetcher_key)
        if fetcher is None:
            fetcher = self._fetchers[fetcher_key] = ReplicaFetcher(partition.leader_id, self)
            if self._started:
                self._run(fetcher_key, fetcher)
        self._by_partition[key] = fetcher_key
        fetcher.put(partition)

    def stop(self, partition: Partition) -> None:
        """Fetch a partition no more."""
        key = self._by_partition.pop(TopicIdPartition(partition.topic_id, partition.tp.partition), None)
        if key is not None:
            self._fetchers[key].followed.remove(partition)

    def stop_idle(self) -> None:
        """Close the connections by which nothing is fetched."""
        used = set(self._by_partition.values())
        for key in [key for key in self._fetchers if key not in used]:
            del self._fetchers[key]
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()

    def _fetcher_for(self, partition: Partition) -> FetcherKey:
        number = (crc32(partition.tp.topic.encode()) + partition.tp.partition) % self._config["num.replica.fetchers"]
        return partition.leader_id, number

    def reconfigure(self, config: NodeConfig, partitions: Iterable[Partition]) -> None:
        """Take another configuration; `partitions`: those that are followed."""
        spread_anew = config["num.replica.fetchers"] != self._config["num.replica.fetchers"]
        self._config, self._settings, self._channels = config, _settings(config), None
        if spread_anew:
            for partition in partitions:
                if not partition.is_leader:
                    self.follow(partition)
            self.stop_idle()

    # --- running

    def start(self) -> None:
        """Begin to fetch."""
        self._started = True
        for key, fetcher in self._fetchers.items():
            self._run(key, fetcher)

    def _run(self, key: FetcherKey, fetcher: ReplicaFetcher) -> None:
        name = f"fetcher {key[1]} from broker {key[0]}"
        task = self._tasks[key] = asyncio.get_running_loop().create_task(fetcher.run(), name=name)
        task.add_done_callback(_look_at)

    async def close(self) -> None:
        """Fetch nothing any more."""
        self._started = False
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- what the metrics tell

    def max_lag(self) -> int:
        """Give by how many records the replica that is furthest behind lags."""
        return max((lag for fetcher in self for lag in fetcher.followed.lags.values()), default=0)

    def min_fetch_rate(self) -> float:
        """Give the requests a second of the fetcher that makes the fewest."""
        rates = (f.requests.attributes()["OneMinuteRate"] for f in self)
        return min((rate for rate in rates if not isinstance(rate, str)), default=0.0)

    def connections(self) -> Iterator[tuple[str, ReplicaFetcher]]:
        """Give each fetcher by the name that Kafka gives its thread."""
        for (leader, number), fetcher in list(self._fetchers.items()):
            yield f"ReplicaFetcherThread-{number}-{leader}", fetcher

    def failed_count(self) -> int:
        """Give the number of partitions whose following has failed."""
        return sum(len(fetcher.followed.failed) for fetcher in self)

    def dead_count(self) -> int:
        """Give the number of fetchers that have come to an end by a defect."""
        return sum(task.done() for task in self._tasks.values())


def _settings(config: NodeConfig) -> FetcherSettings:
    return FetcherSettings(
        wait_max_ms=config["replica.fetch.wait.max.ms"],
        min_bytes=config["replica.fetch.min.bytes"],
        max_bytes=config["replica.fetch.max.bytes"],
        response_max_bytes=config["replica.fetch.response.max.bytes"],
        backoff_ms=config["replica.fetch.backoff.ms"],
    )


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": f"{task.get_name()} failed", "exception": error})
