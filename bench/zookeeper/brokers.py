"""Two brokers on one ZooKeeper, of either system, with many partitions: one starts, and the controller is lost."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.cluster import channel_settings
from barnabas.core.zookeeper.values import WatchEvent
from barnabas.net.client import Channel, ChannelError
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.testing.ports import HOST
from barnabas.testing.processes import Barnabas
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from bench.goals import Measured, Results
from bench.systems import KAFKAS_JVM
from bench.zookeeper.server import zookeeper
from bench.zookeeper.sizes import Say, ZooKeeperSizes

CHROOT: Final = "/kafka"
CONTROLLER: Final = "/controller"
LIMIT_S: Final = 300.0
_PARTITIONS: Final = 10
_TOPICS_A_REQUEST: Final = 50
_PAUSE_S: Final = 0.02
_PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "6000",
    # Kafka's own defaults; the tests' brokers have others.
    "log.cleaner.enable": "true",
}
_JVM: Final = ("-XX:-UseSerialGC", "-XX:TieredStopAtLevel=4", *KAFKAS_JVM)
"""What the scripts pass, after what takes back what the tests' brokers are given."""


def measure_brokers(kafka: bool, sizes: ZooKeeperSizes, results: Results, say: Say) -> None:
    """Measure one system: Apache Kafka 3.9.1 or Barnabas."""
    with _brokers(kafka) as (server, brokers):
        asyncio.run(_create_topics(brokers, sizes.zk_partitions))
        for broker in brokers:
            _until_in_sync(broker, len(brokers), sizes.zk_partitions)
        for _ in range(sizes.repeats):
            say("  zookeeper-start")
            lost, kept = _controller_first(server, brokers)
            kept.stop()
            _until_in_sync(lost, 1, sizes.zk_partitions)  # it has left in order, and must get in sync anew
            begun = time.perf_counter()
            kept.start(wait=False)
            _until_in_sync(kept, len(brokers), sizes.zk_partitions)
            _note(results, "zookeeper-start", time.perf_counter() - begun)
            say("  zookeeper-failover")
            _note(results, "zookeeper-failover", asyncio.run(_lose(server, lost, kept, sizes.zk_partitions)))
            lost.start(wait=False)
            for broker in brokers:
                _until_in_sync(broker, len(brokers), sizes.zk_partitions)
        for broker in brokers:
            _note(results, "zookeeper-rss", broker.process.rss_bytes() / 1e6)


@contextmanager
def _brokers(kafka: bool) -> Iterator[tuple[ZooKeeper, Sequence[ZooKeeperBroker]]]:
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work:
        (folder := Path(work, "zookeeper")).mkdir()
        with zookeeper(folder, secured=False) as server:
            brokers = [
                ZooKeeperBroker(
                    Path(work, f"broker-{number}"),
                    f"{server.connect}{CHROOT}",
                    broker_id=number,
                    properties=_PROPERTIES,
                    jvm=_JVM,
                )
                for number in range(2)
            ]
            try:
                for broker in brokers:
                    if not kafka:
                        broker.process.software = Barnabas()
                    broker.start()
                yield server, brokers
            finally:
                for broker in brokers:
                    broker.stop(kill=True)


def _note(results: Results, key: str, value: float) -> None:
    results.setdefault(key, Measured()).values.append(value)


async def _create_topics(brokers: Sequence[ZooKeeperBroker], partitions: int) -> None:
    names = [f"many-{number}" for number in range(partitions // _PARTITIONS)]
    async with Admin(brokers[0].client_config(*brokers[1:])) as admin:
        for at in range(0, len(names), _TOPICS_A_REQUEST):
            made = await admin.create_topics(
                [NewTopic(name, _PARTITIONS, len(brokers)) for name in names[at : at + _TOPICS_A_REQUEST]]
            )
            for error in made.values():
                if (
                    error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
                ):  # by an attempt that was slow
                    raise error


def _controller_first(server: ZooKeeper, brokers: Sequence[ZooKeeperBroker]) -> Sequence[ZooKeeperBroker]:
    async def controller() -> int:
        async with _client(server) as zk:
            data, _ = await zk.get(CONTROLLER)
            return int(json.loads(data)["brokerid"])

    first = asyncio.run(controller())
    return sorted(brokers, key=lambda broker: broker.broker_id != first)


def _client(server: ZooKeeper) -> ZooKeeperClient:
    return ZooKeeperClient(server.settings(None, CHROOT))


async def _lose(server: ZooKeeper, lost: ZooKeeperBroker, kept: ZooKeeperBroker, partitions: int) -> float:
    """Kill the controller, that leads all; give the seconds from the end of its session until the other leads all."""
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def fired(_: WatchEvent) -> None:
        gone.set_result(time.perf_counter())

    async with _client(server) as zk:
        await zk.exists(CONTROLLER, watch=fired)
        lost.process.kill()
        begun = await asyncio.wait_for(gone, LIMIT_S)
        return await _seen(kept, partitions, lambda one: one.leader_id == kept.broker_id) - begun


def _until_in_sync(broker: ZooKeeperBroker, copies: int, partitions: int) -> None:
    """Wait until a broker tells its clients that every partition has so many copies in sync."""
    asyncio.run(_seen(broker, partitions, lambda one: one.leader_id >= 0 and len(one.isr_nodes) == copies))


async def _seen(broker: ZooKeeperBroker, partitions: int, wanted: Callable[[MetadataResponsePartition], bool]) -> float:
    """Give when all partitions were as wanted, as this broker itself tells its clients."""
    settings = channel_settings(broker.client_config())
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                channel = await Channel.open(HOST, broker.port, settings)
            except (OSError, ChannelError):
                await asyncio.sleep(_PAUSE_S)
                continue
            try:
                while True:
                    told: MetadataResponse = await channel.call(MetadataRequest(topics=None))
                    at = time.perf_counter()
                    found = [one for topic in told.topics for one in topic.partitions if not topic.is_internal]
                    if len(found) == partitions and all(map(wanted, found)):
                        return at
                    await asyncio.sleep(_PAUSE_S)
            except ChannelError:
                pass  # it has closed the connection, and goes on in a moment
            finally:
                await channel.close()
