"""The configuration of a group (KIP-848, KIP-932, KIP-1071): its keys, the broker's bounds, what comes of both.

A key `consumer.x` of a group takes precedence over `group.consumer.x` of the broker, and has to lie between
`group.consumer.min.x` and `group.consumer.max.x`. Share and streams groups are not served here, but their keys
are kept, for clusters whose other brokers serve them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas.model.config import ConfigError, ConfigKey, ConfigTable, ConfigType, Validator, at_least, one_of
from barnabas.server.config_keys import TABLE

_WITHOUT_BROKER_KEY: Final = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
_CHECKED_WHEN_SET: Final = "assignment.interval.ms"


def _offset_reset(value: object) -> str | None:
    if value in ("earliest", "latest") or str(value).startswith("by_duration:P"):
        return None
    return "want earliest, latest, or by_duration:<ISO 8601 duration>"


def _ms(name: str, doc: str, low: int = 1) -> ConfigKey:
    default = TABLE[f"group.{name}"].default
    return ConfigKey(name, ConfigType.INT, default, doc, validator=at_least(low))


def _text(name: str, default: str, doc: str, validator: Validator) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, doc, validator=validator)


def _of_each(protocol: str) -> tuple[ConfigKey, ...]:
    return (
        _ms(f"{protocol}.session.timeout.ms", "How long a member may be silent before it is put out of the group, ms."),
        _ms(f"{protocol}.heartbeat.interval.ms", "How often members are to send heartbeats, ms."),
        _ms(f"{protocol}.{_CHECKED_WHEN_SET}", "How long a new assignment waits for further changes, ms.", 0),
    )


GROUP_CONFIG: Final = ConfigTable(
    *_of_each("consumer"),
    *_of_each("share"),
    _ms("share.record.lock.duration.ms", "How long a record stays with the member that fetched it, ms.", 1_000),
    _ms("share.delivery.count.limit", "How often a record is delivered at most.", 2),
    _ms("share.partition.max.record.locks", "How many records of a partition may be with members at once.", 100),
    _text("share.auto.offset.reset", "latest", "Where a share group begins to read a partition.", _offset_reset),
    _text(
        "share.isolation.level",
        "read_uncommitted",
        "Whether records of open and aborted transactions are delivered.",
        one_of("read_committed", "read_uncommitted"),
    ),
    ConfigKey(
        "share.renew.acknowledge.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a member may ask for more time for a record.",
    ),
    *_of_each("streams"),
    _ms("streams.num.standby.replicas", "How many members keep a copy of each task's state.", 0),
    _ms("streams.initial.rebalance.delay.ms", "How long a new group waits for more members, ms.", 0),
)
"""Every key; a default is the broker key's own default."""


def broker_key(name: str) -> str | None:
    """Give the broker's key that stands behind a group's, None when there is none."""
    return None if name in _WITHOUT_BROKER_KEY else f"group.{name}"


def check_group_config(configs: Mapping[str, str], broker: Mapping[str, Any]) -> None:
    """ConfigError when a group may not be configured so. broker: the typed values of a broker's own keys."""
    for name in configs:
        if name not in GROUP_CONFIG:
            nearest = GROUP_CONFIG.nearest(name)
            raise ConfigError(f"{name} is not a key of groups" + (f"; {nearest} is" if nearest else ""))
    values = _over_brokers(configs, broker)
    for name, value in values.items():
        low, high = _bounds(name, broker)
        if not low <= _number(value) <= high and (name in configs or not name.endswith(_CHECKED_WHEN_SET)):
            raise ConfigError(f"{name}: {value} is outside of what this cluster's brokers allow: {low} to {high}")
    for protocol in ("consumer", "share", "streams"):
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            raise ConfigError(f"{session} ({values[session]}) must be greater than {heartbeat} ({values[heartbeat]})")


def group_config_of(configs: Mapping[str, str], broker: Mapping[str, Any]) -> dict[str, Any]:
    """Give a group's values by key, typed; what lies outside the broker's bounds (they may have changed) is moved in.

    configs: what is set for the group; broker: the typed values of the broker's own keys.
    """
    values = _over_brokers({name: text for name, text in configs.items() if name in GROUP_CONFIG}, broker)
    for name in configs.keys() & values.keys():
        low, high = _bounds(name, broker)
        if GROUP_CONFIG[name].type is ConfigType.INT:
            values[name] = int(min(max(values[name], low), high))
    return values


def _over_brokers(configs: Mapping[str, str], broker: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for key in GROUP_CONFIG:
        behind = broker_key(key.name)
        default = key.default if behind is None else broker[behind]
        values[key.name] = key.parse(configs[key.name]) if key.name in configs else default
    return values


def _bounds(name: str, broker: Mapping[str, Any]) -> tuple[float, float]:
    """Give what a value of the key must lie between; the broker's keys for it need not be there."""
    protocol, _, rest = name.partition(".")
    low = broker.get(f"group.{protocol}.min.{rest}", float("-inf"))
    high = broker.get(f"group.{protocol}.max.{rest.removeprefix('num.')}", float("inf"))
    return low, high


def _number(value: object) -> float:
    return value if isinstance(value, int) else 0
