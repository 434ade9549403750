"""Keys of what the active controller decides by itself, and of the policies it asks."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, Importance, at_least

KEYS: Final = (
    ConfigKey(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether leadership goes back to preferred replicas by itself.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        ConfigType.LONG,
        300,
        "How often the controller looks for partitions that their preferred replica does not lead, s.",
        importance=Importance.HIGH,
        validator=at_least(1),
    ),
    ConfigKey(
        "unclean.leader.election.interval.ms",
        ConfigType.LONG,
        300_000,
        "How often the controller elects a leader for partitions without one whose topic allows an unclean election, ms.",
        validator=at_least(1),
        internal=True,
    ),
    ConfigKey(
        "create.topic.policy.class.name",
        ConfigType.CLASS,
        None,
        "A policy that is asked about every new topic: a Python class as module:Class, or an entry point in the group barnabas.policies.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        "alter.config.policy.class.name",
        ConfigType.CLASS,
        None,
        "A policy that is asked about every change of configs: a Python class as module:Class, or an entry point in the group barnabas.policies.",
        importance=Importance.LOW,
    ),
)
