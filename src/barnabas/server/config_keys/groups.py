"""Keys of the group coordinator."""

from typing import Final

from barnabas.model.config import (
    ConfigKey,
    ConfigType,
    DynamicMode,
    Importance,
    at_least,
    each_of,
    not_empty,
    one_of,
)

MAX_INT32: Final = (1 << 31) - 1


def _bounds(what: str, low: int, high: int, doc: str, *, least: int = 1) -> tuple[ConfigKey, ConfigKey]:
    """Give the keys between which the brokers keep what a group sets for itself."""
    return (
        ConfigKey(f"group.consumer.min.{what}", ConfigType.INT, low, f"{doc} at least, ms.", validator=at_least(least)),
        ConfigKey(f"group.consumer.max.{what}", ConfigType.INT, high, f"{doc} at most, ms.", validator=at_least(least)),
    )


KEYS: Final = (
    ConfigKey(
        "group.consumer.assignment.interval.ms",
        ConfigType.INT,
        1_000,
        "How long a target assignment of a consumer group stands at least before another is computed, ms.",
        validator=at_least(0),
        dynamic=DynamicMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.consumer.assignors",
        ConfigType.LIST,
        ("uniform", "range"),
        "What members of consumer groups may ask for, `uniform` and `range`. The first one is the default.",
        validator=not_empty,
    ),
    ConfigKey(
        "group.consumer.heartbeat.interval.ms",
        ConfigType.INT,
        5_000,
        "How often members of consumer groups shall send heartbeats, ms.",
        validator=at_least(1),
    ),
    *_bounds("assignment.interval.ms", 0, 15_000, "What consumer.assignment.interval.ms of a group may be", least=0),
    *_bounds("heartbeat.interval.ms", 5_000, 15_000, "What consumer.heartbeat.interval.ms of a group may be"),
    *_bounds("session.timeout.ms", 45_000, 60_000, "What consumer.session.timeout.ms of a group may be"),
    ConfigKey(
        "group.consumer.max.size",
        ConfigType.INT,
        MAX_INT32,
        "How many members a consumer group may have.",
        validator=at_least(1),
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        ConfigType.STRING,
        "bidirectional",
        "Which way a group with members may change its protocol: to the consumer protocol (upgrade), to the classic "
        "one when the last consumer leaves (downgrade), both, or disabled. A group without members always may.",
        validator=one_of("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", ignore_case=True),
    ),
    ConfigKey(
        "group.consumer.regex.refresh.interval.ms",
        ConfigType.INT,
        600_000,
        "How often regular expressions of consumer groups are matched against all topics at least, ms.",
        validator=at_least(10_000),
        internal=True,
    ),
    ConfigKey(
        "group.consumer.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "How long a member of a consumer group may be silent before it is put out of it, ms.",
        validator=at_least(1),
    ),
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        ConfigType.LIST,
        ("classic", "consumer", "streams"),
        "Which group protocols are served: `classic` always; `consumer` where the cluster's group.version is 1. Share "
        "and streams groups are not served.",
        validator=each_of("consumer", "classic", "share", "streams"),
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        3_000,
        "How long a new group waits for more members before its first assignment, ms.",
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        ConfigType.INT,
        1_800_000,
        "The longest session timeout a member may ask for, ms.",
    ),
    ConfigKey(
        "group.min.session.timeout.ms",
        ConfigType.INT,
        6_000,
        "The shortest session timeout a member may ask for, ms.",
    ),
    ConfigKey(
        "group.max.size",
        ConfigType.INT,
        MAX_INT32,
        "How many members a group may have.",
        validator=at_least(1),
    ),
    ConfigKey(
        "group.coordinator.append.linger.ms",
        ConfigType.INT,
        -1,
        "How long the coordinator gathers writes into one batch, ms; 0 or -1: what one turn of its loop brings.",
        validator=at_least(-1),
    ),
    ConfigKey(
        "offset.metadata.max.bytes",
        ConfigType.INT,
        4_096,
        "The longest note that may be stored with an offset, bytes.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        ConfigType.INT,
        5_000,
        "How long what a coordinator writes may take to reach every replica in sync before clients are told that it "
        "takes too long, ms.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        ConfigType.INT,
        5_242_880,
        "How much of the offsets topic is read at once when a coordinator starts, bytes.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        600_000,
        "How often outdated offsets are looked for, ms.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "offsets.retention.minutes",
        ConfigType.INT,
        10_080,
        "Offsets of an empty group are kept this long, minutes.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "offsets.topic.compression.codec",
        ConfigType.INT,
        0,
        "The codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "offsets.topic.num.partitions",
        ConfigType.INT,
        50,
        "How many partitions the offsets topic has.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "How many replicas the offsets topic has.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        ConfigType.INT,
        104_857_600,
        "The segment size of the offsets topic, bytes.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
)
