"""The configuration of a topic: every key of Kafka 4.3, its server synonyms, and the values a log works with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.model.config import (
    ConfigError,
    ConfigKey,
    ConfigTable,
    ConfigType,
    DynamicMode,
    Importance,
    Validator,
    at_least,
    between,
    one_of,
)
from barnabas.wire.compression import Compression

_MAX_LONG: Final = 2**63 - 1
_WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000
_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _policies(value: Iterable[Any]) -> str | None:
    items = list(value)
    if not set(items) <= {"compact", "delete"}:
        return "want compact, delete, or both"
    return None


def _throttled_replicas(value: Iterable[Any]) -> str | None:
    items = list(value)
    wanted = "want * or a list of partition:broker pairs, for example 0:101,1:102"
    if items == ["*"]:
        return None
    for item in items:
        partition, colon, broker = str(item).partition(":")
        if not (colon and partition.isdigit() and broker.isdigit()):
            return wanted
    return None


def _gzip_level(value: Any) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "want -1 (the library's choice) or a number from 1 to 9"


def _key(name: str, type_: ConfigType, default: object, doc: str, validator: Validator | None = None) -> ConfigKey:
    internal = name.startswith("internal.")
    return ConfigKey(name, type_, default, doc, Importance.MEDIUM, validator, DynamicMode.CLUSTER_WIDE, internal)


_INT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE
_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST

TOPIC_CONFIG: Final = ConfigTable(
    _key(
        "cleanup.policy", _LIST, ("delete",),
        "What happens to old data: `delete` drops it by age or size, `compact` keeps the newest value of each key; "
        "both may be given, and with neither nothing is dropped.", _policies,
    ),
    _key(
        "compression.gzip.level", _INT, -1,
        "How hard gzip works when the topic's codec is gzip: -1, or 1 (fast) to 9 (small).", _gzip_level,
    ),
    _key("compression.lz4.level", _INT, 9, "How hard lz4 works when the topic's codec is lz4.", between(1, 17)),
    _key(
        "compression.type", _STRING, "producer",
        "The codec in which batches are stored. `producer` stores them as they came; any other value compresses "
        "anew what came in another codec.", one_of(*_CODECS),
    ),
    _key(
        "compression.zstd.level", _INT, 3, "How hard zstd works when the topic's codec is zstd.",
        between(-131072, 22),
    ),
    _key(
        "delete.retention.ms", _LONG, 86_400_000,
        "How long the tombstone of a deleted key, and the marker of a transaction, stay in a compacted topic.",
        at_least(0),
    ),
    _key(
        "file.delete.delay.ms", _LONG, 60_000,
        "How long the file of a dropped segment stays on disk under another name.", at_least(0),
    ),
    _key("flush.messages", _LONG, _MAX_LONG, "Force data to the disk after so many records.", at_least(1)),
    _key("flush.ms", _LONG, _MAX_LONG, "Force data to the disk after so many milliseconds.", at_least(0)),
    _key(
        "follower.replication.throttled.replicas", _LIST, (),
        "Replicas whose followers keep to the replication quota: partition:broker pairs, or *.", _throttled_replicas,
    ),
    _key(
        "index.interval.bytes", _INT, 4096,
        "An index entry is made after so many bytes of records. Smaller finds positions faster, and grows the index.",
        at_least(0),
    ),
    _key(
        "leader.replication.throttled.replicas", _LIST, (),
        "Replicas whose leaders keep to the replication quota: partition:broker pairs, or *.", _throttled_replicas,
    ),
    _key(
        "local.retention.bytes", _LONG, -2,
        "With tiered storage, the bytes kept on this node; -2 means retention.bytes.", at_least(-2),
    ),
    _key(
        "local.retention.ms", _LONG, -2,
        "With tiered storage, the time data is kept on this node; -2 means retention.ms.", at_least(-2),
    ),
    _key(
        "max.compaction.lag.ms", _LONG, _MAX_LONG,
        "A record is compacted at the latest after this time.", at_least(1),
    ),
    _key(
        "max.message.bytes", _INT, 1_048_588,
        "The largest record batch that is accepted, as it stands on disk (compressed).", at_least(0),
    ),
    _key(
        "message.timestamp.after.max.ms", _LONG, 3_600_000,
        "How far ahead of this node's clock a record's timestamp may be.", at_least(0),
    ),
    _key(
        "message.timestamp.before.max.ms", _LONG, _MAX_LONG,
        "How far behind this node's clock a record's timestamp may be.", at_least(0),
    ),
    _key(
        "message.timestamp.type", _STRING, "CreateTime",
        "Whether records keep the producer's time (CreateTime) or get the time of their arrival (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
    ),
    _key(
        "min.cleanable.dirty.ratio", _DOUBLE, 0.5,
        "A log is compacted when at least this share of it was written since the last time.", between(0, 1),
    ),
    _key("min.compaction.lag.ms", _LONG, 0, "A record stays uncompacted at least this long.", at_least(0)),
    _key(
        "min.insync.replicas", _INT, 1,
        "With acks=all, how many replicas must have a record before it is acknowledged.", at_least(1),
    ),
    _key("preallocate", _BOOLEAN, False, "Reserve the disk space of a new segment at once."),
    _key(
        "remote.log.copy.disable", _BOOLEAN, False,
        "With tiered storage, no more segments go there; what is there stays readable.",
    ),
    _key(
        "remote.log.delete.on.disable", _BOOLEAN, False,
        "When tiered storage is switched off for the topic, its tiered data is deleted.",
    ),
    _key("remote.storage.enable", _BOOLEAN, False, "Whether the topic uses tiered storage (not offered here)."),
    _key(
        "retention.bytes", _LONG, -1,
        "The bytes a partition may keep before its oldest segments are dropped; -1 is no limit.",
    ),
    _key("retention.ms", _LONG, _WEEK_MS, "How long data is kept; -1 is for ever.", at_least(-1)),
    _key("segment.bytes", _INT, 2**30, "The size at which a segment ends and a new one begins.", at_least(1024 * 1024)),
    _key("segment.index.bytes", _INT, 10 * 1024 * 1024, "The largest size of a segment's index.", at_least(4)),
    _key(
        "segment.jitter.ms", _LONG, 0,
        "At most so much is taken off segment.ms, by chance, so that not all segments end together.", at_least(0),
    ),
    _key("segment.ms", _LONG, _WEEK_MS, "The age at which a segment ends even if it is not full.", at_least(1)),
    _key(
        "unclean.leader.election.enable", _BOOLEAN, False,
        "Whether a replica outside the in-sync set may lead when no other can, at the price of lost data.",
    ),
    _key("internal.segment.bytes", _INT, None, "Overrides segment.bytes without its lower bound; for tests."),
)  # fmt: skip
"""Every key a topic can have, in the order of their names."""


class Synonym(NamedTuple):
    """A server key from which a topic key takes its default; factor: what makes its unit the topic key's."""

    name: str
    factor: int = 1


