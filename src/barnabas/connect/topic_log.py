"""One of Connect's internal topics: a compacted log that a worker reads to its end, follows, and appends to.

Exactly one task reads; what it read is handed on record by record, in the order of each partition. Who appends and
wants to see the effect reads to the end afterwards: after a write that failed, that is also how to learn whether the
record is there after all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from barnabas.client.accumulator import DeliveryError
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType, ConfigsAdmin
from barnabas.client.admin.topics import NewTopic, OffsetSpec, TopicsAdmin
from barnabas.client.cluster import Cluster, TopicInfo, backoffs
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import CorruptBatchError, FetchedBatches, PartitionFetcher
from barnabas.client.producer import Producer
from barnabas.connect.herder_port import WriteFailedError
from barnabas.core.connect.records import Record
from barnabas.model.config import ConfigError
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError

log = structlog.get_logger("kafka.connect.storage")

_UNREACHABLE: Final = (DisconnectedError, RequestTimeoutError)
_FORBIDDEN: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
_COMPACT: Final = "compact"
WRITE_MS: Final = 30_000
"""How long a record may take, at most."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic as the worker's configuration wants it.

    key: the setting that names it; purpose: what is lost with it, for messages; partitions, replication_factor: -1
    takes the cluster's default; settings: further ones of the topic. single: more than one partition is refused.
    """

    name: str
    key: str
    purpose: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str] = field(default_factory=dict)
    single: bool = False


class LogRecord(NamedTuple):
    """A record as it was read. timestamp_ms: when it was written."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class _MakesNoTopics(Cluster):
    """Has no broker make a topic that is written to: it would make one as it makes any, which is not compacted."""

    async def topic(self, name: str, *, create: bool = False) -> TopicInfo:
        """Give one topic."""
        return await super().topic(name)


