"""kill -9 on the whole node under load: what was acknowledged is there afterwards, records and metadata alike."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from operator import lt
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.clients.nodes import ServedNode, until

ROUNDS = 20
PARTITIONS = 4
TIMEOUT_S = 60
LEAST_BETWEEN_KILLS = 10
MOST_UNDER_WAY = 200


class Load:
    """One idempotent producer over all lives of the node, and changes of metadata beside it."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.topics: set[str] = set()
        self.rules: set[str] = set()
        self._numbers = 0
        self._stopped = threading.Event()
        quiet: dict[str, Any] = {**settings, "log_level": 0, "reconnect.backoff.max.ms": "100"}
        self._producer = Producer({**quiet, "enable.idempotence": True, "linger.ms": "1", "message.timeout.ms": "0"})
        self._admin = AdminClient(quiet)
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._change)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, and wait until all that was sent is acknowledged."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        assert self._producer.flush(TIMEOUT_S) == 0

    def count(self) -> int:
        """Give how many records have been acknowledged."""
        return len(self.acknowledged)

    def _produce(self) -> None:
        while not self._stopped.is_set():
            for _ in range(20 if len(self._producer) < MOST_UNDER_WAY else 0):
                self._numbers += 1
                self._producer.produce("load", str(self._numbers).encode(), on_delivery=self._delivered)
            self._producer.poll(0.01)

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged[message.value()] = (message.partition(), message.offset())

    def _change(self) -> None:
        number = 0
        while not self._stopped.wait(0.05):
            number += 1
            topic, principal = f"topic-{number}", f"User:user-{number}"
            rule = AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, principal, "*", AclOperation.READ,
                AclPermissionType.ALLOW,
            )  # fmt: skip
            made = self._admin.create_topics([NewTopic(topic, 1)], request_timeout=TIMEOUT_S)
            ruled = self._admin.create_acls([rule], request_timeout=TIMEOUT_S)
            if made[topic].exception() is None:
                self.topics.add(topic)
            if ruled[rule].exception() is None:
                self.rules.add(principal)


@pytest.mark.crash
def test_nothing_acknowledged_is_lost_when_the_node_is_killed(tmp_path: Path) -> None:
    rng = Random(11)
    with ServedNode(tmp_path) as node:
        admin = AdminClient(node.librdkafka())
        admin.create_topics([NewTopic("load", PARTITIONS)])["load"].result(TIMEOUT_S)
        load = Load(node.librdkafka())
        load.start()
        try:
            until(lambda: bool(load.topics and load.rules), bool)
            for _ in range(ROUNDS):
                until(load.count, partial(lt, load.count() + LEAST_BETWEEN_KILLS))
                threading.Event().wait(rng.uniform(0.05, 0.5))
                os.kill(node.pid, signal.SIGKILL)
                node.reap()
                node.start()
        finally:
            load.stop()
        found = everything(node)
        for value, place in load.acknowledged.items():
            assert found.get(value) == [place], f"{value!r} acknowledged at {place}, found at {found.get(value)}"
        assert sorted(len(places) for places in found.values())[-1] == 1
        assert load.topics <= set(admin.list_topics(timeout=TIMEOUT_S).topics)
        nobody_in_particular: Any = None
        everybody = AclBindingFilter(
            ResourceType.ANY,
            nobody_in_particular,
            ResourcePatternType.ANY,
            nobody_in_particular,
            nobody_in_particular,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        kept = {rule.principal for rule in admin.describe_acls(everybody, request_timeout=TIMEOUT_S).result()}
        assert load.rules <= kept
        assert len(load.acknowledged) > ROUNDS * LEAST_BETWEEN_KILLS
        assert load.topics
        assert load.rules


def everything(node: ServedNode) -> dict[bytes, list[tuple[int, int]]]:
    """Give where each record of the topic stands."""
    consumer = Consumer({**node.librdkafka(), "group.id": "checker", "enable.auto.commit": False})
    places = [TopicPartition("load", p, 0) for p in range(PARTITIONS)]
    left = {p.partition: consumer.get_watermark_offsets(p, TIMEOUT_S)[1] for p in places}
    consumer.assign(places)
    found: dict[bytes, list[tuple[int, int]]] = {}
    while any(left.values()):
        message: Any = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        found.setdefault(message.value(), []).append((message.partition(), message.offset()))
        if message.offset() + 1 >= left[message.partition()]:
            left[message.partition()] = 0
    consumer.close()
    return found
