"""Workers of ours in the test's own loop, with the plain runtime, and waiting for what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.connect.config import WorkerConfig
from barnabas.connect.herder_port import ConnectorStateInfo, HerderError
from barnabas.connect.worker import Worker
from barnabas.model.ports import Clock
from barnabas.model.topic_partition import TopicPartition
from tests.connect.plain_runtime import FILE_SOURCE, PlainPlugins, PlainRuntime

PATIENCE_SECONDS = 120.0


def worker_properties(bootstrap: str, group: str, **more: str) -> dict[str, str]:
    """Give a worker's file for a group of its own; more: `_` stands for `.`."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.storage.partitions": "2",
        "status.storage.partitions": "2",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": "http://127.0.0.1:0",
        "rest.advertised.host.name": "127.0.0.1",
        "heartbeat.interval.ms": "100",
        # Nobody is to lose its work, and no request to be turned down, because the machine is busy.
        "session.timeout.ms": "60000",
        "worker.sync.timeout.ms": "60000",
        "scheduled.rebalance.max.delay.ms": "0",
        "retry.backoff.ms": "20",
    } | {name.replace("_", "."): value for name, value in more.items()}


@asynccontextmanager
async def running(
    properties: dict[str, str], *, plugins: PlainPlugins | None = None, clock: Clock | None = None
) -> AsyncIterator[Worker]:
    """Give a worker that has joined its group; it leaves it in the end."""
    client = ClientConfig.from_properties({"bootstrap.servers": properties["bootstrap.servers"], "linger.ms": "0"})
    worker = Worker(
        WorkerConfig.from_properties(properties),
        plugins or PlainPlugins(),
        lambda offsets: PlainRuntime(client, offsets, properties["group.id"]),
        clock=clock,
    )
    async with running_worker(worker):
        yield worker


@asynccontextmanager
async def running_worker(worker: Worker) -> AsyncIterator[Worker]:
    """Give this worker once it has joined its group; it leaves it in the end."""
    life = asyncio.create_task(worker.run())
    try:
        await until(lambda: life.done() or (worker.url != "" and worker.herder.health().ready))
        if life.done():
            await life
        yield worker
    finally:
        worker.stop()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait({life})
    await life


async def until(what: Callable[[], object]) -> None:
    """Wait for something to be so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not what():  # noqa: ASYNC110 - what other tasks and workers do has no event
            await asyncio.sleep(0.01)


def status(worker: Worker, name: str) -> ConnectorStateInfo | None:
    """Give how a connector does, None while nobody has told."""
    try:
        return worker.herder.connector_status(name)
    except HerderError:
        return None


def states(worker: Worker, name: str) -> list[str]:
    """Give the states of a connector and its tasks."""
    info = status(worker, name)
    return [] if info is None else [info.connector.state, *(task.state for task in info.tasks)]


def source(file: Path, topic: str, **more: str) -> dict[str, str]:
    """Give a connector that copies the lines of a file to a topic."""
    return {"name": "lines", "connector.class": FILE_SOURCE, "file": str(file), "topic": topic, **more}


async def read_lines(bootstrap: str, topic: str, count: int) -> list[str]:
    """Give the first records of a topic of one partition."""
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    lines: list[str] = []
    partition = TopicPartition(topic, 0)
    async with PartitionFetcher(config) as fetcher, asyncio.timeout(PATIENCE_SECONDS):
        fetcher.assign({partition: 0})
        while len(lines) < count:
            for batches in await fetcher.fetch(500):
                lines += [value.decode() for value in batches.columns().values if value is not None]
    return lines
