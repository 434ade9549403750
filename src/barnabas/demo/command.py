"""`barnabas demo`: real flights through a secured node and two Connect workers into a Parquet lake on Spark."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from barnabas.demo.folder import Folder


def command(
    directory: Annotated[
        Path, typer.Option("--dir", help="Where everything goes; a run that was killed resumes from here.")
    ] = Path("demo-out"),
    master: Annotated[str, typer.Option(help="For each worker's Spark: local[N] or spark://host:port.")] = "local[*]",
    keep_running: Annotated[bool, typer.Option("--keep-running", help="Leave the node running at the end.")] = False,
    first: Annotated[
        int | None, typer.Option("--flights", min=1, help="Only the first so many; all by default.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what an earlier run made and begin again.")] = False,
) -> None:
    """Show a real data set go through a secured node into a Parquet lake, by a connector on two Connect workers.

    One of the workers is killed half-way; still every record arrives exactly once.

    Examples:

      barnabas demo

      barnabas demo --dir /var/tmp/demo --keep-running
    """
    from confluent_kafka import KafkaException

    from barnabas.demo.app import Settings, run
    from barnabas.demo.node import DemoError
    from barnabas.net.client import ChannelError

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing of ours is left running
    console = Console()
    try:
        run(Settings(Folder(directory.absolute()), master, keep_running, fresh, first), console)
    except (DemoError, ChannelError, KafkaException) as error:
        console.print(str(error), style="bold red", markup=False)
        console.print("The same command goes on from here.")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on from here.")
        raise typer.Exit(130) from None
