"""The port between the herder, which decides what runs on this worker, and what runs it.

The herder's side is plain asyncio. Whatever blocks is the runtime's to put into threads; events come on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

from barnabas.connect.herder_port import ConnectorOffset
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.records import Record
from barnabas.model.topic_partition import TopicPartition


class Preflight(Protocol):
    """What a source's task that writes in transactions asks of the herder before it begins (KIP-618)."""

    async def fence(self) -> None:
        """Return once the tasks of earlier generations are shut out; then the task gets its producer.

        HerderError when that did not come off; the task has failed then.
        """

    async def check(self) -> None:
        """Return when the task, which has its producer now, may begin; else ConflictError says what came between."""


@dataclass(frozen=True, slots=True)
class TaskLaunch:
    """A task to run.

    config: the task's own, as the config topic has it; connector_config: its connector's. Both with references to
    secrets unresolved: the runtime resolves them where they are used. generation: of the assignment that the task is
    started under, shown with its query. target_state: STARTED, or PAUSED to begin paused. preflight: for a source that
    is to write in transactions, None for any other task.
    """

    id: ConnectorTaskId
    config: Mapping[str, str] = field(repr=False)
    connector_config: Mapping[str, str] = field(repr=False)
    target_state: TargetState
    generation: int
    preflight: Preflight | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The task works; also after a pause."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The task has stopped at a batch boundary, its offsets are committed, and it waits."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The task has ended by itself. trace: why, as text for the status topic, without secrets."""

    trace: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The task has ended because it was to."""


@dataclass(frozen=True, slots=True)
class TopicUsed:
    """The task has read from or written to a topic for the first time."""

    topic: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """A sink's task has other partitions than before. partitions: how many it has now."""

    partitions: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch is under way; Committed and then Progress tell that it is over.

    records: how many it has, None where nobody knows before.
    """

    records: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """Offsets of a batch were kept, or, if `failed`, refused. duration_ms: what the attempt took."""

    duration_ms: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TransactionCommitted:
    """A source's transaction is seen from now on. records: how many it has, offsets not among them."""

    records: int


@dataclass(frozen=True, slots=True)
class Troubles:
    """What has gone wrong since the last time this was told, and was dealt with as the settings say (KIP-298).

    failures: records that could not be converted or transformed; skipped: those left out; retries: what was tried once
    more; logged: lines about records in the log; dead_letters: tries to write one; lost_letters: those that failed.
    """

    failures: int = 0
    skipped: int = 0
    retries: int = 0
    logged: int = 0
    dead_letters: int = 0
    lost_letters: int = 0

    def plus(self, more: Troubles) -> Troubles:
        """Give both together."""
        return Troubles(*(a + b for a, b in zip(astuple(self), astuple(more), strict=True)))


@dataclass(frozen=True, slots=True)
class Progress:
    """A batch is done. offsets: where a sink's partitions stand, next offset to read; empty for sources.

    records and value_bytes count what was read, before transformations; failed_records are those left out because they
    failed, dropped_records those that transformations took out. duration_ms is from reading to written.
    """

    batch_id: int
    records: int
    value_bytes: int
    failed_records: int
    duration_ms: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    dropped_records: int = 0

    @property
    def passed_records(self) -> int:
        """Give how many records came to where they were to go."""
        return self.records - self.failed_records - self.dropped_records


Event = (
    Running
    | Paused
    | Failed
    | Stopped
    | TopicUsed
    | Assigned
    | Begun
    | Committed
    | TransactionCommitted
    | Troubles
    | Progress
)
OnEvent = Callable[[ConnectorTaskId, Event], None]


class UnknownTaskError(LookupError):
    """The runtime was asked about a task that it does not have."""


class Runtime(Protocol):
    """Runs tasks. Any number of calls may be under way at once, for different tasks."""

    async def open(self) -> None:
        """Get ready to run tasks; returns when the first one could start."""

    async def close(self) -> None:
        """Stop every task as `stop` does, and let go of everything."""

    async def plan(self, name: str, config: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Give the task configurations of a connector: its own settings, `task.class`, and what tells tasks apart.

        ConfigError, ConnectError or what the connector raises: the connector has failed.
        """

    async def start(self, launch: TaskLaunch, on_event: OnEvent) -> None:
        """Accept a task; what becomes of it comes as events, on the loop: Running or Paused or Failed first.

        Never raises for what is wrong with the task itself.
        """

    async def pause(self, task: ConnectorTaskId) -> None:
        """Have a task stop at the next batch boundary; Paused comes when it has. No effect on one that has failed."""

    async def resume(self, task: ConnectorTaskId) -> None:
        """Have a paused task go on; Running comes when it does. No effect on one that has failed."""

    async def stop(self, task: ConnectorTaskId) -> None:
        """End a task and forget it, failed or not; UnknownTaskError when there is none.

        Returns when a batch boundary is reached and offsets are committed, or `task.shutdown.graceful.timeout.ms` have
        passed and the task is cut off. Stopped comes before, unless the task has failed. It may be started again then.
        """

    async def fence(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        """Shut out the first `tasks` tasks of a source wherever they run (KIP-618): none of them commits any more what
        it has not yet. HerderError, or what the client raises."""

    async def offsets(self, name: str, config: Mapping[str, str]) -> Sequence[ConnectorOffset]:
        """Give where a connector is: its group's offsets for a sink, those of the offsets topic for a source."""

    async def alter_offsets(self, name: str, config: Mapping[str, str], offsets: Sequence[ConnectorOffset]) -> str:
        """Move a connector that is stopped everywhere; give what was done, in words. BadRequestError when it cannot."""

    async def reset_offsets(self, name: str, config: Mapping[str, str]) -> str:
        """Have a connector that is stopped everywhere begin again; as `alter_offsets`."""


class SourceOffsets(Protocol):
    """What sources of this worker keep in the offsets topic; implemented by the store of the topic."""

    @property
    def topic(self) -> str:
        """Give the name of the topic."""

    def records(self, connector: str, offsets: Sequence[ConnectorOffset]) -> Sequence[Record]:
        """Give the records that keep offsets, None to forget one: for a producer that has more in its transaction."""

    async def follow(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Hear that `records` of these are in the topic, where another one is to say the same."""

    async def read(self, connector: str, partitions: Sequence[Mapping[str, object]]) -> Sequence[ConnectorOffset]:
        """Give the newest offset of each of these partitions, in order, after reading the topic to its end."""

    async def read_all(self, connector: str) -> Sequence[ConnectorOffset]:
        """Give every partition of a connector that has an offset, after reading the topic to its end."""

    async def write(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Keep offsets, None to forget one; durable when this returns. ApiError when the topic does not take them."""
