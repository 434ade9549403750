"""A worker's configuration: Kafka Connect's properties, checked as a whole, with what each of its clients is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.client.config import ClientConfig, load_properties_file, resolve_references
from barnabas.connect.config_keys import PREFIXES, WORKER_KEYS
from barnabas.connect.secrets import Secrets
from barnabas.core.connect import algorithms
from barnabas.core.connect.exactly_once import SourceSupport, leader_transactional_id
from barnabas.core.connect.session_keys import KeySettings
from barnabas.core.connect.subprotocol import Subprotocol, offered
from barnabas.model.config import MASKED, ConfigError, ConfigType

SPARK_CONF: Final = "barnabas.spark.conf."
_STORAGE: Final = ("config.storage.", "offset.storage.", "status.storage.")
_OF_THE_GROUP: Final = ("group.id", "session.timeout.ms", "heartbeat.interval.ms")
_SET_BY_TRANSACTIONS: Final = {"acks": ("all", "-1"), "enable.idempotence": ("true",), "transactional.id": ()}
_REMOVED: Final = ("internal.key.converter", "internal.value.converter")
_SECRET_WORDS: Final = ("password", "secret", "jaas", "token", "passphrase", "credential", "key.pem", "keystore.key")


@dataclass(frozen=True)
class WorkerConfig:
    """A worker's settings, all of them checked.

    properties: as they were given, references to secrets unresolved. values: typed, defaults included; they may hold
    secrets, hence neither is shown. warnings: what to log once at the start, without secrets.
    """

    properties: Mapping[str, str] = field(repr=False)
    values: Mapping[str, Any] = field(repr=False)
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> WorkerConfig:
        """Give the configuration of these properties; ConfigError names the key that is wrong and what would be right.

        References to secrets in the worker's own settings are resolved here; in those of its clients and of what it
        hands on, where they are used.
        """
        own = {name: resolve_references(text) for name, text in properties.items() if name in WORKER_KEYS}
        config = cls(dict(properties), WORKER_KEYS.parse(own).values, tuple(_warnings(properties)))
        config._check_signing()
        _ = config.secrets
        for make in (config._member_properties, config.producer_properties, config.consumer_properties):
            ClientConfig.from_properties(make())
        ClientConfig.from_properties(config.admin_properties())
        _ = config.leader_client
        return config

    @classmethod
    def load(cls, path: str | Path) -> WorkerConfig:
        """Give the configuration of a properties file; ConfigError when it cannot be read or used."""
        return cls.from_properties(load_properties_file(path))

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def __repr__(self) -> str:
        shown = {name: MASKED if _is_secret(name) else text for name, text in sorted(self.properties.items())}
        return f"WorkerConfig({shown})"

    def text(self, key: str) -> str:
        """Give a text that is always set."""
        value: str = self.values[key]
        return value

    def integer(self, key: str) -> int:
        """Give a number that is always set."""
        value: int = self.values[key]
        return value

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Give the properties that begin with `prefix`, without it, references unresolved."""
        return {name[len(prefix) :]: text for name, text in self.properties.items() if name.startswith(prefix)}

    @property
    def source_support(self) -> SourceSupport:
        """Give whether sources, or at least the leader, write in transactions."""
        return SourceSupport(self.text("exactly.once.source.support").lower())

    @property
    def offered(self) -> tuple[Subprotocol, ...]:
        """Give the subprotocols that this worker offers, the best first."""
        return offered(self.text("connect.protocol"))

    @property
    def key_settings(self) -> KeySettings:
        """Give how this worker makes session keys while it leads."""
        algorithm = algorithms.known(self.text("inter.worker.key.generation.algorithm"))
        size = algorithms.key_bytes(algorithm, self.values["inter.worker.key.size"])
        return KeySettings(algorithm, size, self.integer("inter.worker.key.ttl.ms"))

    @property
    def signature_algorithm(self) -> str:
        """Give what requests to other workers are signed with."""
        return self.text("inter.worker.signature.algorithm")

    @property
    def verification_algorithms(self) -> tuple[str, ...]:
        """Give what other workers' requests may be signed with."""
        return tuple(self.values["inter.worker.verification.algorithms"])

    @property
    def spark_conf(self) -> dict[str, str]:
        """Give the settings of the Spark session: `barnabas.spark.conf.spark.x=y` is `spark.x=y`."""
        return self.with_prefix(SPARK_CONF)

    @property
    def secrets(self) -> Secrets:
        """Give what references in connectors' configurations stand for."""
        return Secrets.from_properties(self.properties)

    def topic_settings(self, prefix: str) -> dict[str, str]:
        """Give the further settings to make an internal topic with.

        prefix: `config.storage.`, `offset.storage.` or `status.storage.`. Compaction is not up to the user.
        """
        known = {"topic", "partitions", "replication.factor", "cleanup.policy"}
        return {name: text for name, text in self.with_prefix(prefix).items() if name not in known}

    @property
    def client(self) -> ClientConfig:
        """Give the settings of the worker's own clients, for the internal topics."""
        return ClientConfig.from_properties(self._client_properties())

    @property
    def leader_client(self) -> ClientConfig:
        """Give the settings that the leader writes to the config topic with, where it does so in transactions.

        Every leader of the group has the same transactional id, by which it shuts out the one before it.
        """
        own = {
            "client.id": f"{self.text('client.id') or 'connect'}-leader",
        }
        return ClientConfig.from_properties(
            transactional(self._client_properties() | own, leader_transactional_id(self.text("group.id")))
        )

    @property
    def member_client(self) -> ClientConfig:
        """Give the settings of its membership in the group; `max.poll.interval.ms` is `rebalance.timeout.ms`."""
        return ClientConfig.from_properties(self._member_properties())

    def producer_properties(self) -> dict[str, str]:
        """Give the settings of connectors' producers, which a connector may override.

        As in Kafka they take `bootstrap.servers` from the worker and everything else, security too, from `producer.`.
        """
        return {"bootstrap.servers": self.properties["bootstrap.servers"], "acks": "all"} | self.with_prefix(
            "producer."
        )

    def consumer_properties(self) -> dict[str, str]:
        """Give the settings of sinks' consumers, but for their group; what `producer_properties` says holds here."""
        return {
            "bootstrap.servers": self.properties["bootstrap.servers"],
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
        } | self.with_prefix("consumer.")

    def admin_properties(self) -> dict[str, str]:
        """Give the settings of connectors' admin clients: the worker's own, and `admin.` on top."""
        return self._client_properties() | {
            name: text for name, text in self.with_prefix("admin.").items() if not name.startswith("listeners")
        }

    def _client_properties(self) -> dict[str, str]:
        unknown = ClientConfig(self.properties).unknown
        return {
            name: text
            for name, text in self.properties.items()
            if name not in unknown and name not in _OF_THE_GROUP and not (name == "client.id" and not text)
        }

    def _member_properties(self) -> dict[str, str]:
        own = ("request.timeout.ms", "receive.buffer.bytes", *_OF_THE_GROUP)  # where Connect's defaults are others
        return (
            self._client_properties()
            | {name: str(self.values[name]) for name in own}
            | {"max.poll.interval.ms": str(self.values["rebalance.timeout.ms"])}
        )

    def _check_signing(self) -> None:
        """See to it that this worker can make keys, and accepts what it signs itself (C-02, C-06)."""
        signing, accepted = self.signature_algorithm, self.verification_algorithms
        if signing not in accepted:
            raise ConfigError(
                f"inter.worker.signature.algorithm: {signing!r} is not in inter.worker.verification.algorithms, which "
                f"has {', '.join(accepted)}; add it there, or sign with one of these"
            )
        try:
            _ = self.key_settings
        except algorithms.KeySizeError as e:
            size = self.values["inter.worker.key.size"]
            raise ConfigError(f"inter.worker.key.size: {size} is not allowed; {e}") from None