class TopicLog:
    """One internal topic. Use as an async context manager: entering it makes the topic and reads it to its end.

    on_record is called for each record, from the loop, by the one task that reads.
    """

    def __init__(self, config: ClientConfig, topic: InternalTopic, on_record: Callable[[LogRecord], None]) -> None:
        self.topic = topic
        self._on_record = on_record
        self._cluster = _MakesNoTopics(config)
        # Requests on one connection are answered in turn: a fetch that waits must not hold writes up.
        self._fetcher = PartitionFetcher(
            config.with_properties(isolation_level="read_committed", auto_offset_reset="earliest")
        )
        self._producer = Producer(
            config.with_properties(
                acks="all",
                enable_idempotence="true",
                linger_ms="0",
                # What nobody waits for any more is not to turn up later.
                delivery_timeout_ms=str(min(config.integer("delivery.timeout.ms"), WRITE_MS)),
                max_block_ms=str(min(config.integer("max.block.ms"), WRITE_MS)),
            ),
            cluster=self._cluster,
        )
        self._topics = TopicsAdmin(self._cluster)
        self._configs = ConfigsAdmin(self._cluster)
        self._partitions: list[TopicPartition] = []
        self._reader: asyncio.Task[None] | None = None
        self._read: dict[TopicPartition, int] = {}
        """What has been handed on: the offset after it."""
        self._moved = asyncio.Event()
        self._failure: Exception | None = None

    async def __aenter__(self) -> TopicLog:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Make the topic when it is missing, check it, read it to its end, and follow it from there.

        ConfigError when the topic cannot be used as it is; ApiError when the cluster refuses. The log is closed then.
        """
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        await self._ensure_there()
        await self._check_policy()
        info = await self._cluster.retry(lambda: self._cluster.topic(self.topic.name))
        if self.topic.single and len(info.partitions) != 1:
            raise ConfigError(
                f"{self.topic.key}={self.topic.name}: the topic has {len(info.partitions)} partitions, but needs "
                f"exactly one, so that the order of {self.topic.purpose} is everywhere the same; name another topic"
            )
        self._partitions = [TopicPartition(self.topic.name, p) for p in info.partitions]
        self._read = await self._fetcher.start_offsets(self._partitions, "earliest")
        self._fetcher.assign(self._read)
        self._reader = asyncio.create_task(self._follow(), name=f"reader of {self.topic.name}")
        self._reader.add_done_callback(self._ended)
        await self.read_to_end()

    async def close(self) -> None:
        """Stop reading; what is being appended fails."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._fetcher.close()
        await self._producer.close(flush=False)
        await self._cluster.close()

    async def read_to_end(self) -> None:
        """Return when everything that was in the topic at the time of the call has been handed on.

        Waits as long as that takes, for open transactions to end too: bound it with `asyncio.timeout`. What the reader
        fails with, when it does.
        """
        wanted = dict.fromkeys(self._partitions, int(OffsetSpec.LATEST))
        # Not only as far as no transaction is open: what is committed behind one that is may be what the caller wants.
        found = await self._topics.list_offsets(wanted, patient=True)
        for partition, end in found.items():
            if isinstance(end, ApiError):
                raise end
            while self._read[partition] < end.offset:
                if self._failure is not None:
                    raise self._failure
                self._moved.clear()
                await self._moved.wait()

    async def append(self, records: Iterable[Record]) -> None:
        """Write records; durable on all in-sync replicas, and in this order for each key, when this returns.

        WriteFailedError when nobody can say that they all are; some may be.
        """
        try:
            deliveries = [await self._producer.send(self.topic.name, r.value, key=r.key) for r in records]
            for delivery in deliveries:
                await delivery
        except (ApiError, DeliveryError, *_UNREACHABLE) as e:
            raise WriteFailedError(f"topic {self.topic.name!r} did not take a record: {e}") from e

    # Making it.

    async def _ensure_there(self) -> None:
        try:
            await self._cluster.refresh([self.topic.name])
        except ApiError as e:
            if e.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        else:
            return
        wanted = self.topic
        new = NewTopic(
            wanted.name,
            wanted.partitions,
            wanted.replication_factor,
            configs={**wanted.settings, "cleanup.policy": _COMPACT},
        )
        outcome = (await self._topics.create_topics([new]))[wanted.name]
        if outcome is None:
            log.info("made an internal topic", topic=wanted.name, key=wanted.key)
        elif outcome.code in _FORBIDDEN:
            raise ConfigError(
                f"{wanted.key}={wanted.name}: the topic is not there, and this worker may not create it: {outcome}"
            ) from None
        elif outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another worker was quicker
            raise ConfigError(f"{wanted.key}={wanted.name}: the topic cannot be created: {outcome}") from None

    async def _check_policy(self) -> None:
        wanted = self.topic
        resource = ConfigResource(ConfigResourceType.TOPIC, wanted.name)
        found = await self._cluster.retry(lambda: self._policy(resource))
        if found is None:
            log.info("may not see how an internal topic is cleaned; it must be compacted", topic=wanted.name)
        elif {p.strip().lower() for p in found.split(",")} != {_COMPACT}:
            raise ConfigError(
                f"{wanted.key}={wanted.name}: the topic has cleanup.policy={found}, but must have "
                f"cleanup.policy={_COMPACT}: otherwise {wanted.purpose} would be lost in time. "
                f"Change the topic, or have {wanted.key} name another one"
            )

    async def _policy(self, resource: ConfigResource) -> str | None:
        described = (await self._configs.describe_configs([resource], keys=["cleanup.policy"]))[resource]
        if not isinstance(described, ApiError):
            return next((c.value for c in described if c.name == "cleanup.policy"), None)
        if described.code in _FORBIDDEN:
            return None
        raise described

    # Reading it.

    async def _follow(self) -> None:
        waits = iter(backoffs(self._cluster.config))
        while True:
            try:
                for batches in await self._fetcher.fetch(60_000):
                    self._hand_on(batches)
            except (ApiError, ProtocolError, CorruptBatchError, *_UNREACHABLE) as e:
                self._fail(e)
                await asyncio.sleep(next(waits))
            else:
                waits, self._failure = iter(backoffs(self._cluster.config)), None
            self._moved.set()

    def _ended(self, reader: asyncio.Task[None]) -> None:
        """Tell those who wait of a defect: without it the reader does not end by itself."""
        if not reader.cancelled() and isinstance(e := reader.exception(), Exception):
            self._fail(e)

    def _hand_on(self, batches: FetchedBatches) -> None:
        columns = batches.columns()
        for offset, timestamp, key, value in zip(
            columns.offsets, columns.timestamps, columns.keys, columns.values, strict=True
        ):
            self._on_record(LogRecord(batches.partition.partition, offset, timestamp, key, value))
        if batches.next <= self._read[batches.partition]:
            self._is_another(batches.partition)
        self._read[batches.partition] = batches.next

    def _is_another(self, partition: TopicPartition) -> None:
        """Tell that what was read is no longer there: the topic ends before."""
        log.error(
            "an internal topic was deleted and made anew: what it held is lost once this worker ends",
            partition=str(partition),
            key=self.topic.key,
            lost=self.topic.purpose,
            remedy="while the group runs, read what is still known through its REST API; then write it again",
        )

    def _fail(self, e: Exception) -> None:
        if self._failure is None:
            log.error(
                "an internal topic cannot be read: its changes are not seen until it can be again",
                topic=self.topic.name,
                key=self.topic.key,
                why=str(e),
            )
        self._failure = e
        self._fetcher.assign(self._read)  # what was fetched but could not be used is fetched again
        self._moved.set()
