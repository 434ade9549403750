"""Configs of topics, brokers, groups and client metrics: only what somebody has set; and their replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import VersionedRecord, replays
from barnabas.wire.records.config_record import ConfigRecord


class ConfigResourceType(IntEnum):
    """What has configs; the numbers are the wire's."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def of(cls, code: int) -> ConfigResourceType:
        """Give the type with this number, UNKNOWN when there is none."""
        return cls(code) if code in _CODES else cls.UNKNOWN


_CODES: Final = frozenset(int(member) for member in ConfigResourceType)


class ConfigResource(NamedTuple):
    """One thing that has configs; a BROKER with an empty name is the default of all brokers."""

    type: ConfigResourceType
    name: str


CLUSTER_DEFAULT: Final = ConfigResource(ConfigResourceType.BROKER, "")


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Overrides by resource; a resource without any is not there."""

    by_resource: Map[ConfigResource, Map[str, str]] = field(default_factory=Map)

    def get(self, resource: ConfigResource) -> Map[str, str]:
        """Give the overrides of a resource, key -> text; empty when there are none."""
        overrides: Map[str, str] = self.by_resource.get(resource, _NONE)
        return overrides

    def without(self, resource: ConfigResource) -> ConfigsImage:
        """Give the configs without any of this resource."""
        if resource not in self.by_resource:
            return self
        return ConfigsImage(self.by_resource.delete(resource))


_NONE: Final[Map[str, str]] = Map()


@replays(ConfigRecord)
def set_config(image: ConfigsImage, r: ConfigRecord) -> ConfigsImage:
    """Set a key, or take it away when the value is null."""
    resource = ConfigResource(ConfigResourceType.of(r.resource_type), r.resource_name)
    overrides = image.get(resource)
    if r.value is not None:
        overrides = overrides.set(r.name, r.value)
    elif r.name in overrides:
        overrides = overrides.delete(r.name)
    if not overrides:
        return image.without(resource)
    return replace(image, by_resource=image.by_resource.set(resource, overrides))


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (set_config,)


def snapshot_records(image: ConfigsImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image."""
    for resource, overrides in sorted(image.by_resource.items()):
        for key, value in sorted(overrides.items()):
            yield config_record(resource, key, value)


def config_record(resource: ConfigResource, key: str, value: str | None) -> VersionedRecord:
    """Give the record that sets a key, or deletes it when the value is None."""
    record = ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=key, value=value)
    return VersionedRecord(record, 0)