def transactional(properties: Mapping[str, str], transactional_id: str) -> dict[str, str]:
    """Give a producer's settings with those that transactions want, whatever was set."""
    own = {"acks": "all", "enable.idempotence": "true", "transactional.id": transactional_id}
    return {**properties, **own}


def _is_secret(name: str) -> bool:
    key = WORKER_KEYS.get(name)
    return (key is not None and key.type is ConfigType.PASSWORD) or any(w in name.lower() for w in _SECRET_WORDS)


def _warnings(properties: Mapping[str, str]) -> list[str]:
    return [*_unknown(properties), *_ignored(properties), *_insecure(properties), *_fixed(properties)]


def _unknown(properties: Mapping[str, str]) -> list[str]:
    strangers = ClientConfig(properties).unknown
    out = []
    for name in properties:
        if name in WORKER_KEYS or name not in strangers or name.startswith((*PREFIXES, *_REMOVED)):
            continue
        nearest = WORKER_KEYS.nearest(name)
        out.append(f"{name} is no setting of a worker" + (f"; was {nearest} meant?" if nearest else ""))
    return out


def _ignored(properties: Mapping[str, str]) -> list[str]:
    out = [
        f"{name} has no effect since Kafka 3.0: the internal topics hold plain JSON"
        for name in properties
        if name.startswith(_REMOVED)
    ]
    if "config.storage.partitions" in properties:
        out.append("config.storage.partitions has no effect: the config topic has one partition")
    out += [
        f"{prefix}cleanup.policy has no effect: internal topics are compacted"
        for prefix in _STORAGE
        if f"{prefix}cleanup.policy" in properties
    ]
    return out


def _fixed(properties: Mapping[str, str]) -> list[str]:
    """Say which settings of producers a worker with transactions does not leave to its file."""
    support = properties.get("exactly.once.source.support", SourceSupport.DISABLED).lower()
    if support == SourceSupport.DISABLED:
        return []
    prefixes = ("", "producer.") if support == SourceSupport.ENABLED else ("",)
    return [
        f"{prefix}{name}={given} has no effect where exactly.once.source.support is {support}, which sets it itself"
        for prefix in prefixes
        for name, allowed in _SET_BY_TRANSACTIONS.items()
        if (given := properties.get(prefix + name)) is not None and given.lower() not in allowed
    ]


def _insecure(properties: Mapping[str, str]) -> list[str]:
    """Say which of the connectors' clients lack the worker's security settings: they do not inherit them."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return []
    return [
        f"security.protocol is {protocol} for the worker alone: connectors' {prefix}s take {prefix}.security.protocol "
        f"and so on, which is not set"
        for prefix in ("producer", "consumer")
        if f"{prefix}.security.protocol" not in properties
    ]
