"""What somebody sees of a topic who reads committed transactions alone, and a preflight that grants everything."""

from __future__ import annotations

from barnabas.client.admin.topics import NewTopic, OffsetSpec, TopicsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError


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
    partition, found, position = TopicPartition(topic, 0), list[str](), 0
    async with Cluster(config) as cluster, PartitionFetcher(config) as fetcher:
        listed = await TopicsAdmin(cluster).list_offsets(
            {partition: int(OffsetSpec.LATEST)}, read_committed=True, patient=True
        )
        end = listed[partition]
        if isinstance(end, ApiError):
            raise end
        fetcher.assign({partition: 0})
        while position < end.offset:
            for batches in await fetcher.fetch(500):
                position = batches.next
                found += [value.decode() for value in batches.columns().values if value is not None]
    return found
