"""aiokafka against nodes of ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    ProducerFenced,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

from barnabas.model import acl
from tests.clients.nodes import ServedNode
from tests.peers.eventually import eventually

pytestmark = [
    pytest.mark.peer,
    # aiokafka lets transports go that it has closed without waiting for their end.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
WAIT_S = 120


@pytest.fixture(params=["plain", "secured"])
def node(request: pytest.FixtureRequest) -> ServedNode:
    found: ServedNode = request.getfixturevalue(request.param)
    return found


async def create(node: ServedNode, name: str, partitions: int = 1) -> None:
    admin = AIOKafkaAdminClient(**node.aiokafka())
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(name, partitions, 1)])
        code = response.topic_errors[0][1]
        if code == TopicAlreadyExistsError.errno:
            raise TopicAlreadyExistsError(name)
        assert code == 0
    finally:
        await admin.close()


async def consume(consumer: Any, count: int) -> list[Any]:
    async with asyncio.timeout(WAIT_S):
        return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_come_back(node: ServedNode, name: str, codec: str | None) -> None:
    await create(node, name)
    async with AIOKafkaProducer(**node.aiokafka(), compression_type=codec, enable_idempotence=True) as producer:
        sent = [
            await producer.send(name, key=f"k{i}".encode(), value=b"v" * i, headers=[("h", b"\x01"), ("h", b"\x02")])
            for i in range(200)
        ]
        assert [(await s).offset for s in sent] == list(range(200))
    consumer = AIOKafkaConsumer(name, **node.aiokafka(), group_id=name, auto_offset_reset="earliest")
    async with consumer:
        got = await consume(consumer, 200)
    assert [(m.offset, m.key, m.value) for m in got] == [(i, f"k{i}".encode(), b"v" * i) for i in range(200)]
    assert list(got[0].headers) == [("h", b"\x01"), ("h", b"\x02")]


async def test_a_group_goes_on_where_it_committed(node: ServedNode, name: str) -> None:
    await create(node, name)
    async with AIOKafkaProducer(**node.aiokafka()) as producer:
        for i in range(6):
            await producer.send_and_wait(name, str(i).encode(), timestamp_ms=1_700_000_000_000 + i * 1000)
    how: dict[str, Any] = {"group_id": name, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    partition = TopicPartition(name, 0)
    async with AIOKafkaConsumer(name, **node.aiokafka(), **how) as first:
        assert [m.value for m in await consume(first, 2)] == [b"0", b"1"]
        await first.commit({partition: 2})
    async with AIOKafkaConsumer(name, **node.aiokafka(), **how) as second:
        assert [m.value for m in await consume(second, 4)] == [b"2", b"3", b"4", b"5"]
        found = (await second.offsets_for_times({partition: 1_700_000_002_500}))[partition]
        assert found is not None
        assert found.offset == 3
        second.seek(partition, found.offset)
        assert (await consume(second, 1))[0].value == b"3"
        assert await second.end_offsets([partition]) == {partition: 6}


async def test_transactions(node: ServedNode, name: str) -> None:
    """Commits, aborts, sends a group's offsets, and is fenced."""
    await create(node, name)
    transactional = {**node.aiokafka(), "transactional_id": name}
    where = TopicPartition(name, 0)
    async with (
        AIOKafkaProducer(**transactional) as producer,
        AIOKafkaConsumer(
            name, **node.aiokafka(), group_id=name, isolation_level="read_committed", auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):  # fmt: skip
        for value in (b"committed", b"too"):
            async with producer.transaction():
                await producer.send_and_wait(name, value)
            await producer.begin_transaction()
            await producer.send_and_wait(name, b"aborted")
            await producer.abort_transaction()
        assert [record.value for record in await consume(consumer, 2)] == [b"committed", b"too"]
        for commits in (False, True):
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({where: 4}, name)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
            await eventually(lambda: consumer.committed(where), 4 if commits else None)
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"by a zombie")
        async with AIOKafkaProducer(**transactional) as successor:
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
            async with successor.transaction():
                await successor.send_and_wait(name, b"by its successor")
        assert [record.value for record in await consume(consumer, 1)] == [b"by its successor"]


async def test_administration(node: ServedNode, name: str) -> None:
    await create(node, name, 2)
    with pytest.raises(TopicAlreadyExistsError):
        await create(node, name)
    admin = AIOKafkaAdminClient(**node.aiokafka())
    await admin.start()
    (described,) = await admin.describe_topics([name])
    assert len(described["partitions"]) == 2
    await admin.delete_topics([name])
    assert name not in await admin.list_topics()
    await admin.close()


async def test_a_wrong_password_is_refused(secured: ServedNode) -> None:
    producer = AIOKafkaProducer(**secured.aiokafka("admin", "guess"))
    since = len(secured.log())
    with pytest.raises(KafkaConnectionError):
        await producer.start()
    await producer.stop()
    assert "login failed" in secured.wait_for_log(lambda text: "login failed" in text, since)


async def test_without_rules_nothing_goes(secured: ServedNode, name: str) -> None:
    await create(secured, name)
    user = await asyncio.to_thread(secured.add_user, name)
    async with AIOKafkaProducer(**secured.aiokafka(user)) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait(name, b"x")
    await asyncio.to_thread(secured.allow, user, acl.AclOperation.READ, acl.ResourceType.TOPIC, name)
    consumer = AIOKafkaConsumer(name, **secured.aiokafka(user), group_id=name)
    with pytest.raises(GroupAuthorizationFailedError):
        await consumer.start()
    await consumer.stop()
