"""What a cluster of several nodes does: throughput with three copies, how long failures last, many topics."""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import confluent_kafka
from tests.peers.apache import ApacheKafka

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.net.client import ChannelError
from barnabas.testing.processes import Barnabas, NodeProcess, ProcessCluster, Software
from barnabas.wire.errors import ApiError, ErrorCode
from bench.goals import Measured, Results
from bench.librdkafka import Librdkafka
from bench.loads import run_java
from bench.systems import KAFKAS_JVM

NODES: Final = 3
PARTITIONS: Final = 3
LIMIT_SECONDS: Final = 300.0
TOPICS_A_REQUEST: Final = 100
_PAUSE_SECONDS: Final = 0.005
_END_TO_END: Final = re.compile(r"Avg latency: ([\d.]+) ms")
_PERCENTILES: Final = re.compile(r"99th = (\d+)")


@dataclass(frozen=True, slots=True)
class ClusterSizes:
    """How much is done. limit_s bounds one load of records; partitions: at the start of a whole cluster."""

    repeats: int
    records: int
    limit_s: float
    round_trips: int
    failures: int
    topics: int
    partitions: int
    dead_partitions: int

    @property
    def counts(self) -> dict[str, int]:
        """Give what the rows' titles name."""
        return {"topics": self.topics, "partitions": self.partitions, "dead_partitions": self.dead_partitions}


FULL: Final = ClusterSizes(3, 500_000, 20, 5_000, 3, 1_000, 10_000, 1_000)
QUICK: Final = ClusterSizes(1, 50_000, 8, 500, 1, 100, 1_000, 100)

Say = Callable[[str], None]


def measure_cluster(kafka: bool, sizes: ClusterSizes, results: Results, say: Say) -> None:
    """Measure one system: Apache Kafka or Barnabas."""
    with _cluster(kafka) as made:
        ClusterLoads(made, sizes, results, say).run()
    with _cluster(kafka) as made:
        ClusterLoads(made, sizes, results, say).start_with_many()


@contextmanager
def _cluster(kafka: bool) -> Iterator[ProcessCluster]:
    def software(node_id: int) -> Software:
        return ApacheKafka(KAFKAS_JVM) if kafka else Barnabas()

    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work,
        ProcessCluster(
            Path(work), controllers=NODES, brokers=NODES, plaintext=True, software=software, features=_common_features()
        ) as made,
    ):
        yield made


def _common_features() -> dict[str, int]:
    """Give the levels that both run with."""
    return {"share.version": 0, "streams.version": 0, "transaction.version": 0}


