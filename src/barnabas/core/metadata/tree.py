"""The metadata as a tree of paths, as Kafka's metadata shell shows it: `/topics/byName/orders/0` and so on.

A node is a directory (its children by name) or a file (a text). Secrets are shown as `[hidden]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import QuotaEntity
from barnabas.core.metadata.topics import TopicImage
from barnabas.model.config import MASKED
from barnabas.model.features import METADATA_VERSION, MetadataVersion
from barnabas.model.uuid import Uuid

Tree = Mapping[str, "Tree"] | str
"""A directory or a file."""


def tree(image: MetadataImage, is_secret: Callable[[ConfigResourceType, str], bool]) -> Tree:
    """Give the whole tree; is_secret: says of a config key whether its value may be shown."""
    return {
        "provenance": f"offset {image.offset_epoch.offset}, epoch {image.offset_epoch.epoch}",
        "features": _features(image),
        "cluster": {
            "brokers": {str(i): _value(broker) for i, broker in sorted(image.cluster.brokers.items())},
            "controllers": {str(i): _value(c) for i, c in sorted(image.cluster.controllers.items())},
        },
        "topics": {
            "byName": {name: _topic(topic) for name, topic in sorted(image.topics.by_name.items())},
            "byId": {str(topic_id): _topic(topic) for topic_id, topic in sorted(image.topics.by_id.items())},
        },
        "configs": _configs(image, is_secret),
        "clientQuotas": {
            _entity(entity): {key: str(value) for key, value in sorted(values.items())}
            for entity, values in sorted(image.client_quotas.by_entity.items(), key=lambda item: repr(item[0]))
        },
        "producerIds": {"nextProducerId": str(image.producer_ids.next_producer_id)},
        "acls": {"byId": {str(i): _value(binding) for i, binding in sorted(image.acls.by_id.items())}},
        "scram": {
            mechanism.mechanism_name: dict.fromkeys(sorted(users), MASKED)
            for mechanism, users in sorted(image.scram.by_mechanism.items())
        },
    }


def find(root: Tree, path: str) -> Tree | None:
    """Give what is at `/a/b/c`; None when there is nothing."""
    node: Tree | None = root
    for name in path.strip("/").split("/"):
        if not name:
            continue
        if not isinstance(node, Mapping):
            return None
        node = node.get(name)
    return node


def _features(image: MetadataImage) -> Tree:
    finalized = {name: str(level) for name, level in sorted(image.features.others.items())}
    version = image.features.metadata_version
    if version is not None:
        finalized[METADATA_VERSION] = str(MetadataVersion(version))
    return {"finalizedVersions": finalized}


def _topic(topic: TopicImage) -> Tree:
    children: dict[str, Tree] = {"name": topic.name, "id": str(topic.id)}
    for number, partition in sorted(topic.partitions.items()):
        children[str(number)] = _value(partition)
    return children


def _configs(image: MetadataImage, is_secret: Callable[[ConfigResourceType, str], bool]) -> Tree:
    by_type: dict[str, dict[str, Tree]] = {}
    for resource, overrides in sorted(image.configs.by_resource.items()):
        shown = {k: MASKED if is_secret(resource.type, k) else v for k, v in sorted(overrides.items())}
        by_type.setdefault(resource.type.name, {})[resource.name or "(default)"] = shown
    return by_type


_ESCAPES: Final = str.maketrans({"/": "\\/", ",": "\\,", "(": "\\(", ")": "\\)"})


def _entity(entity: QuotaEntity) -> str:
    parts = ("" if part.name is None else part.name.translate(_ESCAPES) for part in entity)
    return ",".join(f"{part.type}({name})" for part, name in zip(entity, parts, strict=True))


def _value(value: Any) -> Tree:
    """Give a frozen value as a directory of its fields; an id, a tuple, a number as text."""
    if is_dataclass(value):
        return {field.name: _value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in sorted(value.items())}
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "[" + ", ".join(str(item) for item in value) + "]"
    return str(value)
