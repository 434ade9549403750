"""The options of `format("barnabas")`: the names, meanings and defaults of Spark's own Kafka source and sink.

Client settings keep their `kafka.` prefix here and lose it in `client`. Values like `${env:NAME}` and
`${file:PATH:key}` stay as they are: whoever opens a connection resolves them, so nothing that Spark shows,
stores or sends holds the secret itself.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtTimestamp,
    Bound,
    Edge,
    OptionError,
    SpecificOffsets,
    parse_assignment,
    parse_partition_numbers,
)

CLIENT_PREFIX: Final = "kafka."
BOOTSTRAP: Final = "kafka.bootstrap.servers"

READ_OPTIONS: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp",
    "endingOffsetsByTimestamp", "maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss", "includeHeaders",
    "groupIdPrefix",
)  # fmt: skip
WRITE_OPTIONS: Final = ("topic", "includeHeaders", "exactlyOnce", "transactionalIdPrefix", "txnAppId", "txnVersion")
DEFAULT_TRANSACTIONAL_ID_PREFIX: Final = "barnabas-spark"
UNSUPPORTED: Final = {
    "minOffsetsPerTrigger": "use a longer trigger interval",
    "maxTriggerDelay": "use a longer trigger interval",
    "maxRecordsPerPartition": "use minPartitions",
}
"""Options of Spark's source that we know and do not do; the value says what to use."""

FORBIDDEN_CLIENT: Final = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "offsets are committed when Spark has finished a batch",
    "key.deserializer": "keys are always bytes; cast the column",
    "value.deserializer": "values are always bytes; cast the column",
    "key.serializer": "keys are written as the bytes of the column",
    "value.serializer": "values are written as the bytes of the column",
    "interceptor.classes": "interceptors are Java classes",
    "transactional.id": "each task has one of its own; use exactlyOnce, and transactionalIdPrefix for how they begin",
}

_SENSITIVE: Final = re.compile(r"password|secret|jaas|ssl\.keystore\.key$|ssl\.key\.pem$", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\$\{(env|file):[^}]+\}")


@dataclass(frozen=True, slots=True)
class TopicNames:
    """`subscribe`: these topics, all their partitions."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """`subscribePattern`: every topic whose whole name matches this regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """`assign`: these partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Selection = TopicNames | TopicPattern | Assignment


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A checked read. client: Kafka client settings without the prefix, secrets unresolved."""

    client: Mapping[str, str]
    selection: Selection
    starting: Bound
    ending: Bound
    group_id: str | None = None
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False

    @property
    def read_committed(self) -> bool:
        """Say whether records of open and aborted transactions are hidden."""
        return self.client.get("isolation.level", "read_uncommitted") == "read_committed"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A checked write. topic: where every row goes, whatever its topic column says; None when rows say.

    transactional_id_prefix: how the transactional ids of an exactly once write begin; None when it is at least once.
    write_id: what a batch write is called each time it is run, txnAppId and txnVersion; None when it has no name.
    """

    client: Mapping[str, str]
    topic: str | None = None
    transactional_id_prefix: str | None = None
    write_id: tuple[str, int] | None = None


def parse_read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a read; OptionError names the first that cannot be used."""
    given = _fold(options, READ_OPTIONS)
    client = _client(options)
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if name in given:
                raise OptionError(f"{name} has no meaning in a streaming query, which does not end")
    isolation = client.get("isolation.level", "read_uncommitted")
    if isolation not in ("read_uncommitted", "read_committed"):
        raise OptionError(f"kafka.isolation.level is {isolation!r}, want read_uncommitted or read_committed")
    return ReadOptions(
        client=client,
        selection=_selection(given),
        starting=_starting(given, streaming),
        ending=_ending(given),
        group_id=client.get("group.id"),
        max_offsets_per_trigger=_positive(given, "maxOffsetsPerTrigger"),
        min_partitions=_positive(given, "minPartitions"),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        include_headers=_boolean(given, "includeHeaders", False),
    )


