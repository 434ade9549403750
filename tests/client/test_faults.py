"""Clients over restarts of a real Apache Kafka, and over the end of their SASL sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.client.producer import Producer
from barnabas.model.config import Password
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import AuthenticationError
from tests.peers.eventually import eventually
from tests.peers.kafka import RealKafka

pytestmark = pytest.mark.peer
COUNT = 6000
TOPIC = "restarted"
SESSION_S = 10
"""A client renews its session when 85 to 95 % of it are over: a busy broker must hear of it in the rest."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Give a node of these tests' own, whose SASL sessions last ten seconds, and which may be killed."""
    node = RealKafka(
        tmp_path_factory.mktemp("killed"),
        listeners=("PLAINTEXT", "SASL_PLAINTEXT"),
        properties={"connections.max.reauth.ms": str(SESSION_S * 1000)},
    )
    with node:
        yield node


async def test_no_record_is_lost_or_doubled_when_the_node_is_killed(kafka: RealKafka) -> None:
    config = ClientConfig.from_properties(kafka.client_properties(), batch_size="2000", delivery_timeout_ms="270000")
    async with Admin(config) as admin:
        await admin.create_topics([NewTopic(TOPIC, 2, 1)])
    async with Producer(config) as producer, PartitionFetcher(config) as fetcher, asyncio.timeout(270):
        partitions = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
        fetcher.assign(await fetcher.start_offsets(partitions, "earliest"))
        deliveries = []
        for n in range(COUNT):
            deliveries.append(await producer.send(TOPIC, b"%d" % n, partition=n % 2))
            if n == COUNT // 2:
                await deliveries[0]  # batches are under way now
                kafka.stop(kill=True)
                kafka.start()
        await producer.flush()
        for delivery in deliveries:
            await delivery
        values: dict[int, list[bytes | None]] = {0: [], 1: []}
        while sum(map(len, values.values())) < COUNT:
            for batches in await fetcher.fetch(500):
                values[batches.partition.partition] += batches.columns().values
    for partition, found in values.items():
        assert found == [b"%d" % n for n in range(partition, COUNT, 2)]


async def test_a_session_is_renewed_before_it_ends(kafka: RealKafka) -> None:
    config = ClientConfig.from_properties(kafka.client_properties("SASL_PLAINTEXT"))
    async with Admin(config) as admin, asyncio.timeout(120):
        channel = await admin.cluster.any_channel()
        loop = asyncio.get_running_loop()
        end = loop.time() + SESSION_S + 1
        while loop.time() < end:
            await asyncio.gather(*(admin.describe_cluster() for _ in range(3)))
        assert await admin.cluster.any_channel() is channel


async def test_a_renewal_that_is_refused_ends_the_connection(kafka: RealKafka) -> None:
    plain = ClientConfig.from_properties(kafka.client_properties())
    async with Admin(plain) as admin, asyncio.timeout(120):
        await admin.alter_scram([ScramUpsertion("fleeting", "SCRAM-SHA-512", Password("pw"))])
        theirs = kafka.client_properties("SASL_PLAINTEXT", "fleeting", "pw")
        async with Admin(ClientConfig.from_properties(theirs)) as fleeting:
            await eventually(lambda: is_let_in(fleeting), True)
            # Not by a deletion: a Kafka 4.3.1 that reads one together with the users of its log when it starts forgets
            # all users of the mechanism (ScramDelta.apply), and another test here starts this node again.
            await admin.alter_scram([ScramUpsertion("fleeting", "SCRAM-SHA-512", Password("another"))])
            with pytest.raises(AuthenticationError, match=r"authentication failed|Authentication failed"):
                await ask_for_ever(fleeting)


async def is_let_in(admin: Admin) -> bool:
    """Say whether the node knows the user by now: it learns of him a moment after the controller."""
    try:
        await admin.describe_cluster()
    except AuthenticationError:
        return False
    return True


async def ask_for_ever(admin: Admin) -> None:
    while True:
        await admin.describe_cluster()
