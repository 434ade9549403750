"""The replicas of a broker: roles after the metadata log, the ISRs, fetchers, throttles, requests that wait.

Kafka's ReplicaManager, as far as it is not in the parts that it wires together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from barnabas.core.replication.in_sync import IsrChange
from barnabas.core.replication.read_replica import SELECTORS, ReplicaView
from barnabas.model.metrics import mbean
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.replication.awaited_followers import AwaitedFollowers
from barnabas.server.replication.fetchers import ReplicaFetchers
from barnabas.server.replication.isr_changes import IsrChanges
from barnabas.server.replication.log_dir_moves import LogDirMoves
from barnabas.server.replication.partitions import Partition, Partitions, ReplicaEvents, RoleChange
from barnabas.server.replication.purgatory import Purgatory
from barnabas.server.replication.quota import ReplicationQuota
from barnabas.server.replication.reports import ReplicaReports
from barnabas.server.replication.transaction_verification import TransactionVerification

if TYPE_CHECKING:
    from barnabas.core.metadata.delta import MetadataDelta
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.model.metrics import Metrics
    from barnabas.model.ports import Clock
    from barnabas.model.uuid import Uuid
    from barnabas.server.config import NodeConfig
    from barnabas.server.forwarding.controller_channel import ControllerChannel
    from barnabas.storage.log_dirs import LogDirs

log = structlog.get_logger("kafka.server.ReplicaManager")


class ReplicaManager:
    """See the module. writes, fetches, deletions: the requests that wait. Runs from `start` to `close`."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        log_dirs: LogDirs,
        channel: ControllerChannel,
        metrics: Metrics,
        *,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
    ) -> None:
        """image: the metadata as this node has taken it up; broker_epoch: of its registration at the moment."""
        self._image = image
        self._running = False
        self._rack: str | None = config["broker.rack"]
        windows = {
            "window_ms": config["replication.quota.window.size.seconds"] * 1000,
            "windows": config["replication.quota.window.num"],
        }
        self.leader_quota = ReplicationQuota(clock, config.node_id, "leader.replication.throttled.replicas", **windows)
        self.follower_quota = ReplicationQuota(
            clock, config.node_id, "follower.replication.throttled.replicas", **windows
        )
        self.writes, self.fetches, self.deletions = Purgatory(), Purgatory(), Purgatory()
        self.bytes_out = metrics.meter(_topic_metric("ReplicationBytesOutPerSec"), "bytes")
        self.reassignment_bytes_out = metrics.meter(_topic_metric("ReassignmentBytesOutPerSec"), "bytes")
        self._decided = {
            IsrChange.EXPAND: metrics.meter(_metric("IsrExpandsPerSec"), "expands"),
            IsrChange.SHRINK: metrics.meter(_metric("IsrShrinksPerSec"), "shrinks"),
        }
        self._failed_changes = metrics.meter(_metric("FailedIsrUpdatesPerSec"), "failedUpdates")
        self.awaited = AwaitedFollowers(clock.monotonic_ms)
        self.isr_changes = IsrChanges(config.node_id, channel, broker_epoch)
        self.partitions = Partitions(
            config.node_id,
            log_dirs,
            clock,
            broker_epoch=broker_epoch,
            events=ReplicaEvents(self.isr_changes.propose, self._isr_decided),
            told_epochs=not config.is_zookeeper_mode,
        )
        self.fetchers = ReplicaFetchers(
            config,
            clock,
            image=image,
            broker_epoch=broker_epoch,
            follower_quota=self.follower_quota,
            bytes_in=metrics.meter(_topic_metric("ReplicationBytesInPerSec"), "bytes"),
            reassignment_bytes_in=metrics.meter(_topic_metric("ReassignmentBytesInPerSec"), "bytes"),
        )
        self.verification = TransactionVerification(self.partitions, clock)
        self._clock = clock
        self._log_dirs = log_dirs
        self.reports = ReplicaReports(
            config.node_id, channel, directory_of=self._directory_of, broker_epoch=broker_epoch
        )
        self.moving_quota = ReplicationQuota(
            clock,
            config.node_id,
            None,
            window_ms=config["alter.log.dirs.replication.quota.window.size.seconds"] * 1000,
            windows=config["alter.log.dirs.replication.quota.window.num"],
        )
        at_once = config["num.replica.alter.log.dirs.threads"] or len(log_dirs.directories)
        self.moves = LogDirMoves(log_dirs, self.partitions, self.moving_quota, self.reports.assign, at_once)
        self._take(config)

    def _take(self, config: NodeConfig) -> None:
        self.partitions.max_lag_ms = config["replica.lag.time.max.ms"]
        self.verification.reconfigure(config)
        self._log_dirs.env.verify_transactions = self.verification.is_enabled
        self.leader_quota.limit(config["leader.replication.throttled.rate"])
        self.follower_quota.limit(config["follower.replication.throttled.rate"])
        self.moving_quota.limit(config["replica.alter.log.dirs.io.max.bytes.per.second"])
        selector = config["replica.selector.class"]
        self._select = SELECTORS[selector] if selector else None

    def reconfigure(self, config: NodeConfig) -> None:
        """Take another configuration from now on."""
        self._take(config)
        self.fetchers.reconfigure(config, self.partitions)

    # --- following the metadata log

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> list[RoleChange]:
        """Take up a delta; gives the replicas whose role is another."""
        changes = self.partitions.publish(delta, image)
        awaited: set[int] = set()
        for partition, left in changes:
            if left or partition.is_leader:
                self.fetchers.stop(partition)
                awaited.update(partition.replicas if partition.is_leader else ())
            else:
                self.fetchers.follow(partition)
            if left:
                self.moves.cancel(partition.tp)
            elif self._running:
                self.moves.resume(partition)
        self.reports.publish(delta, image)
        if changes:
            self.fetchers.stop_idle()
            self.awaited.elected(awaited)
        return changes

    def stop_following(self) -> None:
        """Fetch from no leader any more, until a new leader epoch."""
        for partition in self.partitions:
            self.fetchers.stop(partition)

    # --- running

    async def run(self) -> None:
        """Fetch, watch over the ISRs and have them changed, until cancelled."""
        self._running = True
        self.fetchers.start()
        for partition in self.partitions:
            self.moves.resume(partition)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.reports.run(), name="replica reports")
                tasks.create_task(self.isr_changes.run(), name="ISR changes")
                tasks.create_task(self._shrink_isrs(), name="ISR expiration")
        finally:
            self._running = False
            await self.moves.close()
            await self.fetchers.close()

    async def _shrink_isrs(self) -> None:
        while True:
            # Twice in the time that a follower has, so that one is out after one and a half of it at most.
            await asyncio.sleep(self.partitions.max_lag_ms / 2000)
            self.partitions.shrink_isrs()

    def _directory_of(self, tp: TopicPartition) -> Uuid | None:
        if tp in self.moves:
            return None
        directory = self._log_dirs.directory_of(tp)
        return directory.directory_id if directory is not None else None

    def _isr_decided(self, change: IsrChange, failed: bool) -> None:
        meter = self._failed_changes if failed else self._decided.get(change)
        if meter is not None:
            meter.mark()

    # --- to handlers of requests

    @property
    def selects(self) -> bool:
        """Whether consumers may be sent to followers."""
        return self._select is not None

    def preferred_replica(self, partition: Partition, rack: str, listener_name: str, offset: int) -> int | None:
        """Give the follower that a consumer should read `offset` from; None when that is its leader (KIP-392)."""
        led, select = partition.leadership, self._select
        if led is None or select is None:
            return None
        brokers = self._image().cluster.brokers
        now_ms = self._clock.monotonic_ms()
        views = []
        for follower in led.followers.values():
            broker = brokers.get(follower.broker_id)
            if (
                broker is not None
                and not broker.fenced
                and listener_name in broker.listeners
                and follower.broker_id in led.isr
                and follower.log_start_offset <= offset <= follower.log_end_offset
            ):
                behind_ms = now_ms - follower.last_caught_up_ms
                views.append(ReplicaView(follower.broker_id, broker.rack, follower.log_end_offset, behind_ms))
        leader = ReplicaView(led.node_id, self._rack, partition.log.log_end_offset, 0)
        selected = select(rack, leader, views)
        return None if selected == led.node_id else selected

    def sent(self, topic: str, number: int, broker_id: int, size: int) -> None:
        """Count records that go to a follower."""
        self.bytes_out.count += size
        partition = self.partitions.find(TopicPartition(topic, number))
        if partition is None or partition.leadership is None:
            return
        if self.leader_quota.active and self.leader_quota.throttles(partition):
            self.leader_quota.record(size)
        if broker_id in partition.leadership.assignment.adding:
            self.reassignment_bytes_out.count += size


def _metric(name: str) -> str:
    return mbean("kafka.server", type="ReplicaManager", name=name)


def _topic_metric(name: str) -> str:
    return mbean("kafka.server", type="BrokerTopicMetrics", name=name)
