"""`barnabas run`: a node, from a `server.properties` or from nothing at all."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from barnabas.cli.connection import pairs
from barnabas.cli.errors import CliError
from barnabas.cli.logs import configure_logs
from barnabas.cli.open_files import raise_open_files
from barnabas.net.dev_ca import write_private
from barnabas.server.config import NodeConfig
from barnabas.server.dev_node import DevFiles, prepare_plain, prepare_secured, write_client_configs
from barnabas.server.node import Node, NodeStartError

GC_THRESHOLD: Final = 50_000
"""So many new objects make the collector look for cycles; requests leave none behind."""
STARTING_GC_THRESHOLD: Final = 1_000_000
"""The same while a node starts: what it loads then stays, and to look through it again and again costs a quarter."""


def command(
    properties: Annotated[
        Path | None, typer.Argument(help="A Kafka server.properties; formatted with `barnabas storage format`.")
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option("--override", metavar="KEY=VALUE", help="A setting over the file's; repeatable.")
    ] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Where a node without a file keeps everything.")] = Path(
        "barnabas-data"
    ),
    listener: Annotated[
        str | None,
        typer.Option(metavar="PLAINTEXT://HOST:PORT", help="Without a file: one unsecured listener instead."),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write a JSON file (bootstrap, cluster id, pid, client configs) once serving.")
    ] = None,
) -> None:
    """Run a node until SIGTERM or Ctrl-C.

    Without a file it is a secured node on loopback (SASL_SSL, SCRAM, ACLs) that makes all it needs in --dir and says
    how to connect.

    Examples:

      barnabas run

      barnabas run server.properties --override log.retention.hours=1

      barnabas run --listener PLAINTEXT://127.0.0.1:9092 --dir /var/tmp/quick
    """
    configure_logs()
    raise_open_files()
    files = None if properties is not None else DevFiles(directory.absolute())
    if properties is not None:
        if listener is not None:
            raise CliError("--listener is for a node without a file; use --override listeners=... instead.")
        config = NodeConfig.load(properties, pairs(override, "--override"))
    else:
        config = prepare_plain(directory, listener) if listener else prepare_secured(directory)
        if override:
            config = NodeConfig.parse({**config.originals, **pairs(override, "--override")})
    try:
        uvloop.run(_serve(config, files, ready_file))
    except NodeStartError as e:
        raise CliError(str(e)) from None


async def _serve(config: NodeConfig, files: DevFiles | None, ready_file: Path | None) -> None:
    gc.set_threshold(STARTING_GC_THRESHOLD, *gc.get_threshold()[1:])
    node = await Node.create(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)  # of a node that was killed
    if not await _started(node, stop):
        return
    _settle_memory()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    try:
        if files is not None:
            secured = any(e.sasl for e in config.broker_listeners)
            write_client_configs(files, node.bootstrap(), secured=secured)
            _greet(node, files, secured)
        if ready_file is not None:
            _write_ready(ready_file, node, files)
        await node.failed_or(stop)
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
        await node.stop()
    if node.failure is not None:
        raise NodeStartError(f"the node stopped: {node.failure}")


async def _started(node: Node, stop: asyncio.Event) -> bool:
    """Start the node; False when it was told to stop first: a node waits for its quorum for as long as it takes."""
    starting = asyncio.ensure_future(node.start())
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        return False
    await starting
    return True


def _settle_memory() -> None:
    """Keep the collector away from what lives as long as the node: a full pass over it would hold every client up."""
    gc.collect()
    gc.freeze()


def _write_ready(path: Path, node: Node, files: DevFiles | None) -> None:
    ready = {
        "bootstrap": node.bootstrap(),
        "cluster_id": node.cluster_id,
        "node_id": node.config.node_id,
        "pid": os.getpid(),
        "client_configs": files.client_configs() if files is not None else {},
    }
    write_private(path, json.dumps(ready, indent=2).encode() + b"\n")


def _greet(node: Node, files: DevFiles, secured: bool) -> None:
    configs = files.client_configs()
    kind = "SASL_SSL, SCRAM-SHA-512, ACLs on" if secured else "PLAINTEXT, open to everybody on this machine"
    lines = [
        f"Barnabas serves {node.bootstrap()} ({kind}).",
        f"  Java clients and Kafka's tools   --command-config {configs['java']}",
        f"  kcat, confluent-kafka            {configs['librdkafka']}",
        f"  kafka-python, aiokafka           {configs['python']}",
    ]
    if secured:
        lines.append(f"  Super user admin, its password in {files.password}")
    typer.echo("\n".join(lines))
