"""Our clients at an Apache Kafka of the time before sessions had a life: 2.1, whose SaslAuthenticate has version 0."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.client.group_consumer import GroupConsumer
from barnabas.client.producer import Producer
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import ApiKey
from tests.peers.kafka_before_lifetimes import KafkaBeforeLifetimes

from .recorder import SASL, recorded

pytestmark = pytest.mark.peer
RECORDS = 100


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBeforeLifetimes]:
    with KafkaBeforeLifetimes(tmp_path_factory.mktemp("old"), advertised=free_ports(1)[0]) as node:
        yield node


@pytest.mark.requirement("R-23")
async def test_none_of_our_clients_logs_in_twice_where_nobody_can_be_told_to(kafka: KafkaBeforeLifetimes) -> None:
    config = ClientConfig.from_properties(
        {
            "bootstrap.servers": f"127.0.0.1:{kafka.advertised}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="root" '
            'password="root-secret";',
            "group.id": "old",
            "auto.offset.reset": "earliest",
            "linger.ms": "0",
        }
    )
    async with recorded("127.0.0.1", kafka.port, at=kafka.advertised) as tape, Admin(config) as admin:
        assert await admin.create_topics([NewTopic("old", 1, 1)]) == {"old": None}
        async with Producer(config) as producer, GroupConsumer(config, ["old"]) as consumer, asyncio.timeout(60):
            seen = 0
            for n in range(RECORDS):
                await (await producer.send("old", b"%d" % n))
            while seen < RECORDS:
                for batches in await consumer.poll(100):
                    seen += len(batches.columns().values)
            assert "old" in await admin.topics()
    shaken = [tape.requests(n).count(ApiKey.SASL_HANDSHAKE) for n in range(len(tape.connections))]
    proven = [tape.requests(n).count(ApiKey.SASL_AUTHENTICATE) for n in range(len(tape.connections))]
    assert shaken == proven == [1] * len(tape.connections)
    others = {key for n in range(len(tape.connections)) for key in tape.requests(n)} - SASL
    assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS, ApiKey.JOIN_GROUP} <= others
