"""Configurations as DescribeConfigs tells them: each key with its value, where that comes from, and what else set it.

Sources from strong to weak: the topic, this broker, all brokers (both dynamic), the configuration file, the default
(KIP-226, KIP-524, KIP-569).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from barnabas.core.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.telemetry.subscriptions import CLIENT_METRICS_CONFIG
from barnabas.model.config import REQUIRED, ConfigKey, ConfigType, DynamicMode, Password
from barnabas.model.java_number import java_double
from barnabas.net.zookeeper.config_keys import JVM_KEYS
from barnabas.server.config import NodeConfig
from barnabas.server.config_keys import OF_ZOOKEEPER_MODE, TABLE
from barnabas.server.config_schema import bare_key
from barnabas.server.group_configs import GROUP_CONFIG, broker_key, group_config_of
from barnabas.storage.log_config import TOPIC_CONFIG, TOPIC_CONFIG_SYNONYMS, topic_defaults
from barnabas.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


class Source(IntEnum):
    """Where a value comes from; the numbers are the wire's."""

    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


_ROLL: Final = ("log.roll.ms", "log.roll.hours")
_JITTER: Final = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_FLUSH: Final = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_SYNONYMS: Final = {name: group for group in (_ROLL, _JITTER, _RETENTION) for name in group} | {_FLUSH[0]: _FLUSH}
"""Broker keys that say the same thing in several units; each is found under all of them."""

_AUTHORIZER_KEYS: Final = ("super.users", "allow.everyone.if.no.acl.found")
"""Keys that Kafka leaves to the authorizer and does not know itself: told like any stranger in the file."""
_TOLD_WHEN_SET: Final = (
    *_AUTHORIZER_KEYS,
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    *JVM_KEYS,
)
"""Keys that Kafka's own table does not hold; the dynamic ones of them have a type all the same."""
_ONLY_OF_KAFKA_3: Final = OF_ZOOKEEPER_MODE - {"controlled.shutdown.enable"}
"""Told in ZooKeeper mode; Kafka 4 has them no more, and tells them as strangers when they are set."""


@dataclass(frozen=True, slots=True)
class Telling:
    """What the client wants to be told beside values."""

    synonyms: bool = False
    documentation: bool = False