_MINUTES: Final = 60_000
_HOURS: Final = 3_600_000

TOPIC_CONFIG_SYNONYMS: Final[Mapping[str, tuple[Synonym, ...]]] = {
    "segment.bytes": (Synonym("log.segment.bytes"),),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOURS)),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOURS)),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "retention.bytes": (Synonym("log.retention.bytes"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTES),
        Synonym("log.retention.hours", _HOURS),
    ),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "cleanup.policy": (Synonym("log.cleanup.policy"),),
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
    "preallocate": (Synonym("log.preallocate"),),
    "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
    "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
    "local.retention.ms": (Synonym("log.local.retention.ms"),),
    "local.retention.bytes": (Synonym("log.local.retention.bytes"),),
}
"""The server keys behind each topic key, the strongest first. Keys without one have only their default."""


def topic_defaults(server: Mapping[str, object]) -> dict[str, str]:
    """Give the topic defaults, as texts, that a server's configuration sets.

    server: server keys that are set, as texts or typed; None counts as not set. A time of -1 (no limit) stays -1.
    """
    defaults = {}
    for name, synonyms in TOPIC_CONFIG_SYNONYMS.items():
        for synonym in synonyms:
            value = server.get(synonym.name)
            if value is None:
                continue
            if synonym.factor != 1:
                number = int(str(value))
                value = number * synonym.factor if number > 0 else number
            defaults[name] = TOPIC_CONFIG[name].format(value) or ""
            break
    return defaults


