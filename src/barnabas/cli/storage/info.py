"""`barnabas storage info`."""

from __future__ import annotations

import typer

from barnabas.cli.storage.config_option import ConfigFile, directories
from barnabas.server.config import NodeConfig
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.meta_properties import MetaProperties, MetaPropertiesError, MetaVersion, read_meta_properties


def info(config: ConfigFile) -> None:
    """Say what is in the node's data directories, and what is wrong with them; exit code 1 when something is."""
    found: list[str] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    fs = OsFileSystem()
    node = NodeConfig.load(config)
    version = MetaVersion.ZOOKEEPER if node.is_zookeeper_mode else MetaVersion.KRAFT
    for directory in directories(node):
        if not fs.is_dir(directory):
            what = "is not a directory" if fs.exists(directory) else "does not exist"
            problems.append(f"{directory} {what}")
            continue
        found.append(str(directory))
        try:
            properties = read_meta_properties(directory, fs, version)
        except MetaPropertiesError as e:
            problems.append(f"Error loading {directory / 'meta.properties'}: {e}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = properties
        else:
            problems += _mismatch(first, properties)
    _print("Found log directory:", "Found log directories:", found)
    if first is not None:
        pairs = {"cluster.id": first.cluster_id, "directory.id": first.directory_id, version.id_key: first.node_id}
        shown = ", ".join(f"{key}={value}" for key, value in pairs.items() if value is not None)
        typer.echo(f"Found metadata: {{{shown}, version={int(version)}}}\n")
    _print("Found problem:", "Found problems:", problems)
    if problems:
        raise typer.Exit(1)


def _mismatch(one: MetaProperties, other: MetaProperties) -> list[str]:
    if one.cluster_id != other.cluster_id:
        return [f"the directories belong to two clusters, {one.cluster_id} and {other.cluster_id}"]
    if one.node_id != other.node_id:
        return [f"the directories belong to two nodes, {one.node_id} and {other.node_id}"]
    return []


def _print(single: str, several: str, lines: list[str]) -> None:
    if lines:
        typer.echo("\n".join([single if len(lines) == 1 else several, *(f"  {line}" for line in lines), ""]))
