"""Reading assigned partitions: whole batches as the node sent them, decoded to columns when asked.

One fetch per node is under way while the caller works on the one before. Nothing is done per record until the
caller decodes; positions move batch by batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from barnabas.client.admin.topics import OffsetSpec, TopicsAdmin
from barnabas.client.cluster import Cluster, topic_error
from barnabas.client.config import ClientConfig
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.wire.record_batch import Columns, check_crc, decode_columns, iter_headers

_NAMED_TOPICS_VERSION: Final = 12
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class CorruptBatchError(Exception):
    """A batch whose checksum does not fit came from the node."""


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Whole batches of one partition, uncopied. start: the offset asked for; next: the one to ask for after.

    The first batch may begin before `start`; `columns` leaves those records out, and what was aborted.
    """

    partition: TopicPartition
    start: int
    next: int
    records: memoryview = field(repr=False)
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()

    def columns(self, *, check_crcs: bool = True) -> Columns:
        """Decode to columns; CorruptBatchError or ProtocolError when the bytes are damaged."""
        if check_crcs:
            for pos, header in iter_headers(self.records, partial_tail=True):
                if not check_crc(self.records, pos, header):
                    raise CorruptBatchError(f"{self.partition}: the batch at {header.base_offset} is damaged")
        if self.aborted:
            return self._from_start(self._committed_columns())
        return self._from_start(decode_columns(self.records, partial_tail=True))

    def _from_start(self, columns: Columns) -> Columns:
        offsets = columns.offsets
        if not offsets or offsets[0] >= self.start:
            return columns
        first = next((i for i, offset in enumerate(offsets) if offset >= self.start), len(offsets))
        return Columns(
            offsets[first:],
            columns.timestamps[first:],
            columns.keys[first:],
            columns.values[first:],
            columns.headers[first:],
        )

    def _committed_columns(self) -> Columns:
        """Leave out what belongs to aborted transactions: from their first offset up to their marker."""
        out = Columns.empty()
        starts = sorted(self.aborted, key=lambda a: a.first_offset)
        open_now: set[int] = set()
        for pos, header in iter_headers(self.records, partial_tail=True):
            while starts and starts[0].first_offset <= header.last_offset:
                open_now.add(starts.pop(0).producer_id)
            batch = self.records[pos : pos + header.size]
            if header.is_control:
                open_now.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_now):
                more = decode_columns(batch)
                out.offsets.extend(more.offsets)
                out.timestamps.extend(more.timestamps)
                out.keys.extend(more.keys)
                out.values.extend(more.values)
                out.headers.extend(more.headers)
        return out


