"""What AlterConfigs and IncrementalAlterConfigs decide (KIP-133, KIP-339).

Which keys exist, and which values they may have, the tables of storage and server know; the shell lends that
knowledge as a `ConfigSchema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from immutables import Map

from barnabas.core.metadata.configs import (
    CLUSTER_DEFAULT,
    ConfigResource,
    ConfigResourceType,
    ConfigsImage,
    config_record,
)
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import check_batch
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.config import ConfigError
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.clear_elr_record import ClearElrRecord
from barnabas.wire.records.config_record import ConfigRecord

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
MAX_VALUE_LENGTH: Final = 32767


class Op(IntEnum):
    """What IncrementalAlterConfigs does to a key; the numbers are the wire's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class EffectiveConfig(NamedTuple):
    """A topic key as it works out. source: the wire's number for where the value comes from; value None: secret."""

    name: str
    value: str | None
    source: int
    sensitive: bool


class ConfigSchema(Protocol):
    """What the shell knows of keys and values."""

    def check(self, resource: ConfigResource, new: Mapping[str, str], old: Mapping[str, str]) -> None:
        """ApiError or ConfigError when `resource` may not be configured as `new`; old: its overrides now."""
        ...

    def allow(self, resource: ConfigResource, altered: Mapping[str, str | None]) -> None:
        """ApiError when the cluster's policy does not allow these changes (KIP-133)."""
        ...

    def is_list(self, resource_type: ConfigResourceType, key: str) -> bool:
        """Say whether the key's values are lists."""
        ...

    def default(self, resource_type: ConfigResourceType, key: str) -> str | None:
        """Give the key's default as text, None when it has none or there is no such key."""
        ...

    def effective_topic(self, configs: ConfigsImage, overrides: Mapping[str, str]) -> list[EffectiveConfig]:
        """Give every topic key as it works out for a topic with these overrides, sorted by name."""
        ...

    def topic_value(self, configs: ConfigsImage, overrides: Mapping[str, str], key: str) -> str:
        """Give one topic key as it works out for a topic with these overrides."""
        ...


Change = tuple[Op, str | None]
Results = dict[ConfigResource, ApiError | None]


def incremental_alter_configs(
    image: MetadataImage,
    changes: Mapping[ConfigResource, Mapping[str, Change]],
    schema: ConfigSchema,
    *,
    validate_only: bool = False,
    forwarded: bool = True,
) -> Decision[Results]:
    """Change keys one by one; a resource changes whole or not at all, others of the request regardless."""
    records: list[VersionedRecord] = []
    results: Results = {}
    for resource, ops in changes.items():
        try:
            records += changed_keys(image, resource, ops, schema, forwarded=forwarded)
            results[resource] = None
        except ApiError as e:
            results[resource] = e
    return _decision(image, records, results, validate_only)


def alter_configs(
    image: MetadataImage,
    wanted: Mapping[ConfigResource, Mapping[str, str | None]],
    schema: ConfigSchema,
    *,
    validate_only: bool = False,
    forwarded: bool = True,
) -> Decision[Results]:
    """Make the overrides of each resource exactly these: what is not named goes (the old API, before KIP-339)."""
    records: list[VersionedRecord] = []
    results: Results = {}
    for resource, values in wanted.items():
        current = image.configs.get(resource)
        altered = [
            config_record(resource, key, value)
            for key, value in values.items()
            if current.get(key) != value or resource.type is ConfigResourceType.BROKER
        ]
        dropped = [config_record(resource, key, None) for key in sorted(current) if key not in values]
        try:
            _check(image, resource, altered, dropped, schema, created=False, forwarded=forwarded)
            records += [*altered, *dropped]
            results[resource] = None
        except ApiError as e:
            results[resource] = e
    return _decision(image, records, results, validate_only)


def _decision(
    image: MetadataImage, records: list[VersionedRecord], results: Results, validate_only: bool
) -> Decision[Results]:
    if validate_only:
        return Decision((), results)
    return Decision(check_batch([*records, *cleared_elrs(image, records)]), results)


def changed_keys(
    image: MetadataImage,
    resource: ConfigResource,
    ops: Mapping[str, Change],
    schema: ConfigSchema,
    *,
    created: bool = False,
    forwarded: bool = True,
) -> list[VersionedRecord]:
    """Give the records for one resource; ApiError when the outcome is not allowed.

    created: the resource comes into being with these very records. forwarded: a broker has checked the change already.
    """
    current = image.configs.get(resource)
    records = []
    for key, (op, value) in ops.items():
        new = _applied(resource, key, op, value, current.get(key), schema)
        # Brokers re-read files that a value names when they see the record, so it is written even if nothing changes.
        if new != current.get(key) or resource.type is ConfigResourceType.BROKER:
            records.append(config_record(resource, key, new))
    _check(image, resource, records, [], schema, created=created, forwarded=forwarded)
    return records


