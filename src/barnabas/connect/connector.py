"""What authors of connectors write against: a sink is a `write`, a source is a `read`, a setting is a row of a table.

```python
class Counts(Sink):
    VERSION = "1.0"
    CONFIG = ConfigTable(ConfigKey("table", ConfigType.STRING, REQUIRED, "Where counts go."))

    def write(self, batch, batch_id):
        batch.groupBy("key").count().write.mode("append").saveAsTable(self.config["table"])
```

An entry point in the group `barnabas.connectors` makes the class known to workers. Instances live in the process of the
worker, which is Spark's driver; methods of one instance are called from one thread at a time, and may block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from barnabas.model.config import ConfigTable
from barnabas.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ConnectError(Exception):
    """Something that makes a task fail; the message is meant for the one who configured it."""


class RetriableError(ConnectError):
    """Something that may go better with the same batch a moment later (`errors.retry.timeout`)."""


class FencedError(ConnectError):
    """Another task has this one's partitions by now: what was to be written is there already, or will be."""


class ExactlyOnceSupport(Enum):
    """What a source says of itself (KIP-618): whether what it gives, and where it is, belong together for good."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class TransactionContext(Protocol):
    """What a source's task with `transaction.boundary=connector` says where transactions end with (KIP-618).

    Both are about the batch that `poll` gives next, or gives while it says so, and about those before it since the last
    end. May be called from any thread. Who says both of one batch fails.
    """

    def commit(self) -> None:
        """Have the transaction end after the batch."""

    def abort(self) -> None:
        """Have the transaction dropped after the batch; its offsets are kept, so that it is not polled again."""


@dataclass(slots=True)
class TaskContext:
    """Which task this is, and what it works on.

    generation: goes up each time the task is started anew; scratch: a folder of its own on the worker's machine,
    empty at the start and removed at the end; assignment: the partitions a sink's task has now. While `write` runs,
    batch_begins and batch_offsets say where the batch begins in each of its partitions, and where they go on after it.
    transactions: None unless the task is to say where transactions end.
    """

    connector: str
    task: int
    generation: int
    scratch: Path
    assignment: Sequence[TopicPartition] = ()
    batch_begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    batch_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    transactions: TransactionContext | None = None


class Connector(ABC):
    """What sinks and sources have in common.

    config: typed values of CONFIG, defaults included; what else the connector was given, as text. TASK_CLASS: the
    class of JVM workers that does the same, for one that may move to such a worker of its group.
    """

    VERSION: ClassVar[str]
    CONFIG: ClassVar[ConfigTable]
    TASK_CLASS: ClassVar[str | None] = None

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Self:
        """Give the connector of a configuration, references to secrets resolved; ConfigError for a bad value."""
        return cls({**config, **cls.CONFIG.parse(config).values})

    def validate(self) -> Mapping[str, str]:
        """Give what is wrong beyond what CONFIG says of single values: key -> what would be right."""
        return {}

    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Share the work out to at most `max_tasks` tasks; each gets the connector's configuration and these on top."""


class Sink(Connector):
    """Writes records out of Kafka, a batch at a time.

    A batch has the columns key and value (of the types that the converters give), topic, partition, offset, timestamp,
    timestampType and headers.
    """

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Share out to as many tasks as are allowed: partitions find their way by the consumer group."""
        return [{}] * max_tasks

    def open(self, spark: SparkSession, task: TaskContext) -> None:
        """Get ready; called at the start, and again whenever the assignment has changed."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch; it is durable when this returns.

        batch_id: from 0 in each run of the task. RetriableError: call again with the same batch. FencedError: drop the
        batch and ask the group anew. Any other exception fails the task.
        """

    def ready(self, records: int, waited_ms: int) -> bool:
        """Say whether to write now, when so many offsets wait and have done so for so long; must not block."""
        return True

    def offsets(self) -> Mapping[TopicPartition, int] | None:
        """Give where to begin, from a record that is kept with the data; None to trust the consumer group.

        What a sink writes together with its data makes it exactly once. Partitions left out begin where the group says.
        """
        return None

    def alter_offsets(self, spark: SparkSession, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Have the record that `offsets` reads say this from now on, None to forget a partition; called while no task
        runs, on an instance that was not opened. Say whether it does."""
        return False

    def close(self) -> None:
        """Let go of everything; called once at the end, whether the task failed or not."""


class AnySource(Connector):
    """What both kinds of sources have in common: their place is kept in the offsets topic."""

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Have one task."""
        return [{}]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        """Say whether this configuration is exactly once, where the worker writes in transactions; None: no word on it.

        It is when the same offset always leads to the same records after it. Asked on an instance that was not opened.
        """
        return None

    def can_define_transaction_boundaries(self) -> bool:
        """Say whether tasks of this configuration say where transactions end, by `TaskContext.transactions`."""
        return False

    def check_offsets(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """Refuse, by ConnectError, what a user wants to be kept for partitions, None to forget one.

        Called while no task runs, on an instance that was not opened.
        """

    def close(self) -> None:
        """Let go of everything; called once at the end, whether the task failed or not."""


class Source(AnySource):
    """Brings records into Kafka by a streaming DataFrame; Spark keeps its place, the offsets topic keeps Spark's.

    The DataFrame has a column `value` and may have `key`, `topic`, `partition`, `headers` and `timestamp`.
    """

    @abstractmethod
    def read(self, spark: SparkSession) -> DataFrame:
        """Give the streaming DataFrame; a Python Data Source is one too, by `spark.readStream.format(...)`."""


@dataclass(frozen=True, slots=True)
class Polled:
    """A batch of a polling source, and where its partitions stand once Kafka has it.

    offsets: (partition, offset) pairs as they go to the offsets topic, for instance `({"file": "a"}, {"position": 7})`.
    records: how many there are, if that is known by now.
    """

    batch: DataFrame
    offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
    records: int | None = None


class PollingSource(AnySource):
    """Brings records into Kafka a batch at a time, and keeps its place in offsets of its own making.

    For what is no stream to Spark: a file that grows, a table asked again and again.
    """

    @abstractmethod
    def partitions(self) -> Sequence[Mapping[str, Any]]:
        """Give the partitions whose offsets this task wants to know before it begins."""

    def open(self, spark: SparkSession, task: TaskContext, offsets: Sequence[Mapping[str, Any] | None]) -> None:
        """Get ready. offsets: those of `partitions()`, in order; None where nothing is known yet."""

    @abstractmethod
    def poll(self, spark: SparkSession) -> Polled | None:
        """Give what is new, None when nothing is; the columns are those of a Source.

        Called again only after the batch was written and the offsets are kept. RetriableError: poll again later.
        """
