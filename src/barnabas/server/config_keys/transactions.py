"""Keys of the transaction log, `__transaction_state`."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, Importance, at_least

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
)
