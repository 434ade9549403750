"""Keys of transactions and of their log, `__transaction_state`."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, DynamicMode, Importance, at_least

KEYS: Final = (
    ConfigKey(
        "transaction.state.log.min.isr",
        ConfigType.INT,
        2,
        "How many replicas of the transaction log have to be in sync for a write.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        ConfigType.INT,
        50,
        "How many partitions the transaction log has.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        ConfigType.SHORT,
        3,
        "How many replicas the transaction log has.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        ConfigType.INT,
        104_857_600,
        "The segment size of the transaction log, bytes.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ConfigType.INT,
        10_000,
        "How often transactions that take longer than their time-out are looked for and aborted, ms.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.max.timeout.ms",
        ConfigType.INT,
        900_000,
        "The longest time-out that a producer may ask for its transactions, ms.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigType.INT,
        3_600_000,
        "How often transactional ids that nobody uses are looked for and forgotten, ms.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.load.buffer.size",
        ConfigType.INT,
        5_242_880,
        "How much of the transaction log is read at once when it is loaded, bytes.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        604_800_000,
        "How long a transactional id is remembered after its last transaction, ms.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "transaction.partition.verification.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether the coordinator is asked before the first batch of a transaction is appended to a partition, for "
        "clients that add partitions themselves (before transaction.version 2).",
        importance=Importance.LOW,
        dynamic=DynamicMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.ms",
        ConfigType.INT,
        20,
        "How long to wait before a coordinator is asked again that is still ending the transaction before, ms.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.max.ms",
        ConfigType.INT,
        100,
        "For how long it is asked again, ms; then the client is to send its records again.",
        importance=Importance.HIGH,
        validator=at_least(0),
    ),
    ConfigKey(
        "transaction.two.phase.commit.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether producers may keep transactions open until somebody else ends them (KIP-939): those have no time-out.",
        importance=Importance.LOW,
    ),
)
