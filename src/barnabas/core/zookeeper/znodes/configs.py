"""Configs of topics and brokers: a znode for each that has some, with passwords encrypted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType, config_record
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes.znode import DEFAULT_ENTITY, Fields, Znode, ZnodeError, json_of

CONFIG: Final = "/config"
KINDS: Final[Mapping[str, ConfigResourceType]] = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
}
"""The znodes below `/config` that hold configs, by name."""
_NAMES: Final = {kind: name for name, kind in KINDS.items()}
_VERSION: Final = 1


class Passwords(Protocol):
    """Which configs are passwords, and how they are kept from readers of ZooKeeper (`password.encoder.secret`)."""

    def is_password(self, key: str) -> bool:
        """Say whether the value of a config is to be encrypted."""

    def encoded(self, value: str) -> str:
        """Give what may stand in a znode instead of a password."""

    def decoded(self, text: str) -> str:
        """Give the password that stands there; ValueError when it cannot be read."""


def has_znode(resource: ConfigResource) -> bool:
    """Say whether configs of this type are kept in ZooKeeper; those of groups and client metrics came later."""
    return resource.type in _NAMES


def entity_path(resource: ConfigResource) -> str:
    """Give the path below `/config`, as notifications name it."""
    return f"{_NAMES[resource.type]}/{resource.name or DEFAULT_ENTITY}"


def path(resource: ConfigResource) -> str:
    """Give where the configs of a resource stand."""
    return f"{CONFIG}/{entity_path(resource)}"


def overrides(configs: Mapping[str, str], passwords: Passwords) -> bytes:
    """Give what the znode of a resource holds."""
    return properties(
        {key: passwords.encoded(v) if passwords.is_password(key) else v for key, v in sorted(configs.items())}
    )


def records(kind: ConfigResourceType, znode: Znode, passwords: Passwords) -> Iterator[VersionedRecord]:
    """Give the records that set the configs of one resource."""
    resource = ConfigResource(kind, "" if znode.name == DEFAULT_ENTITY else znode.name)
    for key, text in sorted(read_properties(znode).items()):
        try:
            yield config_record(resource, key, passwords.decoded(text) if passwords.is_password(key) else text)
        except ValueError as e:
            raise ZnodeError(znode.path, f"{key}: {e}") from None


def properties(texts: Mapping[str, str]) -> bytes:
    """Give a znode of properties."""
    return json_of({"version": _VERSION, "config": dict(texts)})


def read_properties(znode: Znode) -> dict[str, str]:
    """Give the properties in a znode; none of one that only has children. ZnodeError for what is no text."""
    if not znode.data:
        return {}
    found = Fields(znode).mapping("config")
    if not all(isinstance(value, str) for value in found.values()):
        raise ZnodeError(znode.path, "its configs are not all texts")
    return found
