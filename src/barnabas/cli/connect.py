"""`barnabas connect`: a Kafka Connect worker whose tasks run on Spark, from a `worker.properties`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer
import uvloop

from barnabas.cli.connection import explain, pairs
from barnabas.cli.errors import CliError
from barnabas.cli.logs import configure_logs
from barnabas.cli.open_files import raise_open_files
from barnabas.client.config import load_properties_file
from barnabas.connect.config import WorkerConfig
from barnabas.net.client import ChannelError
from barnabas.net.dev_ca import write_private
from barnabas.wire.errors import ApiError

if TYPE_CHECKING:
    from barnabas.connect.worker import Worker

log = structlog.get_logger("kafka.connect.worker")


def command(
    properties: Annotated[
        Path, typer.Argument(metavar="WORKER.PROPERTIES", help="Kafka Connect's file of a distributed worker.")
    ],
    override: Annotated[
        list[str] | None, typer.Option("--override", metavar="KEY=VALUE", help="A setting over the file's; repeatable.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write a JSON file (url, group, pid) once the worker has joined its group.")
    ] = None,
) -> None:
    """Run a Kafka Connect worker until SIGTERM or Ctrl-C; a second one ends it at once.

    It works with Barnabas and with Apache Kafka, shares a group with Apache Kafka's own workers, and takes their
    files. Tasks run on Spark, in this process's session unless barnabas.spark.master says otherwise.

    A file that is enough on one machine:

    \b
      bootstrap.servers=localhost:9092
      group.id=connect
      config.storage.topic=connect-configs
      offset.storage.topic=connect-offsets
      status.storage.topic=connect-status
      config.storage.replication.factor=1
      offset.storage.replication.factor=1
      status.storage.replication.factor=1
      key.converter=org.apache.kafka.connect.storage.StringConverter
      value.converter=org.apache.kafka.connect.storage.StringConverter
      listeners=http://127.0.0.1:8083

    Then:  barnabas connectors create FILE

    Examples:

      barnabas connect worker.properties

      barnabas connect worker.properties --override listeners=http://127.0.0.1:8084
    """
    configure_logs()
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every call into Spark
    raise_open_files()
    config = WorkerConfig.from_properties(load_properties_file(properties) | pairs(override, "--override"))
    try:
        from barnabas.connect.spark_worker import spark_worker  # much to load for a wrong setting
        from barnabas.spark.session import SparkMissingError
    except ModuleNotFoundError as e:
        raise CliError(f"Tasks run on Spark, and {e.name} is not installed: pip install 'barnabas[spark]'") from None
    try:
        uvloop.run(_serve(config, spark_worker(config), ready_file))
    except SparkMissingError as e:
        raise CliError(f"{e}.") from None
    except (ApiError, ChannelError) as e:
        raise CliError(explain(e, config.client, "Create, Read and Write on its topics, Read on its group")) from e


async def _serve(config: WorkerConfig, worker: Worker, ready_file: Path | None) -> None:
    _stop_by_signals(worker)
    log.info(
        "worker starts",
        version=version("barnabas"),
        group=config.text("group.id"),
        brokers=",".join(config["bootstrap.servers"]),
        spark=config.text("barnabas.spark.master"),
    )
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)  # of a worker that was killed
    telling = asyncio.create_task(_tell_ready(config, worker, ready_file))
    try:
        await worker.run()
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def _stop_by_signals(worker: Worker) -> None:
    """Have the first signal stop the worker as it should be stopped, and the next one end the process at once."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def stop() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        log.info("stopping: connectors and tasks first; a second signal ends it at once")
        worker.stop()

    for number in numbers:
        loop.add_signal_handler(number, stop)


async def _tell_ready(config: WorkerConfig, worker: Worker, ready_file: Path | None) -> None:
    await worker.joined()
    member = worker.engine.member
    signed = "signed" if member.subprotocol.signs else "not signed"
    group, url = config.text("group.id"), worker.url.rstrip("/")
    lines = [
        f"Worker {worker.herder.worker_id} has joined the group {group}; requests between workers are {signed}.",
        f"  What runs   barnabas connectors list --url {url}",
        f"  REST API    {url}/docs",
    ]
    typer.echo("\n".join(lines))
    if ready_file is not None:
        ready = {"url": url, "worker_id": worker.herder.worker_id, "group": group, "pid": os.getpid()}
        write_private(ready_file, json.dumps(ready, indent=2).encode() + b"\n")
