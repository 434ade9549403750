"""`meta.properties`: which cluster, node and directory a data directory belongs to, in KRaft and in ZooKeeper mode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from barnabas.model.config import format_properties, parse_properties
from barnabas.model.uuid import RESERVED_UUIDS, Uuid
from barnabas.storage.fs import FileSystem

FILE_NAME: Final = "meta.properties"


class MetaVersion(IntEnum):
    """What kind of cluster a directory is of; the numbers are those of the files."""

    ZOOKEEPER = 0
    KRAFT = 1

    @property
    def id_key(self) -> str:
        """The key of the node's id."""
        return "node.id" if self is MetaVersion.KRAFT else "broker.id"

    def __str__(self) -> str:
        return "KRaft's" if self is MetaVersion.KRAFT else "ZooKeeper mode's"


class MetaPropertiesError(Exception):
    """A data directory that cannot be this node's; says which and why."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What the file says. directory_id: None in directories that were formatted before Kafka 3.7, and in those of
    ZooKeeper mode unless a migration to KRaft was begun.
    """

    cluster_id: str
    node_id: int
    directory_id: Uuid | None
    version: MetaVersion = MetaVersion.KRAFT


def read_meta_properties(
    directory: Path, fs: FileSystem, version: MetaVersion | None = MetaVersion.KRAFT
) -> MetaProperties | None:
    """Give what the directory belongs to; None when it is not formatted.

    version: the one that is wanted, None for any. MetaPropertiesError for another one, and for a damaged file.
    """
    path = directory / FILE_NAME
    try:
        text = fs.read_bytes(path).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    pairs = parse_properties(text)
    found = _version(path, pairs.get("version", "0"), version)
    cluster_id, node_id = pairs.get("cluster.id"), pairs.get(found.id_key, "")
    if not cluster_id:
        raise MetaPropertiesError(f"{path} has no cluster.id")
    if not node_id.isdecimal():
        raise MetaPropertiesError(f"{path} has no good {found.id_key}: {node_id!r}")
    return MetaProperties(cluster_id, int(node_id), _directory_id(path, pairs.get("directory.id")), found)


def write_meta_properties(directory: Path, properties: MetaProperties, fs: FileSystem) -> None:
    """Replace the file durably; the directory counts as formatted from then on."""
    version = properties.version
    pairs = {"cluster.id": properties.cluster_id, version.id_key: str(properties.node_id), "version": str(int(version))}
    if properties.directory_id is not None:
        pairs["directory.id"] = str(properties.directory_id)
    text = "#\n" + format_properties(dict(sorted(pairs.items())))
    fs.write_durably(directory / FILE_NAME, text.encode())


def _version(path: Path, text: str, wanted: MetaVersion | None) -> MetaVersion:
    found = next((version for version in MetaVersion if str(int(version)) == text), None)
    if found is None or wanted not in (None, found):
        which = "" if found is None else f", a directory of {found}"
        want = "0 or 1" if wanted is None else f"{int(wanted)}, a directory of {wanted}"
        raise MetaPropertiesError(f"{path} is of version {text}{which}; want {want}")
    return found


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
