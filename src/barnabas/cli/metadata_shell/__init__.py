"""`barnabas metadata-shell`: kafka-metadata-shell, over a file, a directory or the quorum itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from barnabas.cli.connection import BootstrapController, CommandConfig, client_config, exactly_one, explain
from barnabas.cli.errors import CliError
from barnabas.cli.metadata_shell.commands import Session, run
from barnabas.cli.metadata_shell.interactive import talk
from barnabas.cli.metadata_shell.reading import Reading
from barnabas.cli.metadata_shell.sources import DirectorySource, FileSource, QuorumSource, Source
from barnabas.client.config import ClientConfig
from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.core.metadata.tree import Tree, TreeSource
from barnabas.core.metadata.tree import tree as make_tree
from barnabas.core.replicated import ReplayError
from barnabas.model.config import ConfigType
from barnabas.net.client import SOFTWARE_VERSION, ChannelError
from barnabas.server.config_keys import TABLE
from barnabas.wire.errors import ApiError, ProtocolError


def command(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND [ARG]...]", help="cat, find, ls or tree; a shell without.")
    ] = None,
    snapshot: Annotated[
        Path | None, typer.Option("--snapshot", "-s", metavar="FILE", help="Read a snapshot, or a segment of the log.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", "-d", metavar="DIR", help="Read a node's log directory; the node may run."),
    ] = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show passwords, SCRAM credentials and tokens as well.")
    ] = False,
) -> None:
    """Walk through a cluster's metadata as through a file system, as kafka-metadata-shell does.

    Without a command it is a shell (ls, cd, cat, find, tree, pwd, history, man, exit). With --bootstrap-controller it
    reads the quorum's log as it grows, which takes ClusterAction on the cluster.

    Examples:

      barnabas metadata-shell --directory barnabas-data/data tree /image/topics/byName/orders

      barnabas metadata-shell --snapshot data/__cluster_metadata-0/00000000000000000813-0000000001.checkpoint

      barnabas metadata-shell --bootstrap-controller localhost:9093 --command-config client.properties ls /image
    """
    exactly_one(
        {
            "--snapshot": snapshot is not None,
            "--directory": directory is not None,
            "--bootstrap-controller": bootstrap_controller is not None,
        }
    )
    config: ClientConfig | None = None
    source: Source
    if snapshot is not None:
        source = FileSource(snapshot)
    elif directory is not None:
        source = DirectorySource(directory)
    else:
        config = client_config(None, command_config, controllers=bootstrap_controller)
        source = QuorumSource(config)
    reading = Reading()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:

            def refresh() -> Tree:
                _catch_up(runner, source, reading, config)
                return _tree(reading, source, show_secrets)

            session = Session(refresh(), typer.echo)
            _warn(reading)
            if words:
                run(session, words, one_shot=True)
            else:
                talk(session, refresh)
        finally:
            runner.run(source.close())
    if words and session.failed:
        raise typer.Exit(1)


def _catch_up(runner: asyncio.Runner, source: Source, reading: Reading, config: ClientConfig | None) -> None:
    try:
        runner.run(source.catch_up(reading))
    except (ApiError, ChannelError) as e:
        assert config is not None, "only a cluster refuses"
        raise CliError(explain(e, config, "ClusterAction on the cluster")) from e
    except (ProtocolError, ReplayError) as e:
        raise CliError(f"{source.name}: {e}.") from None


def _tree(reading: Reading, source: Source, show_secrets: bool) -> Tree:
    local: dict[str, Tree] = {"version": SOFTWARE_VERSION, "commitId": "unknown", "source": source.name}
    quorum: dict[str, Tree] = {"kraftVersion": str(reading.kraft_version)}
    if reading.voters is not None:
        quorum["voters"] = {
            str(voter.node_id): ", ".join(f"{name}://{at.host}:{at.port}" for name, at in voter.endpoints)
            for voter in reading.voters
        }
    local["quorum"] = quorum
    is_secret = None if show_secrets else _is_secret
    return make_tree(TreeSource(reading.image, reading.time_ms, local, is_secret))


def _is_secret(kind: ConfigResourceType, key: str) -> bool:
    """Say whether a value may be a password; of a broker's keys that nobody knows it has to be assumed."""
    if kind is not ConfigResourceType.BROKER:
        return False
    known = TABLE.get(key)
    return known is None or known.type is ConfigType.PASSWORD


def _warn(reading: Reading) -> None:
    for what, count in sorted(reading.left_out.items()):
        typer.echo(f"Left out: {count} x {what}", err=True)
