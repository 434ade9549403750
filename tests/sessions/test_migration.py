"""From sessions without an end to sessions with one, broker by broker, under clients that work all the time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer
from kafka import KafkaProducer

from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer
from barnabas.server.node import Node
from barnabas.testing.local import LocalCluster, LocalNode
from tests.clients.nodes import until
from tests.mixed.walks import in_sync, read_all

from .nodes import WorkingClock

# kafka-python leaves the sockets of refused connections to the collector: they are collected here, in the test.
pytestmark = [
    pytest.mark.peer,
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIFE_MS: Final = 4000
TOPIC: Final = "migrated"
BROKERS: Final = 3
REPLICAS: Final = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
NO_REAUTH: Final = "successful-authentication-no-reauth-total"
CLEAN: Final = (NO_REAUTH, "failed-reauthentication-total", "expired-connections-killed-count")


def counts(node: LocalNode, name: str) -> float:
    """Give a count over all listeners of a node, as seen on its own loop."""

    async def look() -> float:
        beans = dict(node.node.metrics.registry.values("kafka.server:type=socket-server-metrics*networkProcessor=0"))
        return sum(float(bean[name]) for tags, bean in beans.items() if "Software" not in tags and name in bean)

    return asyncio.run_coroutine_threadsafe(look(), node.node.loop).result(30)


class Load:
    """Three kinds of clients that write numbered records, each to a partition of its own, until they are stopped."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.sent = [0, 0, 0]
        self.failures: list[Any] = []
        self._stop = threading.Event()
        work = (self._librdkafka, self._kafka_python, lambda: asyncio.run(self._ours()))
        self._threads = [threading.Thread(target=self._guarded, args=(one,)) for one in work]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as e:  # noqa: BLE001 - told to the test, in whose thread it is raised
            self.failures.append(e)

    def _next(self, partition: int) -> bytes:
        self.sent[partition] += 1
        return b"%d" % (self.sent[partition] - 1)

    def _librdkafka(self) -> None:
        producer = LibrdkafkaProducer({**self.cluster.librdkafka(), "enable.idempotence": True, "linger.ms": 0})
        while not self._stop.wait(0.02):
            producer.produce(
                TOPIC, self._next(0), partition=0, on_delivery=lambda e, _: self.failures.append(e) if e else None
            )
            producer.poll(0)
        if left := producer.flush(60):
            self.failures.append(f"{left} records are left")

    def _kafka_python(self) -> None:
        producer = KafkaProducer(**self.cluster.admin.kafka_python, acks="all", enable_idempotence=True)
        while not self._stop.wait(0.02):
            producer.send(TOPIC, self._next(1), partition=1).add_errback(self.failures.append)
        producer.flush(60)
        producer.close()

    async def _ours(self) -> None:
        async with Producer(ClientConfig.from_properties(self.cluster.client())) as producer:
            while not self._stop.is_set():
                await (await producer.send(TOPIC, self._next(2), partition=2))
                await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _collect_leaks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    # What kafka-python has logged holds errors, and these their tracebacks with the sockets.
    for when in ("setup", "call"):
        caplog.get_records(when).clear()
    gc.collect()


@contextmanager
def loaded(cluster: LocalCluster) -> Iterator[Load]:
    load = Load(cluster)
    load.start()
    try:
        yield load
    finally:
        load.stop()


def grown(load: Load) -> None:
    """Wait until every client has got on."""
    before = list(load.sent)
    until(lambda: list(load.sent), lambda now: all(b > a + 20 for a, b in zip(before, now, strict=True)), 60)


@pytest.mark.requirement("R-29")
async def test_sessions_get_an_end_while_clients_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with WorkingClock() as clock:
        monkeypatch.setattr("barnabas.testing.local.Node", partial(Node, conduct=clock))
        with LocalCluster(tmp_path, controllers=1, brokers=BROKERS) as cluster:
            await asyncio.to_thread(migrate, cluster)


def migrate(cluster: LocalCluster) -> None:
    assert cluster.ask(lambda admin: admin.create_topics([NewTopic(TOPIC, assignments=REPLICAS)])) == {TOPIC: None}
    cluster.ask(lambda admin: in_sync(admin, TOPIC, REPLICAS))
    with loaded(cluster) as load:
        grown(load)
        # Who would be cut off can be seen before anybody is.
        assert [counts(node, NO_REAUTH) for node in cluster] == [0] * (BROKERS + 1)
        for node in (*cluster.controllers, *cluster.brokers):
            cluster.plan.write(node.plan, {"connections.max.reauth.ms": str(LIFE_MS)})
            node.restart()
            grown(load)
        # So that clients have something to do with every broker again.
        cluster.ask(lambda admin: in_sync(admin, TOPIC, REPLICAS))
        renewed = "successful-reauthentication-total"
        for broker in cluster.brokers:
            until(lambda broker=broker: counts(broker, renewed), lambda count: count >= 6, 60)  # type: ignore[misc]
        found = {name: [counts(node, name) for node in cluster] for name in CLEAN}
    assert load.failures == []
    assert found == {name: [0] * (BROKERS + 1) for name in CLEAN}
    written = asyncio.run(read_all(cluster, TOPIC, dict(enumerate(load.sent))))  # type: ignore[arg-type]
    for partition, count in enumerate(load.sent):
        assert written[partition] == [b"%d" % n for n in range(count)]
