"""Reads a range of offsets of one partition as Arrow batches, the next fetch under way while one is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from barnabas.client.cluster import Cluster
from barnabas.spark import lookup
from barnabas.spark.arrow import MAX_CHUNK_BYTES, Payload, decode
from barnabas.spark.bridge import Bridge, Work
from barnabas.spark.explain import DataLossError, RefusedError
from barnabas.spark.offsets import Edge
from barnabas.spark.ranges import OffsetRange
from barnabas.wire.compression import Compression, decompress
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.record_batch import (
    BATCH_HEADER_SIZE,
    BatchHeader,
    TimestampType,
    check_crc,
    decode_batch,
    iter_headers,
)

NEWEST_BY_NAME: Final = 12
"""From Fetch v13 on topics go by id; a range is of a topic by name."""
DEFAULT_PARTITION_BYTES: Final = 8 << 20
_ABORT_MARKER: Final = b"\x00\x00\x00\x00"
"""The key of an ABORT control record: version 0, type 0."""


class Fetched(NamedTuple):
    """What one fetch gave. aborted: (producer id, first offset) of each aborted transaction in these records."""

    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    end: int
    log_start: int


@dataclass
class RangeReader:
    """Reads one range. committed: leave out records of open and aborted transactions."""

    bridge: Bridge
    range: OffsetRange
    committed: bool = False
    headers: bool = False
    fail_on_data_loss: bool = True
    _aborted: set[int] = field(default_factory=set)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the records of the range in order; DataLossError when some are gone and that matters."""
        position = self.range.start
        under_way = self.bridge.submit(self._fetch(position))
        while position < self.range.end:
            fetched = under_way.result()
            if fetched is None:
                position = self._skip_lost(position)
                under_way = self.bridge.submit(self._fetch(position))
                continue
            following = _next_offset(fetched.records, position)
            if following == position and fetched.end <= position:
                self._lost(position, self.range.end)
                return
            if following < self.range.end:
                under_way = self.bridge.submit(self._fetch(following))
            yield from self._decode(fetched, position)
            position = following

    def _decode(self, fetched: Fetched, position: int) -> Iterator[pa.RecordBatch]:
        topic, partition = self.range.partition
        payloads = list(self._payloads(fetched))
        for group in _groups(payloads):
            batch = decode(group, topic, partition, position, self.range.end, headers=self.headers)
            if batch.num_rows:
                yield batch

    def _payloads(self, fetched: Fetched) -> Iterator[Payload]:
        """Give the batches that hold records to show, decompressed; control batches and aborted ones do not."""
        starting = sorted(fetched.aborted, key=lambda each: each[1], reverse=True)
        for at, header in iter_headers(fetched.records, partial_tail=True):
            if header.base_offset >= self.range.end:
                return
            while self.committed and starting and starting[-1][1] <= header.last_offset:
                self._aborted.add(starting.pop()[0])
            if header.is_control:
                if _is_abort(fetched.records, at):
                    self._aborted.discard(header.producer_id)
            elif header.record_count and not (header.is_transactional and header.producer_id in self._aborted):
                yield _payload(fetched.records, at, header)

    def _fetch(self, position: int) -> Work[Fetched | None]:
        """Give a fetch from `position`; it gives None when there is no such offset."""
        topic, number = self.range.partition

        async def once(cluster: Cluster) -> Fetched | None:
            response: FetchResponse = await cluster.call_leader(
                self.range.partition, _request(cluster, topic, number, position, self.committed),
                max_version=NEWEST_BY_NAME,
            )  # fmt: skip
            if response.error_code != ErrorCode.NONE:
                raise RefusedError(ErrorCode(response.error_code), topic)
            row = response.responses[0].partitions[0]
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return None
            if row.error_code != ErrorCode.NONE:
                raise RefusedError(ErrorCode(row.error_code), topic)
            records = row.records if isinstance(row.records, bytes | bytearray | memoryview) else b""
            return Fetched(
                memoryview(records),
                tuple((each.producer_id, each.first_offset) for each in row.aborted_transactions or ()),
                row.last_stable_offset if self.committed else row.high_watermark,
                row.log_start_offset,
            )

        async def work(cluster: Cluster) -> Fetched | None:
            return await cluster.retry(lambda: once(cluster))

        return work

    def _skip_lost(self, position: int) -> int:
        """Give where to go on when `position` is not in the log."""
        partition = self.range.partition

        async def log_start(cluster: Cluster) -> int:
            return (await lookup.edge(cluster, [partition], Edge.EARLIEST, committed=False))[partition]

        first = self.bridge.call(log_start)
        following = min(first, self.range.end) if first > position else self.range.end
        self._lost(position, following)
        return following

    def _lost(self, first: int, end: int) -> None:
        if self.fail_on_data_loss:
            raise DataLossError.about(f"offsets {first} to {end - 1} of {self.range.partition} are not there any more")


def _request(cluster: Cluster, topic: str, partition: int, position: int, committed: bool) -> FetchRequest:
    config = cluster.config
    chosen = "max.partition.fetch.bytes" in config.java_properties
    partition_bytes = config.integer("max.partition.fetch.bytes") if chosen else DEFAULT_PARTITION_BYTES
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=config.integer("fetch.max.wait.ms"),
        min_bytes=config.integer("fetch.min.bytes"),
        max_bytes=config.integer("fetch.max.bytes"),
        isolation_level=int(committed),
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=partition_bytes)
                ],
            )
        ],
        rack_id=config.text("client.rack") or "",
    )


def _next_offset(records: memoryview, position: int) -> int:
    following = position
    for _, header in iter_headers(records, partial_tail=True):
        following = max(following, header.last_offset + 1)
    return following


def _payload(records: memoryview, at: int, header: BatchHeader) -> Payload:
    if not check_crc(records, at, header):
        raise ProtocolError(f"the batch at offset {header.base_offset} has a wrong checksum")
    data: Any = records[at + BATCH_HEADER_SIZE : at + header.size]
    if header.compression is not Compression.NONE:
        data = decompress(header.compression, data, MAX_CHUNK_BYTES)
    by_log = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    return Payload(
        data,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if by_log else None,
    )


def _groups(payloads: list[Payload]) -> Iterator[list[Payload]]:
    """Put payloads together so that no group is too large for an Arrow column."""
    group: list[Payload] = []
    size = 0
    for payload in payloads:
        if group and size + len(payload.records) > MAX_CHUNK_BYTES:
            yield group
            group, size = [], 0
        group.append(payload)
        size += len(payload.records)
    if group:
        yield group


def _is_abort(records: memoryview, at: int) -> bool:
    return any(record.key == _ABORT_MARKER for record in decode_batch(records, at))
