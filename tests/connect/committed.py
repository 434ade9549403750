"""What somebody sees of a topic who reads committed transactions alone, and a preflight that grants everything."""

from __future__ import annotations

from barnabas.client.admin.topics import NewTopic, OffsetSpec, TopicsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError
from tests.peers.eventually import eventually


class Granted:
    """A preflight of a task that nothing keeps from beginning."""

    async def fence(self) -> None:
        """Return at once."""

    async def check(self) -> None:
        """Return at once."""


async def make_topics(bootstrap: str, *names: str) -> None:
    """Make topics of one partition."""
    async with Cluster(ClientConfig.from_properties({"bootstrap.servers": bootstrap})) as cluster:
        outcomes = await TopicsAdmin(cluster).create_topics([NewTopic(name, 1, 1) for name in names])
    assert set(outcomes.values()) == {None}, outcomes


async def committed(bootstrap: str, topic: str) -> list[str]:
    """Give the values of a topic of one partition, up to the first transaction that is open."""
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"})
    async with Cluster(config) as cluster:
        return await _read(config, topic, await _end(cluster, topic, read_committed=True))


async def decided(bootstrap: str, topic: str) -> list[str]:
    """Give the same once no transaction is open: who ends one hears of it before the partition does."""
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"})
    async with Cluster(config) as cluster:

        async def open_records() -> int:
            stable = await _end(cluster, topic, read_committed=True)
            return await _end(cluster, topic, read_committed=False) - stable

        await eventually(open_records, 0)
        return await _read(config, topic, await _end(cluster, topic, read_committed=True))


async def _end(cluster: Cluster, topic: str, *, read_committed: bool) -> int:
    partition = TopicPartition(topic, 0)
    asked = {partition: int(OffsetSpec.LATEST)}
    listed = await TopicsAdmin(cluster).list_offsets(asked, read_committed=read_committed, patient=True)
    end = listed[partition]
    if isinstance(end, ApiError):
        raise end
    return end.offset


async def _read(config: ClientConfig, topic: str, end: int) -> list[str]:
    found, position = list[str](), 0
    async with PartitionFetcher(config) as fetcher:
        fetcher.assign({TopicPartition(topic, 0): 0})
        while position < end:
            for batches in await fetcher.fetch(500):
                position = batches.next
                found += [value.decode() for value in batches.columns().values if value is not None]
    return found