class DescribedConfigs:
    """The configurations of one moment. static: as the node was started; effective: with what was changed since."""

    def __init__(self, static: NodeConfig, effective: NodeConfig, image: MetadataImage) -> None:
        self._effective = effective
        self._image = image
        broker = ConfigResource(ConfigResourceType.BROKER, str(static.node_id))
        self._layers: tuple[tuple[Source, Mapping[str, str]], ...] = (
            (Source.BROKER, image.configs.get(broker)),
            (Source.CLUSTER_DEFAULT, image.configs.get(CLUSTER_DEFAULT)),
            (Source.STATIC, {"broker.id": str(static["node.id"]), **static.originals}),
            (Source.DEFAULT, _DEFAULTS),
        )

    def topic(self, name: str, telling: Telling) -> Iterator[DescribeConfigsResourceResult]:
        """Give every key of a topic."""
        overrides = self._image.configs.get(ConfigResource(ConfigResourceType.TOPIC, name))
        parsed = TOPIC_CONFIG.parse({**topic_defaults(self._effective.values), **overrides}).values
        for key in TOPIC_CONFIG:
            if key.internal or key.name.startswith("internal."):
                continue
            value = _text(key, parsed[key.name])
            synonyms = TOPIC_CONFIG_SYNONYMS.get(key.name)
            sources = self._sources(synonyms[0].name, key) if synonyms else []
            if key.name in overrides:
                sources.insert(0, _synonym(key.name, value, Source.TOPIC))
            yield _entry(key.name, key, value, sources, telling, read_only=False)

    def broker(self, telling: Telling) -> Iterator[DescribeConfigsResourceResult]:
        """Give every key of this broker, and whatever else stands in its file."""
        values = self._effective.values
        when_set = {*_TOLD_WHEN_SET, *(() if self._effective.is_zookeeper_mode else _ONLY_OF_KAFKA_3)}
        for key in TABLE:
            if not key.internal and key.name not in when_set:
                value = values["node.id" if key.name == "broker.id" else key.name]
                yield self._broker_entry(key.name, key, _text(key, value), telling)
        for name, text in self._effective.originals.items():
            if name not in TABLE or name in when_set:
                yield self._broker_entry(name, _key_of(name), text, telling)

    def cluster_default(self, telling: Telling) -> Iterator[DescribeConfigsResourceResult]:
        """Give what is set for all brokers."""
        for name, text in self._image.configs.get(CLUSTER_DEFAULT).items():
            key = _key_of(name)
            sources = [s for s in self._sources(name, key) if s.source == Source.CLUSTER_DEFAULT]
            yield _entry(name, key, text, sources, telling, read_only=_read_only(name))

    def group(self, name: str, telling: Telling) -> Iterator[DescribeConfigsResourceResult]:
        """Give every key of a group, whether there is such a group or not."""
        overrides = self._image.configs.get(ConfigResource(ConfigResourceType.GROUP, name))
        values = group_config_of(overrides, self._effective.values)
        for key in GROUP_CONFIG:
            value, behind = _text(key, values[key.name]), broker_key(key.name)
            if key.name in overrides:
                value = overrides[key.name]
            if behind is not None:
                sources = self._sources(behind, key)
            else:
                sources = [_synonym(key.name, _text(key, key.default), Source.DEFAULT)]
            if key.name in overrides:
                sources.insert(0, _synonym(key.name, value, Source.GROUP))
            yield _entry(key.name, key, value, sources, telling, read_only=False)

    def client_metrics(self, name: str, telling: Telling) -> Iterator[DescribeConfigsResourceResult]:
        """Give every key of a subscription to clients' metrics, whether there is such a one or not."""
        overrides = self._image.configs.get(ConfigResource(ConfigResourceType.CLIENT_METRICS, name))
        for key in CLIENT_METRICS_CONFIG:
            value = overrides.get(key.name, _text(key, key.default))
            sources = [_synonym(key.name, value, Source.CLIENT_METRICS)] if key.name in overrides else []
            yield _entry(key.name, key, value, sources, telling, read_only=False)

    def _broker_entry(
        self, name: str, key: ConfigKey | None, value: str | None, telling: Telling
    ) -> DescribeConfigsResourceResult:
        return _entry(name, key, value, self._sources(name, key), telling, read_only=_read_only(name))

    def _sources(self, name: str, key: ConfigKey | None) -> list[DescribeConfigsSynonym]:
        """Give who sets a broker key, the strongest first; weaker synonyms only from where the name itself is set."""
        bare = bare_key(name)
        names = _SYNONYMS.get(name, (name,) if bare == name else (name, bare))
        found = [
            _synonym(n, None if _sensitive(key) else values[n], source)
            for source, values in self._layers
            for n in names
            if n in values
        ]
        first = next((i for i, s in enumerate(found) if s.name == name), len(found))
        return found[first:]


def _entry(
    name: str,
    key: ConfigKey | None,
    value: str | None,
    sources: list[DescribeConfigsSynonym],
    telling: Telling,
    *,
    read_only: bool,
) -> DescribeConfigsResourceResult:
    sensitive = _sensitive(key)
    return DescribeConfigsResourceResult(
        name=name,
        value=None if sensitive else value,
        read_only=read_only,
        config_source=sources[0].source if sources else Source.DEFAULT,
        is_sensitive=sensitive,
        synonyms=sources if telling.synonyms else [],
        config_type=ConfigType.UNKNOWN if key is None else key.type,
        documentation=(key.doc or None) if telling.documentation and key is not None else None,
    )


def _synonym(name: str, value: str | None, source: Source) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def _key_of(name: str) -> ConfigKey | None:
    """Give the row of a key that need not stand in the table: one listener's own, or a stranger's."""
    return None if name in _AUTHORIZER_KEYS else TABLE.get(bare_key(name))


def _sensitive(key: ConfigKey | None) -> bool:
    # What is not known may be a secret.
    return key is None or key.type is ConfigType.PASSWORD


def _read_only(name: str) -> bool:
    key = TABLE.get(name)  # as Kafka says it; what is set for one listener can be changed all the same
    return key is None or key.dynamic is DynamicMode.READ_ONLY


def _text(key: ConfigKey, value: object) -> str | None:
    """Give a typed value as Java prints it."""
    if isinstance(value, float):
        return java_double(value)
    return key.format(value)


def _default_texts() -> dict[str, str]:
    texts = {}
    for key in TABLE:
        if key.name in _TOLD_WHEN_SET or key.default in (None, REQUIRED):
            continue
        if not isinstance(key.default, Password):
            text = _text(key, key.default)
            if text is not None:
                texts[key.name] = text
    return texts


_DEFAULTS: Final = _default_texts()
