"""`meta.properties`: which cluster, node and directory a data directory belongs to (version 1, KRaft)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.model.config import format_properties, parse_properties
from barnabas.model.uuid import RESERVED_UUIDS, Uuid
from barnabas.storage.fs import FileSystem

FILE_NAME: Final = "meta.properties"
_VERSION: Final = "1"


class MetaPropertiesError(Exception):
    """A data directory that cannot be this node's; says which and why."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What the file says. directory_id: None in directories that were formatted before Kafka 3.7."""

    cluster_id: str
    node_id: int
    directory_id: Uuid | None


def read_meta_properties(directory: Path, fs: FileSystem) -> MetaProperties | None:
    """Give what the directory belongs to; None when it is not formatted, MetaPropertiesError when damaged."""
    path = directory / FILE_NAME
    try:
        text = fs.read_bytes(path).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    pairs = parse_properties(text)
    version = pairs.get("version", "0")
    if version != _VERSION:
        raise MetaPropertiesError(f"{path} is of version {version}; want {_VERSION}, a directory of KRaft's")
    cluster_id, node_id = pairs.get("cluster.id"), pairs.get("node.id", "")
    if not cluster_id:
        raise MetaPropertiesError(f"{path} has no cluster.id")
    if not node_id.isdecimal():
        raise MetaPropertiesError(f"{path} has no good node.id: {node_id!r}")
    return MetaProperties(cluster_id, int(node_id), _directory_id(path, pairs.get("directory.id")))


def write_meta_properties(directory: Path, properties: MetaProperties, fs: FileSystem) -> None:
    """Replace the file durably; the directory counts as formatted from then on."""
    pairs = {"cluster.id": properties.cluster_id, "node.id": str(properties.node_id), "version": _VERSION}
    if properties.directory_id is not None:
        pairs["directory.id"] = str(properties.directory_id)
    text = "#\n" + format_properties(dict(sorted(pairs.items())))
    fs.write_durably(directory / FILE_NAME, text.encode())


def _directory_id(path: Path, text: str | None) -> Uuid | None:
    if text is None:
        return None
    try:
        directory_id = Uuid.parse(text)
    except ValueError as e:
        raise MetaPropertiesError(f"{path}: directory.id: {e}") from None
    if directory_id in RESERVED_UUIDS:
        raise MetaPropertiesError(f"{path}: directory.id {text} is reserved")
    return directory_id