class ClusterLoads:
    """The loads on one running cluster, in an order in which none spoils the next."""

    def __init__(self, cluster: ProcessCluster, sizes: ClusterSizes, results: Results, say: Say) -> None:
        self._cluster = cluster
        self._sizes = sizes
        self._results = results
        self._say = say

    def run(self) -> None:
        """Run all but the start, which wants a cluster of its own."""
        self._cluster.create_topic("copies", PARTITIONS, NODES)
        self._records()
        self._end_to_end()
        for _ in range(self._sizes.failures):
            self._lose_controller()
        for number in range(self._sizes.failures):
            self._lose_leader(f"led-{number}")
        for role, nodes in (("controller", self._cluster.controllers), ("broker", self._cluster.brokers)):
            for node in nodes:
                self._note(f"cluster-rss-{role}", node.rss_bytes() / 1e6)
        self._create_topics()
        self._bury_leader()

    def _note(self, key: str, value: float) -> None:
        self._results.setdefault(key, Measured()).values.append(value)

    def _records(self) -> None:
        library, sizes, config = Librdkafka(), self._sizes, self._cluster.librdkafka()
        small = max(sizes.records // 10, 1)
        library.produce(config, "copies", records=small, size=1000, limit_s=sizes.limit_s)
        for _ in range(sizes.repeats):
            self._say("  cluster-produce-1k")
            rate = library.produce(config, "copies", records=sizes.records, size=1000, limit_s=sizes.limit_s)
            self._note("cluster-produce-1k", rate.mb_per_second)
        for _ in range(sizes.repeats):
            self._say("  cluster-fetch-1k")
            fetched = library.fetch(
                config, "copies", partitions=PARTITIONS, records=sizes.records, size=1000, limit_s=sizes.limit_s
            )
            self._note("cluster-fetch-1k", fetched.mb_per_second)

    def _end_to_end(self) -> None:
        self._cluster.create_topic("round-trips", 1, NODES)
        for _ in range(self._sizes.repeats):
            self._say("  cluster-latency")
            printed = run_java(
                "org.apache.kafka.tools.EndToEndLatency",
                *(self._cluster.bootstrap, "round-trips", str(self._sizes.round_trips), "all", "100"),
            )
            average, percentile = _END_TO_END.search(printed), _PERCENTILES.search(printed)
            if average is None or percentile is None:
                raise RuntimeError(f"EndToEndLatency printed no latency:\n{printed}")
            self._note("cluster-latency", float(average[1]))
            self._note("cluster-latency-p99", float(percentile[1]))

    # --- failures

    def _lose_controller(self) -> None:
        self._say("  failover-controller")
        dead = self._cluster.active_controller()
        with _Changes(self._cluster, "copies") as client:
            client.wait_for_success(time.monotonic())
            self._note("failover-controller", client.wait_for_success(_killed(dead)))
        dead.start()

    def _lose_leader(self, topic: str) -> None:
        self._say("  failover-leader")
        self._cluster.create_topic(topic, 1, NODES)
        dead = self._cluster.leader(topic)
        with _Writes(self._cluster, topic) as client:
            client.wait_for_success(time.monotonic())
            self._note("failover-leader", client.wait_for_success(_killed(dead)))
        dead.start()
        self._whole(topic)

    def _bury_leader(self) -> None:
        """All partitions have the same first replica; when it dies, each gets another leader."""
        self._say("  elect-many")
        first, *others = [n.node_id for n in self._cluster.brokers]
        count = self._sizes.dead_partitions
        topic = NewTopic("buried", assignments={p: [first, *others] for p in range(count)})
        self._created([topic])
        self._led("buried", count, without=-1)
        dead = self._cluster.node(first)
        begun = _killed(dead)
        self._led("buried", count, without=first)
        self._note("elect-many", time.monotonic() - begun)
        dead.start()

    # --- many things

    def _create_topics(self) -> None:
        self._say("  create-topics")
        names = [f"many-{number}" for number in range(self._sizes.topics)]
        begun = time.monotonic()
        for start in range(0, len(names), TOPICS_A_REQUEST):
            self._created([NewTopic(name, 1, NODES) for name in names[start : start + TOPICS_A_REQUEST]])
        self._note("create-topics", time.monotonic() - begun)

    def start_with_many(self) -> None:
        """Measure how long the whole cluster takes to start with many partitions, of one replica each."""
        self._say("  start-many")
        count = self._sizes.partitions
        for number in range(10):
            self._created([NewTopic(f"wide-{number}", count // 10, 1)])
        self._led("wide-9", count // 10, without=-1)
        self._cluster.stop()
        begun = time.monotonic()
        self._cluster.start()
        for number in range(10):
            self._led(f"wide-{number}", count // 10, without=-1)
        self._note("start-many", time.monotonic() - begun)
        for node in self._cluster.brokers:
            self._note("cluster-rss-many", node.rss_bytes() / 1e6)

    def _created(self, topics: Sequence[NewTopic]) -> None:
        for error in self._cluster.ask(lambda admin: admin.create_topics(topics)).values():
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # by an attempt that was slow
                raise error

    def _led(self, topic: str, partitions: int, *, without: int) -> None:
        """Wait until every partition has a leader, another than `without`."""

        async def wait(admin: Admin) -> None:
            until = time.monotonic() + LIMIT_SECONDS
            while True:
                info = (await admin.topics()).get(topic)
                leaders = [p.leader for p in info.partitions.values()] if info is not None else []
                if len(leaders) == partitions and without not in leaders and min(leaders) >= 0:
                    return
                if time.monotonic() > until:
                    raise TimeoutError(f"{topic} does not have all its leaders after {LIMIT_SECONDS:g} s")
                await asyncio.sleep(_PAUSE_SECONDS)

        living = ",".join(n.bootstrap for n in self._cluster.brokers if n.running)
        self._cluster.ask(wait, living)

    def _whole(self, topic: str) -> None:
        """Wait until every replica is in sync again."""

        async def in_sync(admin: Admin) -> bool:
            info = (await admin.topics())[topic]
            return all(len(p.isr) == len(p.replicas) for p in info.partitions.values())

        self._cluster.wait_for(lambda: self._cluster.ask(in_sync), bool, f"{topic} is in sync")


def _killed(node: NodeProcess) -> float:
    at = time.monotonic()
    node.kill()
    return at


class _Client:
    """A client that does one thing after the other in a thread, and knows when each succeeded."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._success = threading.Condition()
        self._last = (0.0, 0.0)

    def __enter__(self) -> _Client:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(LIMIT_SECONDS)

    def wait_for_success(self, since: float) -> float:
        """Wait for something that began after `since` and succeeded; give the seconds from then to its success."""
        with self._success:
            if not self._success.wait_for(lambda: self._last[0] >= since, LIMIT_SECONDS):
                raise TimeoutError(f"nothing succeeded for {LIMIT_SECONDS:g} s")
            return self._last[1] - since

    def _succeeded(self, begun: float) -> None:
        with self._success:
            if begun >= self._last[0]:
                self._last = (begun, time.monotonic())
            self._success.notify_all()

    def _run(self) -> None:
        raise NotImplementedError


class _Changes(_Client):
    """Changes a topic's configuration, again and again."""

    def __init__(self, cluster: ProcessCluster, topic: str) -> None:
        super().__init__()
        self._config = ClientConfig.from_properties({**cluster.client(), "request.timeout.ms": "2000"})
        self._resource = ConfigResource(ConfigResourceType.TOPIC, topic)

    def _run(self) -> None:
        asyncio.run(self._change())

    async def _change(self) -> None:
        number = 0
        async with Admin(self._config) as admin:
            while not self._stopping.is_set():
                number += 1
                begun = time.monotonic()
                wanted = ConfigChange("retention.ms", AlterConfigOp.SET, str(86_400_000 + number))
                try:
                    outcome = await admin.incremental_alter_configs({self._resource: [wanted]})
                    if outcome[self._resource] is None:
                        self._succeeded(begun)
                except (ApiError, ChannelError):
                    pass  # it tries again, as clients do
                await asyncio.sleep(_PAUSE_SECONDS)


class _Writes(_Client):
    """Writes records by librdkafka, a new one every few milliseconds."""

    def __init__(self, cluster: ProcessCluster, topic: str) -> None:
        super().__init__()
        self._topic = topic
        self._producer = confluent_kafka.Producer({**cluster.librdkafka(), "acks": "all", "linger.ms": 0})

    def _run(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()

            def told(error: object, _: object, begun: float = begun) -> None:
                if error is None:
                    self._succeeded(begun)

            self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=told)
            self._producer.poll(_PAUSE_SECONDS)
        self._producer.flush(LIMIT_SECONDS)
