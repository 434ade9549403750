"""What the controller knows of configuration keys: the tables of topics and servers, as `core.metadata` asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.core.metadata.config_changes import EffectiveConfig
from barnabas.core.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType, ConfigsImage
from barnabas.core.metadata.topic_names import invalid_name
from barnabas.core.telemetry.subscriptions import check_subscription
from barnabas.model.config import ConfigError, ConfigKey, ConfigType, DynamicMode
from barnabas.model.policy import CheckConfigs, ConfigsRequest, allow_configs
from barnabas.server.config import NodeConfig
from barnabas.server.config_keys import TABLE
from barnabas.server.group_configs import check_group_config
from barnabas.storage.log_config import (
    TOPIC_CONFIG,
    TOPIC_CONFIG_SYNONYMS,
    LogConfig,
    Synonym,
    topic_defaults,
)
from barnabas.wire.errors import ApiError, ErrorCode

DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
DYNAMIC_DEFAULT_BROKER: Final = 3
STATIC_BROKER: Final = 4
DEFAULT: Final = 5
"""Where a value comes from; the wire's numbers."""
_LISTENER_PREFIX: Final = "listener.name."


class NodeConfigSchema:
    """The keys of what has configs over one node's own settings (see `core.metadata.config_changes.ConfigSchema`)."""

    def __init__(self, config: NodeConfig, check_policy: CheckConfigs = allow_configs) -> None:
        self._check_policy = check_policy
        self._node = ConfigResource(ConfigResourceType.BROKER, str(config.node_id))
        self._static = config.originals
        self._values = config.values
        self._in_zookeeper = config.is_zookeeper_mode
        self._keeps_passwords = not config.is_zookeeper_mode or config["password.encoder.secret"] is not None
        self._topic_defaults = topic_defaults(config.values)

    def check(self, resource: ConfigResource, new: Mapping[str, str], old: Mapping[str, str]) -> None:
        """ApiError or ConfigError when `resource` may not be configured as `new`; old: its overrides now."""
        if resource.type is ConfigResourceType.TOPIC:
            _check_topic_name(resource.name)
            LogConfig.of(new, self._topic_defaults)
        elif resource.type is ConfigResourceType.BROKER:
            _check_broker_name(resource.name)
            for key, value in new.items():
                if old.get(key) != value:
                    _check_broker_key(key, value, per_broker=bool(resource.name))
                    self._check_password(key)
        elif self._in_zookeeper:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"configs of a {resource.type.name} are not kept in ZooKeeper")
        elif resource.type is ConfigResourceType.CLIENT_METRICS:
            check_subscription(resource.name, new)
        elif resource.type is ConfigResourceType.GROUP:
            if not resource.name:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "groups have no common defaults: name a group, or set the brokers'"
                )
            check_group_config(new, self._values)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"configs of a {resource.type.name} cannot be set here")

    def _check_password(self, key: str) -> None:
        row = _row(ConfigResourceType.BROKER, key)
        if not self._keeps_passwords and row is not None and row.type is ConfigType.PASSWORD:
            raise ConfigError(
                f"{key} is a password, which is kept in ZooKeeper encrypted: set password.encoder.secret, the same on "
                "every broker, to set it"
            )

    def allow(self, resource: ConfigResource, altered: Mapping[str, str | None]) -> None:
        """ApiError when the policy does not allow these changes."""
        self._check_policy(ConfigsRequest(resource.type.name, resource.name, altered))

    def is_list(self, resource_type: ConfigResourceType, key: str) -> bool:
        """Say whether the key's values are lists."""
        row = _row(resource_type, key)
        return row is not None and row.type is ConfigType.LIST

    def default(self, resource_type: ConfigResourceType, key: str) -> str | None:
        """Give the key's default as text, None when it has none or there is no such key."""
        row = _row(resource_type, key)
        return None if row is None or row.default is None else row.format(row.default)

    def effective_topic(self, configs: ConfigsImage, overrides: Mapping[str, str]) -> list[EffectiveConfig]:
        """Give every topic key as it works out for a topic with these overrides, sorted by name."""
        found = []
        for row in sorted(TOPIC_CONFIG, key=lambda row: row.name):
            if row.internal and row.name not in overrides:
                continue
            value, source = self._effective(row, configs, overrides)
            sensitive = row.type is ConfigType.PASSWORD
            found.append(EffectiveConfig(row.name, None if sensitive else value, source, sensitive))
        return found

    def topic_value(self, configs: ConfigsImage, overrides: Mapping[str, str], key: str) -> str:
        """Give one topic key as it works out for a topic with these overrides."""
        return self._effective(TOPIC_CONFIG[key], configs, overrides)[0] or ""

    def _effective(self, row: ConfigKey, configs: ConfigsImage, overrides: Mapping[str, str]) -> tuple[str | None, int]:
        if row.name in overrides:
            return overrides[row.name], DYNAMIC_TOPIC
        layers: tuple[tuple[Mapping[str, str], int], ...] = (
            (configs.get(self._node), DYNAMIC_BROKER),
            (configs.get(CLUSTER_DEFAULT), DYNAMIC_DEFAULT_BROKER),
            (self._static, STATIC_BROKER),
        )
        synonyms = TOPIC_CONFIG_SYNONYMS.get(row.name, ())
        for layer, source in layers:
            for synonym in synonyms:
                if synonym.name in layer:
                    return _converted(layer[synonym.name], synonym), source
        # What a server key has as its own default counts as the topic key's default.
        return self._topic_defaults.get(row.name, row.format(row.default)), DEFAULT


def _converted(value: str, synonym: Synonym) -> str:
    if synonym.factor == 1:
        return value
    number = int(value)
    return str(number * synonym.factor if number > 0 else number)


def _row(resource_type: ConfigResourceType, key: str) -> ConfigKey | None:
    if resource_type is ConfigResourceType.TOPIC:
        return TOPIC_CONFIG.get(key)
    return TABLE.get(bare_key(key)) if resource_type is ConfigResourceType.BROKER else None


def bare_key(key: str) -> str:
    """Give the key without its listener and mechanism, `listener.name.a.ssl.key.password` -> `ssl.key.password`."""
    if not key.startswith(_LISTENER_PREFIX):
        return key
    bare = key.removeprefix(_LISTENER_PREFIX).partition(".")[2]
    of_mechanism = bare.partition(".")[2]
    return of_mechanism if bare not in TABLE and of_mechanism in TABLE else bare


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "topics have no common defaults: name a topic, or set the brokers'")
    wrong = invalid_name(name)
    if wrong:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)


def _check_broker_name(name: str) -> None:
    if name and not name.isdecimal():
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{name!r} is not a broker: want its id, or an empty name for the default of all"
        )


def _check_broker_key(key: str, value: str, *, per_broker: bool) -> None:
    row = TABLE.get(bare_key(key))
    if row is None:
        return  # a key of a plug-in; nothing here reads it
    if row.dynamic is DynamicMode.READ_ONLY:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{key} cannot be changed while brokers run: set it in server.properties"
        )
    if row.dynamic is DynamicMode.PER_BROKER and not per_broker:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} is set for each broker: name the broker's id")
    try:
        row.parse(value)
    except ConfigError as e:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(e)) from e
