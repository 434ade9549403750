"""`barnabas quorum add-controller | remove-controller`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, BootstrapController, CommandConfig, Connection, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done
from barnabas.client.admin.quorum import VoterEndpoint
from barnabas.client.config import load_properties_file, parse_host_port
from barnabas.model.uuid import Uuid
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.meta_properties import MetaPropertiesError, read_meta_properties

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def add_controller(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Its server.properties, when --command-config is another."),
    ] = None,
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Let a controller vote that follows the quorum already.

    Its id, directory and listeners are read from its server.properties and data directory, so run this where they
    are. As with Kafka's tool one file may hold both: the controller's settings and those of the client.

    Examples:

      barnabas quorum --bootstrap-controller localhost:9093 --command-config controller-4.properties add-controller

      barnabas quorum add-controller --command-config client.properties --config controller-4.properties
    """
    before: Connection = ctx.obj or Connection()
    file = config or command_config or before.command_config
    if file is None:
        raise CliError("Give the controller's server.properties, by --config or --command-config.")
    properties = load_properties_file(file)
    voter, directory, endpoints = _voter_id(properties), _directory_id(properties), _endpoints(properties)
    client = Connection(bootstrap_server, bootstrap_controller, command_config).config(ctx)
    if not dry_run:
        run_admin(client, lambda a: a.add_raft_voter(voter, directory, endpoints), needs="Alter on the cluster")
    listed = ", ".join(map(str, endpoints))
    said = f"controller {voter} with directory id {directory} and endpoints: {listed}"
    facts = {"id": voter, "directory_id": str(directory), "endpoints": [str(e) for e in endpoints], "dry_run": dry_run}
    done(f"DRY RUN of adding {said}" if dry_run else f"Added {said}", output, **facts)


def remove_controller(
    ctx: typer.Context,
    controller_id: Annotated[int, typer.Option("--controller-id", "-i", min=0, help="Its node id.")],
    controller_directory_id: Annotated[
        str, typer.Option("--controller-directory-id", "-d", help="Its directory id: see `quorum describe`.")
    ],
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Take a controller's vote; after that it may be stopped.

    Examples:

      barnabas quorum --bootstrap-server localhost:9092 remove-controller -i 4 -d R8FZ0VtSSeeMjVwAMcDzRQ
    """
    try:
        directory = Uuid.parse(controller_directory_id)
    except ValueError as e:
        raise CliError(f"--controller-directory-id: {e}.") from None
    client = Connection(bootstrap_server, bootstrap_controller, command_config).config(ctx)
    if not dry_run:
        run_admin(client, lambda a: a.remove_raft_voter(controller_id, directory), needs="Alter on the cluster")
    said = f"KRaft controller {controller_id} with directory id {directory}"
    facts = {"id": controller_id, "directory_id": str(directory), "dry_run": dry_run}
    done(f"DRY RUN of removing {said}" if dry_run else f"Removed {said}", output, **facts)


def _voter_id(properties: Mapping[str, str]) -> int:
    text = properties.get("node.id", "").strip()
    if not text.isdigit():
        raise CliError("The file has no node.id: is it the server.properties of a controller?")
    if "controller" not in properties.get("process.roles", ""):
        raise CliError("process.roles in the file has no controller: is it the server.properties of a controller?")
    return int(text)


def _directory_id(properties: Mapping[str, str]) -> Uuid:
    where = properties.get("metadata.log.dir") or properties.get("log.dirs", "").split(",")[0].strip()
    if not where:
        raise CliError("The file has neither metadata.log.dir nor log.dirs: is it a server.properties?")
    try:
        found = read_meta_properties(Path(where), OsFileSystem())
    except (MetaPropertiesError, OSError) as e:
        raise CliError(f"Cannot read the directory id of {where}: {e}.") from None
    if found is None or found.directory_id is None:
        raise CliError(f"{where} is not formatted, or not on this machine: run this where the controller is.")
    return found.directory_id


def _endpoints(properties: Mapping[str, str]) -> list[VoterEndpoint]:
    at: dict[str, VoterEndpoint] = {}
    for key in ("listeners", "advertised.listeners"):
        for item in filter(None, (item.strip() for item in properties.get(key, "").split(","))):
            name, _, address = item.partition("://")
            host_port = parse_host_port(f"localhost{address}" if address.startswith(":") else address)
            at[name.upper()] = VoterEndpoint(name.upper(), host_port.host, host_port.port)
    names = [name.strip().upper() for name in properties.get("controller.listener.names", "").split(",") if name]
    if not names:
        raise CliError("The file has no controller.listener.names: is it the server.properties of a controller?")
    missing = [name for name in names if name not in at]
    if missing:
        raise CliError(f"listeners in the file has no {missing[0]}, which controller.listener.names names.")
    return [at[name] for name in names]
