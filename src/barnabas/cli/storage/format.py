"""`barnabas storage format`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.errors import CliError
from barnabas.cli.storage.config_option import ConfigFile, directories
from barnabas.core.raft.voters import VoterSet, parse_dynamic_voters
from barnabas.model.features import MetadataVersion
from barnabas.server import format as server_format
from barnabas.server.config import NodeConfig

ClusterId = Annotated[str, typer.Option("--cluster-id", "-t", help="The id of the cluster.", show_default=False)]
Scram = Annotated[
    list[str] | None,
    typer.Option(
        "--add-scram", "-S", help="A user to begin with: 'SCRAM-SHA-512=[name=alice,password=secret]'; repeatable."
    ),
]
IgnoreFormatted = Annotated[
    bool, typer.Option("--ignore-formatted", "-g", help="Leave formatted directories alone and format the others.")
]
ReleaseVersion = Annotated[
    str | None, typer.Option("--release-version", "-r", help="The release whose features to begin with.")
]
Feature = Annotated[
    list[str] | None, typer.Option("--feature", "-f", help="A feature's level, as name=level; repeatable.")
]
Standalone = Annotated[
    bool, typer.Option("--standalone", "-s", help="This controller is the only voter of a dynamic quorum.")
]
NoInitialControllers = Annotated[
    bool, typer.Option("--no-initial-controllers", "-N", help="The node joins a quorum that is there already.")
]
InitialControllers = Annotated[
    str | None,
    typer.Option("--initial-controllers", "-I", help="The first voters: id@host:port:directory-id,..."),
]


def format_directories(
    config: ConfigFile,
    cluster_id: ClusterId,
    add_scram: Scram = None,
    ignore_formatted: IgnoreFormatted = False,
    release_version: ReleaseVersion = None,
    feature: Feature = None,
    standalone: Standalone = False,
    no_initial_controllers: NoInitialControllers = False,
    initial_controllers: InitialControllers = None,
) -> None:
    """Format the node's data directories."""
    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise CliError("Give only one of --standalone, --initial-controllers and --no-initial-controllers.")
    node = NodeConfig.load(config)
    if node.is_zookeeper_mode:
        raise CliError("nothing is formatted in ZooKeeper mode: a broker makes its data directories when it starts.")
    voters = _voters(node, standalone, initial_controllers)
    if voters is None and node.is_controller and not node.voters and not no_initial_controllers:
        raise CliError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    request = server_format.FormatRequest(
        cluster_id=cluster_id,
        node_id=node.node_id,
        log_dirs=directories(node),
        metadata_dir=Path(node.metadata_log_dir),
        voters=voters,
        dynamic=not node.voters,
        release=_release(release_version),
        features=_levels(feature or ()),
        scram=add_scram or (),
        ignore_formatted=ignore_formatted,
    )
    try:
        server_format.format_directories(request, typer.echo)
    except (server_format.FormatError, OSError) as e:
        raise CliError(str(e)) from None


def _voters(node: NodeConfig, standalone: bool, initial_controllers: str | None) -> VoterSet | None:
    if not standalone and initial_controllers is None:
        return None
    if node.voters:
        raise CliError(
            "controller.quorum.voters fixes the voters, --standalone and --initial-controllers are for a quorum whose "
            "voters may change: set controller.quorum.bootstrap.servers in place of controller.quorum.voters"
        )
    if standalone and not node.is_controller:
        raise CliError("--standalone makes this node the first controller, and its process.roles has none")
    try:
        if initial_controllers is not None:
            return parse_dynamic_voters(initial_controllers, node.controller_listener_names[0])
        return server_format.standalone_voters(node)
    except ValueError as e:
        raise CliError(str(e)) from None


def _release(text: str | None) -> MetadataVersion | None:
    try:
        return None if text is None else MetadataVersion.parse(text)
    except ValueError as e:
        raise CliError(str(e)) from None


def _levels(items: Sequence[str]) -> dict[str, int]:
    levels = {}
    for item in items:
        name, equals, level = (part.strip() for part in item.partition("="))
        if not equals:
            raise CliError(f"{item} is not FEATURE=LEVEL")
        if not level.removeprefix("-").isdecimal():
            raise CliError(f"{item}: {level!r} is not a level")
        levels[name] = int(level)
    return levels
