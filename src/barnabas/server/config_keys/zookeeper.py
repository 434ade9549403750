"""Keys of ZooKeeper mode, as Kafka 3.9 had them; those of the connection are its client's own."""

from typing import Any, Final

from barnabas.model.config import ConfigKey, ConfigType, Importance, at_least, one_of
from barnabas.model.protocol_version import LATEST_PROTOCOL_VERSION, ProtocolVersion
from barnabas.net.zookeeper.config_keys import ZOOKEEPER_KEYS

AES_BITS: Final = (128, 192, 256)


def _protocol_version(text: str) -> str | None:
    try:
        ProtocolVersion.parse(text)
    except ValueError as e:
        return str(e)
    return None


def _aes_bits(value: int) -> str | None:
    return None if value in AES_BITS else f"want one of {', '.join(map(str, AES_BITS))}"


def _not_served(value: Any) -> str | None:
    return "it is not served here: certificates of ZooKeeper are not checked for revocation" if value else None


KEYS: Final = (
    *ZOOKEEPER_KEYS,
    ConfigKey(
        "inter.broker.protocol.version",
        ConfigType.STRING,
        str(LATEST_PROTOCOL_VERSION),
        "The oldest release whose brokers this cluster may still have. Raise it when all brokers run the new program; "
        "from 3.0 on brokers forward changes to the controller (KIP-590).",
        validator=_protocol_version,
    ),
    ConfigKey(
        "control.plane.listener.name",
        ConfigType.STRING,
        None,
        "The listener between the controller and the brokers; that between brokers unless set (KIP-291).",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "controlled.shutdown.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a broker that stops hands its partitions over first; with process.roles it always does.",
    ),
    ConfigKey(
        "controlled.shutdown.max.retries",
        ConfigType.INT,
        3,
        "How often a broker that stops asks the controller again to take its partitions over.",
    ),
    ConfigKey(
        "controlled.shutdown.retry.backoff.ms",
        ConfigType.LONG,
        5_000,
        "How long it waits before it asks again, ms.",
    ),
    ConfigKey(
        "password.encoder.secret",
        ConfigType.PASSWORD,
        None,
        "What passwords among the configs of brokers are encrypted with in ZooKeeper; without it none can be kept "
        "(KIP-226).",
    ),
    ConfigKey(
        "password.encoder.old.secret",
        ConfigType.PASSWORD,
        None,
        "The secret before: at a start, what was encrypted with it is encrypted anew.",
    ),
    ConfigKey(
        "password.encoder.keyfactory.algorithm",
        ConfigType.STRING,
        None,
        "How the secret becomes a key: PBKDF2WithHmacSHA512 unless set, or SHA1, SHA256, SHA384 in its place.",
        importance=Importance.LOW,
        validator=one_of(*(f"PBKDF2WithHmac{name}" for name in ("SHA1", "SHA256", "SHA384", "SHA512"))),
    ),
    ConfigKey(
        "password.encoder.cipher.algorithm",
        ConfigType.STRING,
        "AES/CBC/PKCS5Padding",
        "How passwords are encrypted: AES/CBC/PKCS5Padding or AES/GCM/NoPadding.",
        importance=Importance.LOW,
        validator=one_of("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"),
    ),
    ConfigKey(
        "password.encoder.key.length",
        ConfigType.INT,
        128,
        "The length of the key, bits: 128, 192 or 256.",
        importance=Importance.LOW,
        validator=_aes_bits,
    ),
    ConfigKey(
        "password.encoder.iterations",
        ConfigType.INT,
        4_096,
        "How often the secret is hashed for a key.",
        importance=Importance.LOW,
        validator=at_least(1_024),
    ),
    ConfigKey(
        "broker.id.generation.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether ZooKeeper gives this broker an id when broker.id is not set; meta.properties keeps it.",
    ),
    ConfigKey(
        "reserved.broker.max.id",
        ConfigType.INT,
        1_000,
        "The highest broker.id that may be set while ZooKeeper may give ids: its own begin above.",
        validator=at_least(0),
    ),
)
ACCEPTED: Final = (
    ConfigKey(
        "zookeeper.max.in.flight.requests", ConfigType.INT, 10, importance=Importance.HIGH, validator=at_least(1)
    ),
    ConfigKey("zookeeper.ssl.crl.enable", ConfigType.BOOLEAN, False, importance=Importance.LOW, validator=_not_served),
    ConfigKey("zookeeper.ssl.ocsp.enable", ConfigType.BOOLEAN, False, importance=Importance.LOW, validator=_not_served),
    ConfigKey("zookeeper.metadata.migration.enable", ConfigType.BOOLEAN, False, importance=Importance.HIGH),
)
"""Kafka's, without effect here."""
