"""The group coordinator's part of the configuration: of the node, and of single groups as far as it counts there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.groups.config import (
    CONSUMER_ASSIGNMENT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    Bounded,
    ConsumerGroupConfig,
    GroupConfig,
    MigrationPolicy,
    Overrides,
)
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType, ConfigsImage
from barnabas.model.config import ConfigError

ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""What group.consumer.assignors may name, by what it says."""
_OF_GROUPS: Final = (
    CONSUMER_SESSION_TIMEOUT_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_ASSIGNMENT_INTERVAL_MS,
)


def group_config(values: Mapping[str, Any], overrides: Overrides) -> GroupConfig:
    """Give what the coordinator goes by. overrides: gives what is set for a group, when it is wanted."""
    return GroupConfig(
        min_session_timeout_ms=values["group.min.session.timeout.ms"],
        max_session_timeout_ms=values["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=values["group.initial.rebalance.delay.ms"],
        max_size=values["group.max.size"],
        offset_metadata_max_bytes=values["offset.metadata.max.bytes"],
        offsets_retention_ms=values["offsets.retention.minutes"] * 60_000,
        offsets_retention_check_interval_ms=values["offsets.retention.check.interval.ms"],
        consumer=ConsumerGroupConfig(
            session_timeout_ms=_bounded(values, CONSUMER_SESSION_TIMEOUT_MS),
            heartbeat_interval_ms=_bounded(values, CONSUMER_HEARTBEAT_INTERVAL_MS),
            assignment_interval_ms=_bounded(values, CONSUMER_ASSIGNMENT_INTERVAL_MS),
            max_size=values["group.consumer.max.size"],
            assignors=tuple(ASSIGNORS[name] for name in values["group.consumer.assignors"]),
            migration_policy=MigrationPolicy.parse(values["group.consumer.migration.policy"]),
            regex_refresh_interval_ms=values["group.consumer.regex.refresh.interval.ms"],
            overrides=overrides,
        ),
    )


def _bounded(values: Mapping[str, Any], key: str) -> Bounded:
    low, high = _bounds(key)
    return Bounded(values[f"group.{key}"], values[low], values[high])


def _bounds(key: str) -> tuple[str, str]:
    """Give the broker's keys for the least and the most of what a group may set."""
    rest = key.removeprefix("consumer.")
    return f"group.consumer.min.{rest}", f"group.consumer.max.{rest}"


def consumer_settings(configs: ConfigsImage, group_id: str, values: Mapping[str, Any]) -> Mapping[str, int]:
    """Give what counts for one group and was not the same when the node was started. values: of the node, now."""
    found = {CONSUMER_ASSIGNMENT_INTERVAL_MS: int(values[f"group.{CONSUMER_ASSIGNMENT_INTERVAL_MS}"])}
    own = configs.get(ConfigResource(ConfigResourceType.GROUP, group_id))
    return found | {key: int(own[key]) for key in _OF_GROUPS if key in own} if own else found


def check_broker_keys(values: Mapping[str, Any]) -> None:
    """ConfigError unless a node's keys for consumer groups go together."""
    for key in _OF_GROUPS:
        low, high = _bounds(key)
        if not values[low] <= values[f"group.{key}"] <= values[high]:
            raise ConfigError(
                f"group.{key}={values[f'group.{key}']} must lie between {low} ({values[low]}) and {high} "
                f"({values[high]}); change it or them"
            )
    heartbeat, session = (f"group.{key}" for key in (CONSUMER_HEARTBEAT_INTERVAL_MS, CONSUMER_SESSION_TIMEOUT_MS))
    if values[heartbeat] >= values[session]:
        raise ConfigError(f"{heartbeat} ({values[heartbeat]}) must be less than {session} ({values[session]})")
    for name in values["group.consumer.assignors"]:
        if name not in ASSIGNORS:
            raise ConfigError(f"group.consumer.assignors: {name} is not served here; want uniform, range or both")
    if "classic" not in values["group.coordinator.rebalance.protocols"]:
        raise ConfigError("group.coordinator.rebalance.protocols must hold classic, which cannot be switched off")
