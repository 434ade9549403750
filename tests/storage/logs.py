"""What the storage tests build with: a clock that stands still, batches, and logs on a memory disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.model.topic_partition import TopicPartition
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_loader import open_log
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.wire.record_batch import (
    Compression,
    ControlType,
    Record,
    control_batch,
    encode_batch,
    iter_headers,
    iter_records,
)
from barnabas.wire.records.end_txn_marker import EndTxnMarker

NOW_MS = 1_700_000_000_000
TP = TopicPartition("t", 0)
DIR = Path("/data/t-0")


@dataclass(slots=True)
class ManualClock:
    """Both clocks, moved by the test."""

    ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms - NOW_MS


@dataclass(slots=True)
class Bench:
    """A memory disk with one log on it, opened as often as the test likes."""

    clock: ManualClock = field(default_factory=ManualClock)
    config: Mapping[str, str] = field(default_factory=dict)
    failures: list[OSError] = field(default_factory=list)
    fs: MemoryFileSystem = field(init=False)
    env: LogEnvironment = field(init=False)

    def __post_init__(self) -> None:
        self.fs = MemoryFileSystem(self.clock.now_ms)
        self.env = LogEnvironment(self.fs, self.clock, on_io_error=lambda _, error: self.failures.append(error))

    def open(self, *, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
        return open_log(
            self.env,
            DIR,
            TP,
            log_config(self.config),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )

    def files(self) -> list[str]:
        return self.fs.listdir(DIR)


def log_config(overrides: Mapping[str, str]) -> LogConfig:
    """Give a topic's configuration; `segment.bytes` may be below Kafka's lower bound."""
    texts = dict(overrides)
    if "segment.bytes" in texts:
        texts["internal.segment.bytes"] = texts.pop("segment.bytes")
    return LogConfig.of(texts)


def batch(
    *values: bytes | tuple[bytes | None, bytes | None] | None,
    timestamp: int = NOW_MS,
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
) -> memoryview:
    """Give a writable batch. values: value, or (key, value); producer: (id, epoch, base sequence)."""
    pairs = [v if isinstance(v, tuple) else (None, v) for v in values]
    pid, epoch, sequence = producer if producer is not None else (-1, -1, -1)
    records = [Record(n, timestamp + n, key, value, ()) for n, (key, value) in enumerate(pairs)]
    return memoryview(
        bytearray(
            encode_batch(
                records,
                compression=compression,
                producer_id=pid,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
    )


def marker(pid: int, epoch: int, *, commit: bool, timestamp: int = NOW_MS, coordinator_epoch: int = 0) -> memoryview:
    """Give a transaction's end marker."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    data = control_batch(
        [(kind, EndTxnMarker(coordinator_epoch=coordinator_epoch))],
        timestamp=timestamp,
        producer_id=pid,
        producer_epoch=epoch,
        transactional=True,
    )
    return memoryview(bytearray(data))


def read_all(log: Log, start: int | None = None, *, max_bytes: int = 1 << 20) -> list[Record]:
    """Give every record from `start` (the log's start) to the log's end, read as a consumer reads."""
    records: list[Record] = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes).records.read()
        next_offset = offset
        for _, header in iter_headers(data, partial_tail=True):
            next_offset = max(next_offset, header.next_offset)
        records += (r for r in iter_records(data, partial_tail=True) if r.offset >= offset)
        if next_offset == offset:
            break
        offset = next_offset
    return records


def values(records: Iterable[Record]) -> list[bytes | None]:
    """Give the records' values."""
    return [r.value for r in records]
