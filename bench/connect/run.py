"""What all rows of one system share: the broker, a folder, the sizes, where values go, and what becomes of failures."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.testing.processes import ProcessCluster
from bench.connect.worker import Worker, started
from bench.goals import Measured, Results
from bench.librdkafka import Librdkafka
from bench.process_tree import processor_seconds

VALUE_BYTES: Final = 100
LINE_BYTES: Final = VALUE_BYTES + 1
FILE_SINK: Final = "FileStreamSink"
FILE_SOURCE: Final = "FileStreamSource"
_DIFFERENT: Final = 10_000
_FILL_LIMIT_S: Final = 300.0
_REASON_LENGTH: Final = 300
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ConnectSizes:
    """How much is done. records: through each sink, however many tasks it has; starts: of connectors; moves: of tasks
    whose worker is killed; task_records: for each task before its memory is looked at."""

    repeats: int
    records: int
    source_records: int
    starts: int
    moves: int
    task_records: int


class Rate(NamedTuple):
    """How many records a second there were, and the processor time for each, of all processes that took part."""

    per_second: float
    cpu_us: float


class RateClock:
    """Takes a rate, from the first records that have arrived to the last."""

    def __init__(self, pid: int, before: int) -> None:
        """Begin now. pid: whose processor time counts, with all that it has started; before: records that are there."""
        self._pid = pid
        self._before = before
        self._begun = time.perf_counter()
        self._cpu_s = processor_seconds(pid)

    def rate(self, records: int) -> Rate:
        """End now; records: how many are there. Nothing a second when all had been there before."""
        took_s, new = time.perf_counter() - self._begun, records - self._before
        if not new:
            return Rate(0, 0)
        return Rate(new / took_s, (processor_seconds(self._pid) - self._cpu_s) / new * 1e6)


@dataclass
class ConnectRun:
    """One system, measured. kafka: whether the workers are Apache Kafka's."""

    kafka: bool
    work: Path
    brokers: ProcessCluster
    sizes: ConnectSizes
    results: Results
    say: Say
    failures: list[str] = field(default_factory=list)
    _count: int = 0
    _filled: dict[tuple[int, int], str] = field(default_factory=dict)

    def attempt(self, what: str, work: Callable[[], None]) -> None:
        """Do something; when that fails, say so and go on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other rows are to be measured
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:_REASON_LENGTH]
            self.say(f"    {what} FAILED: {reason}")
            self.failures.append(f"{what}, {'Apache Kafka' if self.kafka else 'Barnabas'}: {reason}")

    def note(self, key: str, value: float) -> None:
        """Add a value to a row."""
        self.results.setdefault(key, Measured()).values.append(value)

    def note_rate(self, key: str, rate: Rate) -> None:
        """Add a rate to a row, and what it took of the processors; ValueError when there was nothing to measure."""
        if not rate.per_second:
            raise ValueError("all records arrived at once")
        self.note(key, rate.per_second)
        self.results[key].cpu_us.append(rate.cpu_us)

    def name(self, kind: str) -> str:
        """Give a name that nothing had before."""
        self._count += 1
        return f"{kind}-{self._count}"

    def empty_topic(self, partitions: int = 1) -> str:
        """Give the name of a new topic."""
        name = self.name("topic")
        self.brokers.create_topic(name, partitions)
        return name

    def filled_topic(self, partitions: int, records: int) -> str:
        """Give the name of a topic with so many records in all, made when it is wanted for the first time."""
        if (partitions, records) not in self._filled:
            name = self.empty_topic(partitions)
            Librdkafka().produce(
                {**self.brokers.librdkafka(), "sticky.partitioning.linger.ms": "0"},
                name,
                records=records,
                size=VALUE_BYTES,
                limit_s=_FILL_LIMIT_S,
                values=lines(),
            )
            self._filled[partitions, records] = name
        return self._filled[partitions, records]

    @contextmanager
    def worker(self, group: str) -> Iterator[Worker]:
        """Give a worker that has joined its group; nothing of it is left in the end."""
        with started(self.kafka, self.work / self.name(group), self.brokers.bootstrap, group) as worker:
            yield worker


def lines() -> list[bytes]:
    """Give the texts that records have in turn, as hard to compress as hexadecimal digits are."""
    chance = random.Random(4)
    return [chance.randbytes(VALUE_BYTES // 2).hex().encode() for _ in range(_DIFFERENT)]
