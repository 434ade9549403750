"""Fetching for `barnabas consume`: which partitions, from where, until when."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import typer

from barnabas.cli.consume.formatting import Printer
from barnabas.cli.errors import CliError
from barnabas.client.cluster import Cluster, topic_error
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import CorruptBatchError, FetchedBatches, PartitionFetcher
from barnabas.client.group_consumer import GroupConsumer
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.record_batch import Columns

_Poll = Callable[[int], Awaitable[list[FetchedBatches]]]
_POLL_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to read. offset: earliest, latest, a number, or a negative one counted from the end."""

    topic: str | None
    include: str | None
    partition: int | None
    offset: int | str
    from_beginning: bool
    max_messages: int | None
    timeout_ms: int | None
    skip_damaged: bool


async def consume(config: ClientConfig, wanted: Wanted, printer: Printer) -> int:
    """Print records until there are enough or none come any more; give how many it were."""
    async with AsyncExitStack() as stack:
        if config.text("group.id"):
            poll = await _as_member(stack, config, wanted)
        else:
            poll = await _alone(stack, config, wanted)
        return await _print_all(poll, wanted, printer)


async def _as_member(stack: AsyncExitStack, config: ClientConfig, wanted: Wanted) -> _Poll:
    async with Cluster(config) as cluster:
        topics = await _topics(cluster, wanted)
    consumer = await stack.enter_async_context(GroupConsumer(config, topics))
    return consumer.poll


async def _alone(stack: AsyncExitStack, config: ClientConfig, wanted: Wanted) -> _Poll:
    cluster = await stack.enter_async_context(Cluster(config))
    fetcher = await stack.enter_async_context(PartitionFetcher(config, cluster=cluster))
    partitions: list[TopicPartition] = []
    for name in await _topics(cluster, wanted):
        there = (await cluster.topic(name)).partitions
        if wanted.partition is not None and wanted.partition not in there:
            raise CliError(f"Topic {name} has no partition {wanted.partition}, only 0 to {len(there) - 1}.")
        partitions += [TopicPartition(name, p) for p in there if wanted.partition in (None, p)]
    fetcher.assign(await _positions(fetcher, partitions, wanted))
    return fetcher.fetch


async def _positions(
    fetcher: PartitionFetcher, partitions: list[TopicPartition], wanted: Wanted
) -> dict[TopicPartition, int]:
    if wanted.from_beginning or wanted.offset == "earliest":
        return await fetcher.start_offsets(partitions, "earliest")
    if isinstance(wanted.offset, int) and wanted.offset >= 0:
        return dict.fromkeys(partitions, wanted.offset)
    ends = await fetcher.start_offsets(partitions, "latest")
    if isinstance(wanted.offset, str):
        return ends
    starts = await fetcher.start_offsets(partitions, "earliest")
    return {p: max(end + wanted.offset, starts[p]) for p, end in ends.items()}


async def _topics(cluster: Cluster, wanted: Wanted) -> list[str]:
    known = await cluster.topics()
    if wanted.topic is not None:
        if wanted.topic not in known:
            await cluster.refresh([wanted.topic])  # says whether it is missing or not permitted
            raise topic_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted.topic)
        return [wanted.topic]
    try:
        pattern = re.compile(wanted.include or "")
    except re.error as e:
        raise CliError(f"--include {wanted.include!r} is not a regular expression: {e}.") from None
    found = sorted(n for n, t in known.items() if pattern.fullmatch(n) and not t.is_internal)
    if not found:
        raise CliError(f"No topic matches {wanted.include!r}, or you may not see it.")
    return found


async def _print_all(poll: _Poll, wanted: Wanted, printer: Printer) -> int:
    loop = asyncio.get_running_loop()
    count = 0
    last = loop.time()
    out = sys.stdout.buffer
    while wanted.max_messages is None or count < wanted.max_messages:
        wait_ms = _POLL_MS if wanted.timeout_ms is None else min(_POLL_MS, wanted.timeout_ms)
        for fetched in await poll(wait_ms):
            columns = _decoded(fetched, wanted)
            if wanted.max_messages is not None:
                columns = _first(columns, wanted.max_messages - count)
            if columns.offsets:
                out.write(printer(fetched, columns))
                count += len(columns.offsets)
                last = loop.time()
        out.flush()
        if wanted.timeout_ms is not None and (loop.time() - last) * 1000 >= wanted.timeout_ms:
            break
    return count


def _decoded(fetched: FetchedBatches, wanted: Wanted) -> Columns:
    try:
        return fetched.columns()
    except (CorruptBatchError, ProtocolError) as e:
        if not wanted.skip_damaged:
            raise
        typer.echo(f"Skipped {fetched.partition} {fetched.start} to {fetched.next - 1}: {e}", err=True)
        return Columns.empty()


def _first(columns: Columns, count: int) -> Columns:
    if len(columns.offsets) <= count:
        return columns
    return Columns(
        columns.offsets[:count],
        columns.timestamps[:count],
        columns.keys[:count],
        columns.values[:count],
        columns.headers[:count],
    )