def _applied(
    resource: ConfigResource, key: str, op: Op, value: str | None, current: str | None, schema: ConfigSchema
) -> str | None:
    if op is Op.SET:
        return value
    if op is Op.DELETE:
        return None
    if not schema.is_list(resource.type, key):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"cannot {op.name} to {key}: only lists can be appended to or subtracted from; use SET",
        )
    before = current if current is not None else schema.default(resource.type, key)
    items = [item for item in (before or "").split(",") if item]
    for item in _split(value or ""):
        if op is Op.APPEND and item not in items:
            items.append(item)
        elif op is Op.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _split(value: str) -> list[str]:
    """Split as Java does: empty items at the end are dropped, but an empty text is one empty item."""
    items = value.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return items


def _check(
    image: MetadataImage,
    resource: ConfigResource,
    altered: Sequence[VersionedRecord],
    dropped: Sequence[VersionedRecord],
    schema: ConfigSchema,
    *,
    created: bool,
    forwarded: bool,
) -> None:
    """dropped: what goes because a request does not name it; the policy is not asked about that."""
    old = image.configs.get(resource)
    new: Map[str, str] = old
    for versioned in (*altered, *dropped):
        record: ConfigRecord = versioned.record
        refuse_reserved(image, resource, record.name, record.value, forwarded=forwarded)
        if record.value is not None:
            new = new.set(record.name, record.value)
        elif record.name in new:
            new = new.delete(record.name)
    try:
        schema.check(resource, new, old)
    except ConfigError as e:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(e)) from e
    if not created:
        _check_exists(image, resource)
    schema.allow(resource, {versioned.record.name: versioned.record.value for versioned in altered})


def refuse_reserved(
    image: MetadataImage, resource: ConfigResource, key: str, value: str | None, *, forwarded: bool
) -> None:
    """ApiError INVALID_CONFIG for changes that the features in use, or the log's format, do not allow."""
    if value is not None and len(value) > MAX_VALUE_LENGTH:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"the value of {key} has {len(value)} characters; the metadata log holds at most {MAX_VALUE_LENGTH}",
        )
    if resource.type is not ConfigResourceType.BROKER:
        return
    if key == MIN_INSYNC_REPLICAS and image.levels.elr:
        if resource.name:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{key} cannot be set for one broker while eligible leader replicas are on: set it for the cluster "
                "(empty broker name) or for a topic",
            )
        if value is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{key} cannot be taken away from the cluster while eligible leader replicas are on: set it instead",
            )
    if key == CORDONED_LOG_DIRS:
        _check_cordoned(image, resource, value, forwarded=forwarded)


def _check_cordoned(image: MetadataImage, resource: ConfigResource, value: str | None, *, forwarded: bool) -> None:
    if not image.levels.cordoned_directories:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{CORDONED_LOG_DIRS} needs metadata.version 4.3-IV0 or newer")
    if forwarded or not (value or "").strip():
        return
    current = {item.strip() for item in image.configs.get(resource).get(CORDONED_LOG_DIRS, "").split(",")}
    if not {item.strip() for item in (value or "").split(",")} <= current:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"through a controller {CORDONED_LOG_DIRS} can only shrink, since only the broker knows its directories: "
            "send the change to a broker",
        )


def _check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    if resource.type is ConfigResourceType.TOPIC and resource.name not in image.topics.by_name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.name!r}")
    if resource.type is ConfigResourceType.BROKER and resource.name:
        node = int(resource.name)
        if node not in image.cluster.brokers and node not in image.cluster.controllers:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"no node with id {node} is registered")


def cleared_elrs(image: MetadataImage, records: Iterable[VersionedRecord]) -> list[VersionedRecord]:
    """Give what must follow a change of min.insync.replicas: eligible leaders were chosen by the old value."""
    if not image.levels.elr:
        return []
    cleared = []
    for versioned in records:
        record = versioned.record
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS:
            topic = record.resource_name if record.resource_type == ConfigResourceType.TOPIC else ""
            cleared.append(VersionedRecord(ClearElrRecord(topic_name=topic), 0))
    return cleared


def elr_safety_records(image: MetadataImage, static_min_insync_replicas: int) -> list[VersionedRecord]:
    """Give what turning eligible leader replicas on needs: one min.insync.replicas for the cluster, none by broker."""
    records = []
    if MIN_INSYNC_REPLICAS not in image.configs.get(CLUSTER_DEFAULT):
        records.append(config_record(CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, str(static_min_insync_replicas)))
    for resource, overrides in sorted(image.configs.by_resource.items()):
        if resource.type is ConfigResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in overrides:
            records.append(config_record(resource, MIN_INSYNC_REPLICAS, None))
    return records