class PartitionFetcher:
    """Fetches from the partitions it was told to. Use as an async context manager.

    A position is where the next record is read from. OFFSET_OUT_OF_RANGE is handled as auto.offset.reset says.
    """

    def __init__(self, config: ClientConfig, *, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster(config)
        self._owns_cluster = cluster is None
        self._config = config
        self._admin = TopicsAdmin(self.cluster)
        self._read_committed = config["isolation.level"] == "read_committed"
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._in_flight: dict[int, asyncio.Task[list[FetchedBatches]]] = {}
        self._epoch = 0
        self._unknown_since: dict[TopicPartition, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop fetching."""
        await self._cancel()
        if self._owns_cluster:
            await self.cluster.close()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Give the offset of the next record of each partition."""
        return self._positions

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch from these partitions, from these offsets, and from no others."""
        self._positions = dict(positions)
        self._paused.clear()
        self._epoch += 1  # answers to fetches of before are dropped

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from another offset."""
        self._positions[partition] = offset
        self._epoch += 1

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more from these."""
        for partition in partitions:
            self._positions.pop(partition, None)
        self._epoch += 1

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Leave these out until they are resumed."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch from these again."""
        self._paused.difference_update(partitions)

    async def start_offsets(self, partitions: Iterable[TopicPartition], policy: str) -> dict[TopicPartition, int]:
        """Give where `earliest` or `latest` is; ApiError when a partition is refused."""
        spec = OffsetSpec.EARLIEST if policy == "earliest" else OffsetSpec.LATEST
        found = await self._admin.list_offsets(
            dict.fromkeys(partitions, int(spec)), read_committed=self._read_committed, patient=True
        )
        offsets = {}
        for partition, listed in found.items():
            if isinstance(listed, ApiError):
                raise listed
            offsets[partition] = listed.offset
        return offsets

    async def __aiter__(self) -> AsyncIterator[FetchedBatches]:
        """Give batches without end."""
        while True:
            for fetched in await self.fetch(self._config.integer("fetch.max.wait.ms")):
                yield fetched

    async def fetch(self, timeout_ms: int) -> list[FetchedBatches]:
        """Give what is there, waiting up to timeout_ms for something; positions have moved past it when it is given.

        ApiError for what trying again will not mend: no permission, no such topic, no such offset.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            await self._start_fetches()
            left_s = deadline - loop.time()
            if not self._in_flight:
                if left_s <= 0:
                    return []
                await asyncio.sleep(min(left_s, self._config.integer("retry.backoff.ms") / 1000))
                continue
            done, _ = await asyncio.wait(
                self._in_flight.values(), timeout=max(left_s, 0), return_when=asyncio.FIRST_COMPLETED
            )
            fetched = self._collect(done)
            if fetched or loop.time() >= deadline:
                await self._start_fetches()  # the nodes work while the caller does
                return fetched

    def _collect(self, done: set[asyncio.Task[list[FetchedBatches]]]) -> list[FetchedBatches]:
        fetched: list[FetchedBatches] = []
        for node, task in list(self._in_flight.items()):
            if task in done:
                del self._in_flight[node]
                for batches in task.result():
                    if self._positions.get(batches.partition) == batches.start:
                        self._positions[batches.partition] = batches.next
                        fetched.append(batches)
        return fetched

    async def _start_fetches(self) -> None:
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in [p for p in self._positions if p not in self._paused]:
            try:
                leader = await self.cluster.leader(partition)
            except ApiError as e:
                self._missing(partition, e)
                continue
            except (DisconnectedError, RequestTimeoutError):
                if not self.cluster.reached:
                    raise
                continue
            by_node.setdefault(leader, []).append(partition)
        for node, partitions in by_node.items():
            if node not in self._in_flight:
                self._in_flight[node] = asyncio.create_task(
                    self._fetch_from(node, partitions, self._epoch), name=f"fetch from {node}"
                )

    def _missing(self, partition: TopicPartition, e: ApiError) -> None:
        """Bear with a partition that is not there for as long as metadata may take to arrive."""
        now = asyncio.get_running_loop().time()
        since = self._unknown_since.setdefault(partition, now)
        patience_s = self._config.integer("default.api.timeout.ms") / 1000
        if not e.code.retriable or now - since > patience_s:
            raise e

    async def _fetch_from(self, node: int, partitions: list[TopicPartition], epoch: int) -> list[FetchedBatches]:
        request = await self._request(partitions)
        asked = {p: self._positions[p] for p in partitions if p in self._positions}
        wait_ms = self._config.integer("fetch.max.wait.ms") + self._config.integer("request.timeout.ms")
        try:
            channel = await self.cluster.channel(node)
            version = channel.versions(request, max_version=_NAMED_TOPICS_VERSION)
            response: FetchResponse = await channel.call(request, version=version, timeout_ms=wait_ms)
        except (DisconnectedError, RequestTimeoutError):
            await self._lost(partitions)
            return []
        if response.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(response.error_code))
        fetched = []
        for topic in response.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                if epoch != self._epoch or partition not in asked:
                    continue
                batches = await self._take(partition, asked[partition], data)
                if batches is not None:
                    fetched.append(batches)
        return fetched

    async def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        most = self._config.integer("max.partition.fetch.bytes")
        for partition in partitions:
            info = (await self.cluster.topic(partition.topic)).partitions[partition.partition]
            topics.setdefault(partition.topic, []).append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=info.leader_epoch,
                    fetch_offset=self._positions[partition],
                    partition_max_bytes=most,
                )
            )
        return FetchRequest(
            max_wait_ms=self._config.integer("fetch.max.wait.ms"),
            min_bytes=self._config.integer("fetch.min.bytes"),
            max_bytes=self._config.integer("fetch.max.bytes"),
            isolation_level=int(self._read_committed),
            topics=[FetchTopic(topic=name, partitions=asked) for name, asked in topics.items()],
        )

    async def _take(self, partition: TopicPartition, start: int, data: PartitionData) -> FetchedBatches | None:
        code = ErrorCode(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._reset(partition, start)
            return None
        if code in _MOVED:
            self._missing(partition, topic_error(code, partition.topic))
            await self._lost([partition])
            return None
        if code != ErrorCode.NONE:
            raise topic_error(code, partition.topic)
        self._unknown_since.pop(partition, None)
        records = data.records
        if not records:
            return None
        assert isinstance(records, memoryview)
        next_offset = start
        for _, header in iter_headers(records, partial_tail=True):
            next_offset = header.next_offset
        if next_offset <= start:
            return None
        return FetchedBatches(
            partition,
            start,
            next_offset,
            records,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            tuple(data.aborted_transactions or ()),
        )

    async def _reset(self, partition: TopicPartition, start: int) -> None:
        policy: str = self._config["auto.offset.reset"]
        if policy not in ("earliest", "latest"):
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {start} of {partition} is not in the log, and auto.offset.reset is {policy}",
            )
        offset = (await self.start_offsets([partition], policy))[partition]
        if self._positions.get(partition) == start:
            self._positions[partition] = offset

    async def _lost(self, partitions: list[TopicPartition]) -> None:
        for topic in {p.topic for p in partitions}:
            self.cluster.forget_topic(topic)
        await asyncio.sleep(self._config.integer("retry.backoff.ms") / 1000)

    async def _cancel(self) -> None:
        tasks, self._in_flight = list(self._in_flight.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
