"""Keys of who a peer is and what its login is checked against: principals, delegation tokens."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, DynamicMode, Importance, at_least

KEYS: Final = (
    ConfigKey(
        "principal.builder.class",
        ConfigType.CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "What makes principals of connections: Kafka's default builder, or a Python class as module:Class that also has serialize and deserialize (KIP-590).",
        dynamic=DynamicMode.PER_BROKER,
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        ConfigType.LONG,
        3_600_000,
        "How often the controller looks for delegation tokens that are past their time, ms.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        ConfigType.LONG,
        86_400_000,
        "How long a delegation token is good for until it is renewed, ms.",
        validator=at_least(1),
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        ConfigType.LONG,
        604_800_000,
        "How long a delegation token can be renewed for, ms from its making.",
        validator=at_least(1),
    ),
    ConfigKey(
        "delegation.token.secret.key",
        ConfigType.PASSWORD,
        None,
        "What delegation tokens are made from; the same on every node of the cluster. Empty or not set: there are no tokens (KIP-48).",
    ),
)