def wants_headers(options: Mapping[str, str]) -> bool:
    """Say whether a read has the column `headers`: asked on its own, since Spark asks for columns first."""
    return _boolean(_fold(options, READ_OPTIONS), "includeHeaders", False)


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Check the options of a write; OptionError names the first that cannot be used."""
    given = _fold(options, WRITE_OPTIONS)
    client = _client(options)
    prefix = _transactional_id_prefix(given, client)
    return WriteOptions(client, given.get("topic", "").strip() or None, prefix, _write_id(given, prefix))


def _write_id(given: Mapping[str, str], prefix: str | None) -> tuple[str, int] | None:
    app, version = (given.get(name, "").strip() for name in ("txnAppId", "txnVersion"))
    if not app and not version:
        return None
    if not app or not (version.isascii() and version.isdigit()):
        raise OptionError(
            f"txnAppId is {app!r} and txnVersion {version!r}: give both, a name and a number that grows by each write"
        )
    if prefix is None:
        raise OptionError("txnAppId has no effect without transactions: set exactlyOnce to true as well")
    return app, int(version)


def _transactional_id_prefix(given: Mapping[str, str], client: Mapping[str, str]) -> str | None:
    prefix = given.get("transactionalIdPrefix", DEFAULT_TRANSACTIONAL_ID_PREFIX).strip()
    if not _boolean(given, "exactlyOnce", False):
        if "transactionalIdPrefix" in given:
            raise OptionError(
                "transactionalIdPrefix has no effect without transactions: set exactlyOnce to true as well"
            )
        return None
    if not prefix:
        raise OptionError("transactionalIdPrefix is empty, want how the transactional ids begin, such as orders-job")
    for key, needed in (("acks", ("all", "-1")), ("enable.idempotence", ("true",))):
        if (value := client.get(key, needed[0]).strip().lower()) not in needed:
            raise OptionError(f"kafka.{key} is {value!r}, but exactlyOnce needs {needed[0]}: leave kafka.{key} out")
    return prefix


def _fold(options: Mapping[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """Give the known options under their right spelling (Spark ignores case); a likely slip is an error."""
    spelling = {name.lower(): name for name in known}
    unsupported = {name.lower(): name for name in UNSUPPORTED}
    given: dict[str, str] = {}
    for key, value in options.items():
        lower = key.lower()
        if lower in spelling:
            given[spelling[lower]] = value
        elif lower in unsupported:
            name = unsupported[lower]
            raise OptionError(f"{name} is not supported: {UNSUPPORTED[name]}")
        elif not lower.startswith(CLIENT_PREFIX):
            close = difflib.get_close_matches(lower, spelling, n=1, cutoff=0.85)
            if close:
                raise OptionError(f"there is no option {key}; did you mean {spelling[close[0]]}?")
    return given


def _client(options: Mapping[str, str]) -> dict[str, str]:
    client = {
        key[len(CLIENT_PREFIX) :]: value
        for key, value in sorted(options.items())
        if key.lower().startswith(CLIENT_PREFIX)
    }
    if not client.get("bootstrap.servers", "").strip():
        raise OptionError(f"{BOOTSTRAP} is missing, want host:port,... of one or more nodes")
    for key, instead in FORBIDDEN_CLIENT.items():
        if key in client:
            raise OptionError(f"kafka.{key} cannot be set here: {instead}")
    for key, value in client.items():
        if _SENSITIVE.search(key) and value and not _REFERENCE.search(value):
            raise OptionError(
                f"kafka.{key} holds a secret as plain text, which Spark would show in plans and event logs; "
                "give ${env:NAME} or ${file:PATH:key} instead, resolved where the connection is made"
            )
    return client


def _selection(given: Mapping[str, str]) -> Selection:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if len(chosen) != 1:
        raise OptionError(
            f"give exactly one of subscribe, subscribePattern and assign, not {' and '.join(chosen) or 'none'}"
        )
    text = given[chosen[0]].strip()
    if chosen[0] == "assign":
        return Assignment(parse_assignment("assign", text))
    if chosen[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern is {text!r}, not a regular expression: {error}") from error
        return TopicPattern(text)
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise OptionError("subscribe names no topic")
    return TopicNames(topics)


def _starting(given: Mapping[str, str], streaming: bool) -> Bound:
    by_time = _by_time(given, "startingTimestamp", "startingOffsetsByTimestamp")
    if by_time is not None:
        return by_time
    bound = _edge_or_offsets(given, "startingOffsets", Edge.LATEST if streaming else Edge.EARLIEST)
    if not streaming and (bound is Edge.LATEST or _mentions(bound, LATEST_OFFSET)):
        raise OptionError("startingOffsets is latest (-1): a batch read from there would always be empty")
    return bound


def _ending(given: Mapping[str, str]) -> Bound:
    by_time = _by_time(given, "endingTimestamp", "endingOffsetsByTimestamp")
    if by_time is not None:
        return AtTimestamp(by_time.everywhere_ms, by_time.by_partition_ms, latest_when_none=True)
    bound = _edge_or_offsets(given, "endingOffsets", Edge.LATEST)
    if bound is Edge.EARLIEST or _mentions(bound, EARLIEST_OFFSET):
        raise OptionError("endingOffsets is earliest (-2): a read up to there would always be empty")
    return bound


def _by_time(given: Mapping[str, str], everywhere: str, by_partition: str) -> AtTimestamp | None:
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy is {strategy!r}, want error or latest")
    if everywhere in given:
        return AtTimestamp(everywhere_ms=_number(given, everywhere, 0), latest_when_none=strategy == "latest")
    if by_partition in given:
        times = parse_partition_numbers(by_partition, given[by_partition])
        return AtTimestamp(by_partition_ms=times, latest_when_none=strategy == "latest")
    return None


def _edge_or_offsets(given: Mapping[str, str], option: str, default: Edge) -> Bound:
    text = given.get(option, default.value).strip()
    if text.lower() in (Edge.EARLIEST.value, Edge.LATEST.value):
        return Edge(text.lower())
    if not text.startswith("{"):
        raise OptionError(f"{option} is {text!r}, want earliest, latest or JSON like "
                          '{"topicA": {"0": 23, "1": -2}}')  # fmt: skip
    offsets = parse_partition_numbers(option, text)
    for partition, offset in offsets.items():
        if offset < EARLIEST_OFFSET:
            raise OptionError(f"{option} gives {offset} for {partition}, want an offset, -1 (latest) or -2 (earliest)")
    return SpecificOffsets(offsets)


def _mentions(bound: Bound, offset: int) -> bool:
    return isinstance(bound, SpecificOffsets) and offset in bound.offsets.values()


def _number(given: Mapping[str, str], option: str, least: int) -> int:
    text = given[option]
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise OptionError(f"{option} is {text!r}, want a whole number of at least {least}")
    return value


def _positive(given: Mapping[str, str], option: str) -> int | None:
    return _number(given, option, 1) if option in given else None


def _boolean(given: Mapping[str, str], option: str, default: bool) -> bool:
    text = given.get(option, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"{option} is {text!r}, want true or false")
    return text == "true"
