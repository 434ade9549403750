"""Keys of the group coordinator."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, Importance, at_least

MAX_INT32: Final = (1 << 31) - 1

KEYS: Final = (
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
