"""Internal topics on a node of ours: made, refused, read to the end, followed, and lost writes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
import structlog

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.topic_log import InternalTopic, LogRecord, TopicLog
from barnabas.core.connect.records import Record
from barnabas.model.config import ConfigError
from tests.connect.workers import until
from tests.peers.eventually import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def config(bootstrap: str) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": bootstrap, "retry.backoff.ms": "10"})


@pytest.fixture
async def admin(config: ClientConfig) -> AsyncIterator[Admin]:
    async with Admin(config) as admin:
        yield admin


def topic(**more: object) -> InternalTopic:
    name = f"internal-{uuid.uuid4().hex[:10]}"
    return InternalTopic(name, "config.storage.topic", "connectors", 1, 1, **more)  # type: ignore[arg-type]


async def test_a_missing_topic_is_made_compacted_with_the_settings_asked_for(
    config: ClientConfig, admin: Admin
) -> None:
    wanted = topic(settings={"segment.bytes": "1048576", "cleanup.policy": "delete"})
    async with TopicLog(config, wanted, lambda record: None):
        pass
    resource = ConfigResource(ConfigResourceType.TOPIC, wanted.name)
    described = (await admin.describe_configs([resource], keys=["cleanup.policy", "segment.bytes"]))[resource]
    assert isinstance(described, list)
    assert {c.name: c.value for c in described} == {"cleanup.policy": "compact", "segment.bytes": "1048576"}


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_a_topic_that_forgets_is_refused(config: ClientConfig, admin: Admin, policy: str) -> None:
    wanted = topic()
    await admin.create_topics([NewTopic(wanted.name, 1, 1, configs={"cleanup.policy": policy})])
    with pytest.raises(ConfigError, match=f"config.storage.topic={wanted.name}.*cleanup.policy={policy}"):
        await TopicLog(config, wanted, lambda record: None).open()


async def test_a_config_topic_of_two_partitions_is_refused(config: ClientConfig, admin: Admin) -> None:
    wanted = topic(single=True)
    await admin.create_topics([NewTopic(wanted.name, 2, 1, configs={"cleanup.policy": "compact"})])
    log = TopicLog(config, wanted, lambda record: None)
    with pytest.raises(ConfigError, match="2 partitions"):
        await log.open()


async def test_a_replication_factor_that_cannot_be_is_said_with_the_topics_setting(config: ClientConfig) -> None:
    wanted = InternalTopic("never-made", "status.storage.topic", "statuses", 1, 3)
    log = TopicLog(config, wanted, lambda record: None)
    with pytest.raises(ConfigError, match=r"status\.storage\.topic=never-made.*[Rr]eplication"):
        await log.open()


async def test_everybody_reads_what_anybody_writes(config: ClientConfig) -> None:
    wanted = topic()
    first: list[LogRecord] = []
    second: list[LogRecord] = []
    async with TopicLog(config, wanted, first.append) as one, asyncio.timeout(30):
        await one.append([Record(b"k%d" % n, b"v%d" % n) for n in range(100)])
        await one.read_to_end()
        assert [(r.offset, r.key, r.value) for r in first] == [(n, b"k%d" % n, b"v%d" % n) for n in range(100)]
        async with TopicLog(config, wanted, second.append) as two:
            assert second == first
            await two.append([Record(b"k1", None)])
            await one.read_to_end()
            await two.read_to_end()
            assert first[-1] == second[-1] == LogRecord(0, 100, first[-1].timestamp_ms, b"k1", None)


async def test_a_topic_that_is_deleted_is_not_made_anew_by_writing_to_it(config: ClientConfig, admin: Admin) -> None:
    hasty = config.with_properties(max_block_ms="300", delivery_timeout_ms="1000")
    wanted = topic()
    async with TopicLog(config, wanted, lambda record: None) as log:
        await log.append([Record(b"a", b"1")])
    async with TopicLog(hasty, wanted, lambda record: None) as log, asyncio.timeout(60):
        await admin.delete_topics([wanted.name])
        with pytest.raises(WriteFailedError, match=f"topic '{wanted.name}' did not take a record"):
            await _append_on_and_on(log)  # the broker may take some more before it has heard

        async def is_there() -> bool:
            return wanted.name in await admin.topics()

        await eventually(is_there, False)  # what failed may have been late rather than refused


async def test_a_topic_that_was_made_anew_is_told_and_read_from_its_beginning(
    config: ClientConfig, admin: Admin
) -> None:
    seen: list[LogRecord] = []
    wanted = topic()
    with structlog.testing.capture_logs() as lines:
        async with TopicLog(config, wanted, seen.append) as log, asyncio.timeout(60):
            await log.append([Record(b"a", b"1"), Record(b"b", b"2")])
            await log.read_to_end()
            await admin.delete_topics([wanted.name])
            await admin.create_topics([NewTopic(wanted.name, 1, 1, configs={"cleanup.policy": "compact"})])
            async with TopicLog(config, wanted, lambda record: None) as other:
                await other.append([Record(b"c", b"3")])
            await until(lambda: len(seen) == 3)
    assert [r.key for r in seen] == [b"a", b"b", b"c"]
    (told,) = [line for line in lines if "made anew" in line["event"]]
    assert (told["log_level"], told["key"], told["lost"]) == ("error", "config.storage.topic", "connectors")


async def _append_on_and_on(log: TopicLog) -> None:
    while True:
        await log.append([Record(b"b", b"2")])


async def test_a_write_that_fails_is_told_and_the_log_still_read(config: ClientConfig) -> None:
    """One that is too large is refused; reading and writing go on."""
    seen: list[LogRecord] = []
    async with TopicLog(config, topic(), seen.append) as log, asyncio.timeout(30):
        await log.append([Record(b"a", b"1")])
        with pytest.raises(WriteFailedError):
            await log.append([Record(b"b", b"x" * 2_000_000)])
        await log.read_to_end()
        await log.append([Record(b"c", b"3")])
        await log.read_to_end()
    assert [r.key for r in seen] == [b"a", b"c"]
