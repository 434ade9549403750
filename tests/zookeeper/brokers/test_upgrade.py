"""Two-step upgrade: first the software of each broker, then `inter.broker.protocol.version`, while admins work on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final, Self

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewTopic as Topic

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.config import ClientConfig
from barnabas.model.acl import ResourceType
from barnabas.net.client import ChannelError
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from tests.peers.eventually import eventually
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, OURS, ZooKeeperCluster, chosen

from .admins import do
from .traffic import Traffic
from .workload import rule, set_to

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

CHROOT: Final = "/upgrade"
OLD, NEW = "2.8", "3.9"
_WAIT_S: Final = 120.0
_PACE_S: Final = 0.05


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    """Give two brokers of Kafka's that speak as those of an older release did."""
    jaas, old = zookeeper.client_jaas(), {"inter.broker.protocol.version": OLD}
    with ZooKeeperCluster(
        tmp_path, zookeeper, CHROOT, [KAFKA, KAFKA], jaas=jaas, set_acl=True, tapped=True, properties=old
    ) as found:
        yield found


class AdminLoad:
    """Changes something all the time through one broker. It may be away, but what it answers must not be an error."""

    def __init__(self, broker: ZooKeeperBroker) -> None:
        self._broker = broker
        self._topic = f"through-{broker.broker_id}"
        self._done = 0
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"admin-{broker.broker_id}")

    def __enter__(self) -> Self:
        # Before any broker is away: the topic wants both.
        wanted = [Topic(self._topic, 1, 2)]
        do(self._broker.librdkafka(), lambda admin: admin.create_topics(wanted), KafkaError.TOPIC_ALREADY_EXISTS)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_WAIT_S)

    def go_on(self) -> None:
        """Wait until a round is done that was not begun yet."""
        with self._changed:
            wanted = self._done + 2
            in_time = self._changed.wait_for(lambda: self._done >= wanted or self._failure, _WAIT_S)
        if self._failure is not None:
            raise AssertionError(f"broker {self._broker.broker_id}: {self._failure!r}") from self._failure
        assert in_time, f"broker {self._broker.broker_id} changes nothing any more"

    def _work(self) -> None:
        try:
            for number in count():
                if self._stop.is_set():
                    return
                try:
                    asyncio.run(self._change(self._topic, number))
                except (ChannelError, ApiError) as e:
                    if isinstance(e, ApiError) and e.code != ErrorCode.STALE_CONTROLLER_EPOCH:
                        raise
                    self._stop.wait(_PACE_S)  # it is restarted, or for a moment there is no controller
                    continue
                with self._changed:
                    self._done += 1
                    self._changed.notify_all()
                self._stop.wait(_PACE_S)
        except BaseException as e:
            with self._changed:
                self._failure = e
                self._changed.notify_all()
            raise

    async def _change(self, topic: str, number: int) -> None:
        """Have this very broker change what any broker may be asked to."""
        settings = {**self._broker.client_properties(), "default.api.timeout.ms": "20000"}
        async with Admin(ClientConfig.from_properties(settings)) as admin:
            await eventually(lambda: _knows(admin, topic), True, _WAIT_S)  # it may have come, or started, just now
            what = ConfigResource(ConfigResourceType.TOPIC, topic)
            value = str(7_000_000 + number)
            made = rule(ResourceType.TOPIC, topic, who=f"u{number}")
            done = await admin.incremental_alter_configs({what: [set_to("retention.ms", value)]})
            for error in (*done.values(), *await admin.create_acls([made])):
                if error is not None:
                    raise error
            await admin.alter_quotas({"user": topic}, {"producer_byte_rate": 1e6 + number})
            # Sent on again when the controller moves before it answers, it finds nothing to delete any more.
            assert await admin.delete_acls([made.as_filter]) in ([made], [])
            await eventually(lambda: admin.describe_acls(made.as_filter), [], _WAIT_S)


async def _knows(admin: Admin, topic: str) -> bool:
    """Say whether the broker that is asked has heard of the topic."""
    return topic in await admin.topics()


def make_topic(broker: ZooKeeperBroker, name: str) -> None:
    """Make a topic as programs do, through any broker."""
    wanted = [Topic(name, 1, 1)]
    do(broker.librdkafka(), lambda admin: admin.create_topics(wanted), KafkaError.TOPIC_ALREADY_EXISTS)


@pytest.mark.requirement("F-42")
def test_brokers_forward_after_the_second_step_only(cluster: ZooKeeperCluster) -> None:
    one, other = cluster.brokers
    made = count()
    with (
        Traffic(cluster.librdkafka, "loaded", replicas=2) as traffic,
        AdminLoad(one) as first,
        AdminLoad(other) as second,
    ):

        def work_on() -> None:
            traffic.go_on()
            for broker, load in ((one, first), (other, second)):
                if broker.process.running:
                    load.go_on()
            make_topic(next(b for b in cluster.brokers if b.process.running), f"made-{next(made)}")

        def new_software(broker: ZooKeeperBroker) -> None:
            broker.ours = chosen(OURS)

        def new_protocol(broker: ZooKeeperBroker) -> None:
            broker.properties = {**broker.properties, "inter.broker.protocol.version": NEW}

        cluster.roll(new_software, work_on)
        forget(cluster)
        work_on()
        assert writers(cluster) == {0, 1}
        assert not envelopes(cluster)

        cluster.roll(new_protocol, work_on)
        forget(cluster)
        work_on()
        assert writers(cluster) == {cluster.controller().broker_id}
        assert envelopes(cluster)
        traffic.caught_up()


def forget(cluster: ZooKeeperCluster) -> None:
    for tap in cluster.zookeeper_taps:
        tap.forget()


def writers(cluster: ZooKeeperCluster) -> set[int]:
    """Give the brokers that have written configs and rules."""
    taps = enumerate(cluster.zookeeper_taps)
    return {number for number, tap in taps if tap.writes(cluster.chroot, ["/config/topics", "/kafka-acl"])}


def envelopes(cluster: ZooKeeperCluster) -> bool:
    """Say whether there has been an Envelope, ever."""
    return any(one.api_key == ApiKey.ENVELOPE for tap in cluster.kafka_taps for one in tuple(tap.requests))
