"""What a task does about records that fail: which of Kafka's settings ask for it, the log line, the dead letter.

KIP-298. Converters and transformations leave failing records in the batch with a column that says why (`failures`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Final, TypeVar

import structlog
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from barnabas.connect.connector import RetriableError
from barnabas.connect.runtime import Troubles
from barnabas.connect.spark.failures import CLASS_NAME, EXCEPTION, FAILURE, MESSAGE, STAGE
from barnabas.connect.spark.writing import written
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, Importance, at_least, one_of
from barnabas.spark.schema import HEADERS

T = TypeVar("T")
log: Final = structlog.get_logger("barnabas.connect.task")

ERROR_KEYS: Final = ConfigTable(
    ConfigKey(
        "errors.tolerance",
        ConfigType.STRING,
        "none",
        "none: the first record that fails fails the task; all: failing records are left out.",
        validator=one_of("none", "all"),
    ),
    ConfigKey(
        "errors.retry.timeout",
        ConfigType.LONG,
        None,
        "How long, in ms, to retry what may go better a moment later: -1 and unset: without end; 0: not at all.",
        validator=at_least(-1),
    ),
    ConfigKey("errors.retry.delay.max.ms", ConfigType.LONG, 60_000, "The longest pause between two tries, in ms."),
    ConfigKey("errors.log.enable", ConfigType.BOOLEAN, False, "Whether each failing record gets a line in the log."),
    ConfigKey(
        "errors.log.include.messages", ConfigType.BOOLEAN, False, "Whether that line says where the record stands."
    ),
    ConfigKey("errors.deadletterqueue.topic.name", ConfigType.STRING, "", "Where failing records go; empty: nowhere."),
    ConfigKey(
        "errors.deadletterqueue.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "The copies of that topic, if it has to be made.",
    ),
    ConfigKey(
        "errors.deadletterqueue.context.headers.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether dead letters say in headers what happened to them.",
        Importance.MEDIUM,
    ),
)
HEADER_PREFIX: Final = "__connect.errors."
RAW_KEY: Final = "connect_raw_key"
RAW_VALUE: Final = "connect_raw_value"
RAW_HEADERS: Final = "connect_raw_headers"
RAW_TOPIC: Final = "connect_raw_topic"
_RAW: Final = {RAW_KEY: "key", RAW_VALUE: "value", RAW_HEADERS: "headers", RAW_TOPIC: "topic"}
_POSITION: Final = ("topic", "partition", "offset")
_FIRST_PAUSE_S: Final = 0.3
_NOT_TOLERATED: Final = "Tolerance exceeded in error handler:"
_MOST_LOGGED: Final = 1000
"""Lines a batch: a topic full of poison must not fill the disk with its log."""


class AbandonedError(Exception):
    """The task is to end while a batch is being retried."""


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """The settings, parsed. producer: client settings to write dead letters with; tell: hears what goes wrong."""

    task: ConnectorTaskId
    tolerant: bool
    retry_timeout_ms: int
    retry_delay_max_ms: int
    log: bool
    log_positions: bool
    dead_letters: str
    dead_letter_replicas: int
    context_headers: bool
    producer: Mapping[str, str]
    tell: Callable[[Troubles], None]

    @classmethod
    def of(
        cls,
        config: Mapping[str, str],
        task: ConnectorTaskId,
        producer: Mapping[str, str],
        tell: Callable[[Troubles], None],
    ) -> ErrorHandling:
        """Parse a connector's configuration; ConfigError."""
        values = ERROR_KEYS.parse(config).values
        timeout = values["errors.retry.timeout"]
        return cls(
            task,
            values["errors.tolerance"] == "all",
            -1 if timeout is None else timeout,
            values["errors.retry.delay.max.ms"],
            values["errors.log.enable"],
            values["errors.log.include.messages"],
            values["errors.deadletterqueue.topic.name"].strip(),
            values["errors.deadletterqueue.topic.replication.factor"],
            values["errors.deadletterqueue.context.headers.enable"],
            producer,
            tell,
        )

    # Retries.

    def retried(self, work: Callable[[], T], cut_off: Event, what: str, *, timeout_ms: int | None = None) -> T:
        """Do something until it does not raise RetriableError, or the time for that is over; blocks.

        timeout_ms: how long, -1 without end; `errors.retry.timeout` says it unless given. AbandonedError when `cut_off`
        is set while it waits.
        """
        timeout_ms = self.retry_timeout_ms if timeout_ms is None else timeout_ms
        begun = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return work()
            except RetriableError as error:
                waited_ms = (time.monotonic() - begun) * 1000
                if 0 <= timeout_ms <= waited_ms:
                    raise
                pause_s = min(pause_s, self.retry_delay_max_ms / 1000)
                log.warning("retrying", task=str(self.task), what=what, pause_s=pause_s, why=str(error))
                if cut_off.wait(pause_s):
                    raise AbandonedError from error
                self.tell(Troubles(retries=1))
                pause_s *= 2

    # Failing records.

    def with_originals(self, frame: DataFrame) -> DataFrame:
        """Keep what came from Kafka beside what is made of it, where dead letters are wanted."""
        if not (self.tolerant and self.dead_letters):
            return frame
        return frame.withColumns({raw: F.col(name) for raw, name in _RAW.items()})

    def without_originals(self, frame: DataFrame) -> DataFrame:
        """Give what a sink sees."""
        return frame.drop(FAILURE, *_RAW)

    def guarded(self, frame: DataFrame) -> DataFrame:
        """Have the first failing record fail whoever reads the frame."""
        told = [
            F.lit(_NOT_TOLERATED),
            *(F.col(f"{FAILURE}.{field}") for field in (STAGE, CLASS_NAME, EXCEPTION, MESSAGE)),
            *(F.concat(F.lit(f"{name}="), name) for name in _POSITION if name in frame.columns),
        ]
        failing = F.raise_error(F.concat_ws(" ", *told)).cast("boolean")
        return frame.where(F.when(F.col(FAILURE).isNull(), F.lit(True)).otherwise(failing))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Tell of the record for which a guarded frame has failed."""
        try:
            yield
        except Exception as error:
            if _NOT_TOLERATED in str(error):
                self.tell(Troubles(failures=1))
            raise

    def report(self, failing: DataFrame, count: int) -> None:
        """Log failing records and send them to the dead letter topic, as configured. count: how many they are."""
        if self.dead_letters:
            try:
                written(self._dead_letters(failing), self.producer, self.dead_letters)
            except Exception:
                self.tell(Troubles(dead_letters=count, lost_letters=count))
                raise
            self.tell(Troubles(dead_letters=count))
        if self.log:
            self._log_records(failing)

    def _log_records(self, failing: DataFrame) -> None:
        """Write a line for each failing record, the first thousand of a batch."""
        columns = ["topic", "partition", "offset", "timestamp", FAILURE]
        rows = failing.select(*[name for name in columns if name in failing.columns]).limit(_MOST_LOGGED).collect()
        for row in rows:
            where = {name: row[name] for name in columns[:4] if name in row} if self.log_positions else {}
            failure = row[FAILURE]
            log.error(
                "record failed",
                task=str(self.task),
                stage=failure[STAGE],
                by=failure[CLASS_NAME],
                exception=failure[EXCEPTION],
                **where,
            )
        self.tell(Troubles(logged=len(rows)))

    def _dead_letters(self, failing: DataFrame) -> DataFrame:
        headers: Column = F.coalesce(RAW_HEADERS, F.array().cast(HEADERS))
        if self.context_headers:
            headers = F.concat(headers, self._context())
        return failing.select(F.col(RAW_KEY).alias("key"), F.col(RAW_VALUE).alias("value"), headers.alias("headers"))

    def _context(self) -> Column:
        said = {
            "topic": F.col(RAW_TOPIC),
            "partition": F.col("partition"),
            "offset": F.col("offset"),
            "connector.name": F.lit(self.task.connector),
            "task.id": F.lit(self.task.task),
            "stage": F.col(f"{FAILURE}.{STAGE}"),
            "class.name": F.col(f"{FAILURE}.{CLASS_NAME}"),
            "exception.class.name": F.col(f"{FAILURE}.{EXCEPTION}"),
            "exception.message": F.col(f"{FAILURE}.{MESSAGE}"),
            "exception.stacktrace": F.concat_ws(": ", f"{FAILURE}.{EXCEPTION}", f"{FAILURE}.{MESSAGE}"),
        }
        pairs = [
            F.struct(F.lit(HEADER_PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in said.items()
        ]
        return F.array(*pairs)
