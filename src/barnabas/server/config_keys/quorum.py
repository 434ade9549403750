"""Keys of the metadata quorum."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, DynamicMode, Importance, at_least

KEYS: Final = (
    ConfigKey(
        "controller.quorum.voters",
        ConfigType.LIST,
        (),
        "The voters of a static quorum: id@host:port, separated by commas.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "controller.quorum.bootstrap.servers",
        ConfigType.LIST,
        (),
        "Where controllers are found: host:port, separated by commas (KIP-853).",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "metadata.log.dir",
        ConfigType.STRING,
        None,
        "The directory of the metadata log; the first of log.dirs unless set.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "metadata.log.segment.bytes",
        ConfigType.INT,
        1_073_741_824,
        "A segment of the metadata log is closed at this size, bytes.",
        importance=Importance.HIGH,
        validator=at_least(8_388_608),
    ),
    ConfigKey(
        "metadata.log.segment.ms",
        ConfigType.LONG,
        604_800_000,
        "A segment of the metadata log is closed at this age, ms.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        ConfigType.LONG,
        20_971_520,
        "A snapshot is made after this many bytes of records.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        ConfigType.LONG,
        3_600_000,
        "A snapshot is made at least this often, ms; 0 is never by time.",
        importance=Importance.HIGH,
        validator=at_least(0),
    ),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        ConfigType.INT,
        500,
        "How often an idle active controller writes a no-op record, ms; 0 is never.",
        importance=Importance.LOW,
        validator=at_least(0),
    ),
    ConfigKey(
        "metadata.max.retention.bytes",
        ConfigType.LONG,
        104_857_600,
        "Metadata log and snapshots are kept below this size, bytes.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "metadata.max.retention.ms",
        ConfigType.LONG,
        604_800_000,
        "Old metadata snapshots and segments are kept this long, ms.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "broker.heartbeat.interval.ms",
        ConfigType.INT,
        2_000,
        "A broker tells the active controller this often that it lives, ms.",
    ),
    ConfigKey(
        "broker.session.timeout.ms",
        ConfigType.INT,
        9_000,
        "The active controller fences a broker that was silent for so long, ms.",
    ),
    ConfigKey(
        "initial.broker.registration.timeout.ms",
        ConfigType.INT,
        60_000,
        "A broker that no controller has registered within this time gives up and stops, ms.",
    ),
    ConfigKey(
        "cordoned.log.dirs",
        ConfigType.LIST,
        (),
        "Log directories that get no new replicas; * for all of them (KIP-1066).",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "internal.metadata.log.segment.bytes",
        ConfigType.INT,
        None,
        "As metadata.log.segment.bytes, without its lower bound; for tests.",
        importance=Importance.LOW,
        internal=True,
    ),
    ConfigKey(
        "internal.metadata.max.batch.size.in.bytes",
        ConfigType.INT,
        8_388_608,
        "The most bytes that one batch of the metadata log takes.",
        importance=Importance.LOW,
        internal=True,
    ),
)
