"""`barnabas cluster start | status | add | kill | pause | resume | restart | stop | logs`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from barnabas.cli.cluster import saved
from barnabas.cli.cluster.control import Answer, ControlServer, ask
from barnabas.cli.cluster.screen import run_screen
from barnabas.cli.cluster.supervisor import Supervisor
from barnabas.cli.connection import pairs
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done, show, show_json
from barnabas.testing.processes import NodeProcessError, ProcessCluster

DEFAULT_DIRECTORY: Final = Path("barnabas-cluster")
Directory = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the cluster keeps everything.")]
Nodes = Annotated[list[int], typer.Argument(metavar="NODE...", help="Node ids, as `status` shows them.")]


def start(
    directory: Directory = DEFAULT_DIRECTORY,
    controllers: Annotated[int | None, typer.Option(min=1, help="Nodes that are controllers only.")] = None,
    brokers: Annotated[int | None, typer.Option(min=0, help="Nodes that are brokers only.")] = None,
    combined: Annotated[int | None, typer.Option(min=1, help="Nodes that are both; 3 when nothing is said.")] = None,
    plaintext: Annotated[bool, typer.Option("--plaintext", help="No TLS, no login, no ACLs.")] = False,
    racks: Annotated[str | None, typer.Option(metavar="R,R", help="Racks of the brokers, in turn.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Clients' ports begin here; 0 for any.")] = 9092,
    override: Annotated[
        list[str] | None, typer.Option("--override", metavar="KEY=VALUE", help="A setting of every node; repeatable.")
    ] = None,
) -> None:
    """Run a cluster of several nodes on this machine, to play with; the one in --dir when there is one.

    It is secured (SASL_SSL, SCRAM, ACLs) unless --plaintext is given, and writes a file with client settings. At a
    terminal a table shows the nodes, and commands are typed below it; elsewhere, and from other terminals, the other
    commands of `barnabas cluster` do the same. Ctrl-C, SIGTERM or `barnabas cluster stop` stop every node in order.

    Examples:

      barnabas cluster start

      barnabas cluster start --controllers 3 --brokers 3 --racks a,b,c --dir /var/tmp/play

      barnabas cluster kill 2 --dir /var/tmp/play
    """
    directory = directory.absolute()
    lock = saved.RunLock(directory)
    try:
        shape = {"controllers": controllers, "brokers": brokers, "combined": combined}
        supervisor = Supervisor(_cluster(directory, shape, plaintext, racks, port, pairs(override, "--override")))
        _run(supervisor)
    finally:
        lock.release()


def _cluster(
    directory: Path,
    shape: dict[str, int | None],
    plaintext: bool,
    racks: str | None,
    port: int,
    properties: dict[str, str],
) -> ProcessCluster:
    asked = {name: count for name, count in shape.items() if count is not None}
    if saved.exists(directory):
        if asked or plaintext or racks or properties:
            raise CliError(f"There is a cluster in {directory}, which is started as it is: leave its shape out.")
        return saved.load(directory)
    if not asked:
        asked = {"combined": 3}
    if not asked.get("controllers") and not asked.get("combined"):
        raise CliError("A cluster needs a controller: add --controllers 1, or ask for --combined nodes.")
    try:
        return ProcessCluster(
            directory,
            controllers=asked.get("controllers", 0),
            brokers=asked.get("brokers", 0),
            combined=asked.get("combined", 0),
            plaintext=plaintext,
            dynamic=True,
            racks=[rack.strip() for rack in racks.split(",")] if racks else (),
            properties=properties,
            first_port=port,
        )
    except OSError as e:
        raise CliError(f"{e}: add --port 0 for any that are free.") from None


def _run(supervisor: Supervisor) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.over.set())
    control = None
    typer.echo(f"Starting {len(supervisor.cluster.nodes)} nodes ...")
    try:
        supervisor.start()
        control = ControlServer(supervisor.cluster.plan.files.directory, supervisor.handle)
        typer.echo(_greeting(supervisor))
        if sys.stdin.isatty() and sys.stdout.isatty():
            run_screen(supervisor)
        else:
            supervisor.over.wait()
        typer.echo("Stopping every node ...")
    except NodeProcessError as e:
        raise CliError(str(e)) from None
    finally:
        if control is not None:
            control.close()
        supervisor.stop()


def _greeting(supervisor: Supervisor) -> str:
    cluster = supervisor.cluster
    if not cluster.brokers:
        return "The controllers serve; there is no broker yet: `barnabas cluster add broker`."
    how = "PLAINTEXT, open to everybody on this machine"
    if not cluster.plan.plaintext:
        how = "SASL_SSL, SCRAM-SHA-512, ACLs on"
    return (
        f"The cluster serves {cluster.bootstrap} ({how}).\n"
        f"  Client settings   --command-config {supervisor.client_file}"
    )


def status(directory: Directory = DEFAULT_DIRECTORY, output: Output = OutputFormat.TABLE) -> None:
    """Show the nodes.

    Examples:

      barnabas cluster status --dir /var/tmp/play
    """
    answer = _ask(directory, ["status"])
    if output is OutputFormat.JSON:
        show_json({"summary": answer.text, "nodes": answer.rows})
    else:
        show(answer.rows or [], output)
        typer.echo(answer.text)


def add(
    kind: Annotated[str, typer.Argument(metavar="broker|controller")],
    directory: Directory = DEFAULT_DIRECTORY,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Add a broker, or a controller that then votes."""
    _tell(directory, ["add", kind], output)


def kill(nodes: Nodes, directory: Directory = DEFAULT_DIRECTORY, output: Output = OutputFormat.TABLE) -> None:
    """End nodes by SIGKILL: nothing is flushed, nobody is told."""
    _tell(directory, ["kill", *map(str, nodes)], output)


def pause(nodes: Nodes, directory: Directory = DEFAULT_DIRECTORY, output: Output = OutputFormat.TABLE) -> None:
    """Stop nodes by SIGSTOP: alive, and silent."""
    _tell(directory, ["pause", *map(str, nodes)], output)


def resume(nodes: Nodes, directory: Directory = DEFAULT_DIRECTORY, output: Output = OutputFormat.TABLE) -> None:
    """Let paused nodes go on."""
    _tell(directory, ["resume", *map(str, nodes)], output)


def restart(nodes: Nodes, directory: Directory = DEFAULT_DIRECTORY, output: Output = OutputFormat.TABLE) -> None:
    """Stop nodes in order and start them again; one that is down is started."""
    _tell(directory, ["restart", *map(str, nodes)], output)


def stop(
    nodes: Annotated[list[int] | None, typer.Argument(metavar="[NODE...]", help="All of them when left out.")] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Stop nodes in order; all of them, and what runs them, when none is named."""
    _tell(directory, ["stop", *map(str, nodes or ())], output)


def logs(
    node: Annotated[int, typer.Argument(metavar="NODE")],
    directory: Directory = DEFAULT_DIRECTORY,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print the last lines of a node's log."""
    _tell(directory, ["logs", str(node)], output)


def _tell(directory: Path, words: list[str], output: OutputFormat) -> None:
    answer = _ask(directory, words)
    done(answer.text, output, done=answer.text)


def _ask(directory: Path, words: list[str]) -> Answer:
    directory = directory.absolute()
    if not saved.exists(directory):
        raise CliError(f"There is no cluster in {directory}: make one with `barnabas cluster start`.")
    if not saved.is_run(directory):
        raise CliError(f"The cluster in {directory} does not run: `barnabas cluster start` starts it.")
    return ask(directory, words)