def validate_topic_config(properties: Mapping[str, str]) -> None:
    """ConfigError when a topic may not be configured so; the text names key, value and what would be right."""
    LogConfig.of(properties)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The values that a log works with; field names follow the keys. overrides: the texts set on the topic itself."""

    compact: bool = False
    delete: bool = True
    compression: Compression | None = None
    """None: stored as the producer sent it."""
    compression_level: int | None = None
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _MAX_LONG
    flush_ms: int = _MAX_LONG
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = _MAX_LONG
    max_message_bytes: int = 1_048_588
    timestamp_after_max_ms: int = 3_600_000
    timestamp_before_max_ms: int = _MAX_LONG
    log_append_time: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = _WEEK_MS
    segment_bytes: int = 2**30
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = _WEEK_MS
    unclean_leader_election: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, overrides: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> LogConfig:
        """Give the configuration of a topic: `overrides` over the server's `defaults` (see `topic_defaults`).

        ConfigError when a key is unknown, a value is wrong, or values contradict each other.
        """
        for name in overrides:
            if name not in TOPIC_CONFIG:
                nearest = TOPIC_CONFIG.nearest(name)
                hint = f"; did you mean {nearest}?" if nearest else ""
                raise ConfigError(f"{name} is not a topic setting{hint}")
        values = TOPIC_CONFIG.parse({**(defaults or {}), **overrides}).values
        _check_together(values)
        codec = values["compression.type"]
        compression = None if codec == "producer" else _BY_NAME[codec]
        segment_bytes = values["internal.segment.bytes"] or values["segment.bytes"]
        return cls(
            compact="compact" in values["cleanup.policy"],
            delete="delete" in values["cleanup.policy"],
            compression=compression,
            compression_level=values.get(f"compression.{codec}.level"),
            delete_retention_ms=values["delete.retention.ms"],
            file_delete_delay_ms=values["file.delete.delay.ms"],
            flush_messages=values["flush.messages"],
            flush_ms=values["flush.ms"],
            index_interval_bytes=values["index.interval.bytes"],
            max_compaction_lag_ms=values["max.compaction.lag.ms"],
            max_message_bytes=values["max.message.bytes"],
            timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
            timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
            min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
            min_compaction_lag_ms=values["min.compaction.lag.ms"],
            min_insync_replicas=values["min.insync.replicas"],
            preallocate=values["preallocate"],
            retention_bytes=values["retention.bytes"],
            retention_ms=values["retention.ms"],
            segment_bytes=segment_bytes,
            segment_index_bytes=values["segment.index.bytes"],
            segment_jitter_ms=values["segment.jitter.ms"],
            segment_ms=values["segment.ms"],
            unclean_leader_election=values["unclean.leader.election.enable"],
            overrides=dict(overrides),
        )

    @property
    def max_segment_ms(self) -> int:
        """Give the age at which a segment ends: a compacted log must roll in time for its maximum lag."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compact else self.segment_ms


_BY_NAME: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def _check_together(values: Mapping[str, Any]) -> None:
    if values["min.compaction.lag.ms"] > values["max.compaction.lag.ms"]:
        raise ConfigError(
            f"min.compaction.lag.ms: {values['min.compaction.lag.ms']} is not allowed; "
            f"want at most max.compaction.lag.ms, {values['max.compaction.lag.ms']}"
        )
    if values["remote.storage.enable"]:
        raise ConfigError("remote.storage.enable: true is not allowed; tiered storage is not offered here")
