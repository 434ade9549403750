"""Brokers of ours that forward: who then writes to ZooKeeper, and who is sent an Envelope (KIP-590)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramUpsertion
from barnabas.core.forwarding.envelope import wrap
from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.model.acl import ResourceType
from barnabas.model.config import Password
from barnabas.model.principal import KafkaPrincipal
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.envelope import EnvelopeResponse
from tests.forwarding.scripted import client_request
from tests.peers.eventually import eventually
from tests.peers.kafka import ADMIN, ADMIN_PASSWORD
from tests.peers.kafka_zookeeper import NOBODY, NOBODY_PASSWORD, ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import OURS, WAIT_S, ZooKeeperCluster
from tests.server.frames import FramePeer
from tests.server.requests import build

from .workload import rule, set_to
from .znodes import read_tree

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

METADATA: Final = (
    "/admin", "/brokers/topics", "/config", "/delegation_token", "/kafka-acl", "/kafka-acl-changes",
    "/kafka-acl-extended", "/kafka-acl-extended-changes", "/latest_producer_id_block",
)  # fmt: skip
Call = Callable[[Admin], Awaitable[Any]]


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    """Give two brokers of ours behind proxies that write down what is asked."""
    folder, jaas = tmp_path_factory.mktemp("forwarding"), zookeeper.client_jaas()
    with ZooKeeperCluster(
        folder, zookeeper, "/forwarding", [OURS, OURS], jaas=jaas, set_acl=True, tapped=True
    ) as found:
        yield found


def requests(name: str) -> dict[str, Call]:
    """Give what changes something, and what is refused, in the order in which it is asked. name: of the topic."""
    topic = ConfigResource(ConfigResourceType.TOPIC, name)
    brokers = ConfigResource(ConfigResourceType.BROKER, "")
    return {
        "a topic": lambda a: a.create_topics([NewTopic(name, 1, 2), NewTopic("a b", 1, 1), NewTopic("many", 1, 9)]),
        "the topic again": lambda a: a.create_topics([NewTopic(name, 1, 2)]),
        "its partitions": lambda a: a.create_partitions(name, 3),
        "fewer partitions": lambda a: a.create_partitions(name, 1),
        "configs": lambda a: a.incremental_alter_configs({
            topic: [set_to("retention.ms", "7")],
            brokers: [set_to("log.retention.ms", "9000000")],
        }),
        "wrong configs": lambda a: a.incremental_alter_configs({topic: [set_to("retention.ms", "x")]}),
        "rules": lambda a: a.create_acls([rule(ResourceType.TOPIC, name), rule(ResourceType.CLUSTER, "no-such")]),
        "fewer rules": lambda a: a.delete_acls([rule(ResourceType.TOPIC, name).as_filter]),
        "limits": lambda a: a.alter_quotas({"user": name}, {"producer_byte_rate": 1e6}),
        "wrong limits": lambda a: a.alter_quotas({"user": name}, {"no_such_rate": 1e6}),
        "a user": lambda a: a.alter_scram([ScramUpsertion(name, "SCRAM-SHA-256", Password("pw"))]),
        "a wrong user": lambda a: a.alter_scram([ScramUpsertion(name, "SCRAM-SHA-256", Password("pw"), 1)]),
        "a token": lambda a: a.create_token(),
        "no such token": lambda a: a.renew_token(b"none"),
        "no topic": lambda a: a.delete_topics([name, f"no-{name}"]),
    }  # fmt: skip


async def answers(broker: ZooKeeperBroker, name: str) -> dict[str, Any]:
    """Give what this very broker answers; tokens and names are each time others."""
    found = {}
    async with Admin(broker.client_config()) as admin:
        for what, call in requests(name).items():
            try:
                answer = await call(admin)
            except ApiError as e:
                answer = e
            if isinstance(answer, dict):
                answer = sorted(answer.items(), key=str)
            found[what] = type(answer).__name__ if what == "a token" else str(answer).replace(name, "<name>")
            if what == "a topic":
                await eventually(lambda: is_known(admin, name), True, WAIT_S)
    return found


async def is_known(admin: Admin, name: str) -> bool:
    """Say whether the broker that is asked has heard of the topic."""
    return name in await admin.topics()


@pytest.mark.requirement("F-03", "F-06")
def test_only_the_controller_writes_and_its_own_clients_need_no_envelope(cluster: ZooKeeperCluster) -> None:
    told: list[dict[str, Any]] = []
    for controller in cluster.brokers:
        cluster.hand_over(controller)
        session = cluster.ask(session_of_the_controller)
        for broker in cluster.brokers:
            for ways in (cluster.zookeeper_taps, cluster.kafka_taps):
                for tap in ways:
                    tap.forget()
            told.append(asyncio.run(answers(broker, f"asked-{controller.broker_id}-of-{broker.broker_id}")))
            writers = {
                number: {one.session for one in tap.writes(cluster.chroot, METADATA)}
                for number, tap in enumerate(cluster.zookeeper_taps)
            }
            other = 1 - controller.broker_id
            assert writers == {controller.broker_id: {session}, other: set()}
            enveloped = {
                number: any(one.api_key == ApiKey.ENVELOPE for one in tap.requests)
                for number, tap in enumerate(cluster.kafka_taps)
            }
            assert enveloped == {controller.broker_id: broker is not controller, other: False}
    assert told[1:] == told[:1] * 3


async def session_of_the_controller(zk: ZooKeeperClient) -> int:
    """Give the session that has the role."""
    stat = await zk.exists("/controller")
    assert stat is not None
    return stat.ephemeral_owner


@pytest.mark.requirement("F-39")
def test_an_envelope_on_the_clients_own_listener_needs_the_brokers_right(cluster: ZooKeeperCluster) -> None:
    controller = cluster.controller()
    before = cluster.ask(read_tree)
    answer = enveloped(controller, NOBODY, NOBODY_PASSWORD)
    assert (answer.error_code, answer.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    answer = enveloped(cluster.brokers[1 - controller.broker_id], ADMIN, ADMIN_PASSWORD)
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)
    assert cluster.ask(read_tree) == before
    answer = enveloped(controller, ADMIN, ADMIN_PASSWORD)
    assert answer.error_code == ErrorCode.NONE
    assert answer.response_data is not None
    assert "/brokers/topics/enveloped" in cluster.ask(read_tree)


def enveloped(broker: ZooKeeperBroker, user: str, password: str) -> EnvelopeResponse:
    """Send an Envelope in which `admin` makes a topic, as this user."""
    topic = {"name": "enveloped", "num_partitions": 1, "replication_factor": 1}
    _, inner = client_request(build(ApiKey.CREATE_TOPICS, topics=[topic], timeout_ms=30_000), None)
    with FramePeer(broker.port) as peer:
        assert peer.login(user, password).error_code == ErrorCode.NONE
        envelope = wrap(inner, KafkaPrincipal("User", ADMIN), "127.0.0.1", DefaultPrincipalSerde())
        answer: EnvelopeResponse = peer.call(envelope, 0)
    return answer
