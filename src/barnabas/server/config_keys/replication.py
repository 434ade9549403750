"""How replicas follow their leaders, stay in sync, and move between directories and brokers."""

from typing import Final

from barnabas.core.replication.read_replica import SELECTORS
from barnabas.model.config import ConfigKey, ConfigType, DynamicMode, Importance, at_least, one_of

UNLIMITED: Final = (1 << 63) - 1

KEYS: Final = (
    ConfigKey(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        30_000,
        "How long a follower may be behind its leader before it is out of sync, ms.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "num.replica.fetchers",
        ConfigType.INT,
        1,
        "How many connections this broker fetches by from each leader.",
        importance=Importance.HIGH,
        validator=at_least(1),
        dynamic=DynamicMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        ConfigType.INT,
        500,
        "How long a leader may keep a follower's fetch waiting for records, ms.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "replica.fetch.min.bytes",
        ConfigType.INT,
        1,
        "How many bytes a leader waits for before it answers a follower's fetch.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "replica.fetch.max.bytes",
        ConfigType.INT,
        1_048_576,
        "How many bytes a follower fetches of one partition at once; a larger batch is fetched all the same.",
        validator=at_least(0),
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        ConfigType.INT,
        10_485_760,
        "How many bytes a follower fetches at once altogether.",
        validator=at_least(0),
    ),
    ConfigKey(
        "replica.fetch.backoff.ms",
        ConfigType.INT,
        1_000,
        "The longest pause of a follower after an error, ms; the first ones are shorter.",
        validator=at_least(0),
    ),
    ConfigKey(
        "replica.socket.timeout.ms",
        ConfigType.INT,
        30_000,
        "How long a follower waits for its leader's answer, ms; more than replica.fetch.wait.max.ms.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "replica.socket.receive.buffer.bytes",
        ConfigType.INT,
        65_536,
        "The receive buffer of a follower's connection to its leader; -1 for the system's.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "replica.selector.class",
        ConfigType.STRING,
        None,
        "Which replica a consumer is sent to: RackAwareReplicaSelector for one in its client.rack; the leader else.",
        validator=one_of(*SELECTORS),
    ),
    ConfigKey(
        "leader.replication.throttled.rate",
        ConfigType.LONG,
        UNLIMITED,
        "How many bytes a second this broker sends to followers that leader.replication.throttled.replicas names.",
        validator=at_least(0),
        dynamic=DynamicMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        "follower.replication.throttled.rate",
        ConfigType.LONG,
        UNLIMITED,
        "How many bytes a second this broker fetches for replicas that follower.replication.throttled.replicas names.",
        validator=at_least(0),
        dynamic=DynamicMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        ConfigType.LONG,
        UNLIMITED,
        "How many bytes a second are copied while replicas move between directories of this broker.",
        validator=at_least(0),
        dynamic=DynamicMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replication.quota.window.num",
        ConfigType.INT,
        11,
        "Over how many windows replication is measured.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "replication.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "The length of such a window, seconds.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.num",
        ConfigType.INT,
        11,
        "Over how many windows the moving between directories is measured.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "The length of such a window, seconds.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "num.replica.alter.log.dirs.threads",
        ConfigType.INT,
        None,
        "How many replicas move between directories at once; the number of directories by default.",
        importance=Importance.HIGH,
    ),
)
