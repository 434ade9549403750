"""`barnabas transactions find-hanging`: open transactions that no coordinator will ever end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, Connection, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.client.admin import Admin
from barnabas.client.admin.transactions import ActiveProducer, TransactionDescription
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode

_AT_A_TIME: Final = 500
"""Partitions that one request asks for at most."""
_MINUTE_MS: Final = 60_000


class OpenTransaction(NamedTuple):
    """A transaction as one partition knows it."""

    partition: TopicPartition
    producer: ActiveProducer


def find_hanging(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    broker_id: Annotated[int | None, typer.Option(help="Look through this broker's replicas.")] = None,
    max_transaction_timeout: Annotated[
        int, typer.Option(metavar="MINUTES", help="Leave out what may still end in its own time.")
    ] = 15,
    topic: Annotated[str | None, typer.Option(help="Look through this topic.")] = None,
    partition: Annotated[int | None, typer.Option(help="Only this partition of the topic.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Find transactions that are open in a partition though their coordinator has nothing to end there.

    They keep readers of what is committed waiting; `abort` ends them.

    Examples:

      barnabas transactions --bootstrap-server localhost:9092 find-hanging --broker-id 1
    """
    if topic is None and broker_id is None:
        raise CliError("Say where to look: --topic NAME or --broker-id ID.")
    if partition is not None and topic is None:
        raise CliError("--partition needs --topic: of which topic is it?")
    config = Connection(bootstrap_server, command_config=command_config).config(ctx)
    now_ms = int(time.time() * 1000)

    async def work(admin: Admin) -> list[OpenTransaction]:
        partitions = await _partitions(admin, topic, partition, broker_id)
        found = await _open(admin, partitions, broker_id)
        return await _hanging(admin, long_open(found, now_ms, max_transaction_timeout * _MINUTE_MS))

    hanging = run_admin(config, work, needs="Read on the topics and Describe on the transactional ids")
    show([_row(t, now_ms) for t in hanging], output, empty="No transaction hangs.")


def long_open(found: Iterable[OpenTransaction], now_ms: int, limit_ms: int) -> list[OpenTransaction]:
    """Give those that are open and have had no record for longer than a transaction may take."""
    return [
        t for t in found if t.producer.transaction_start is not None and now_ms - t.producer.last_timestamp > limit_ms
    ]


def forgotten(
    candidates: Iterable[OpenTransaction],
    names: Mapping[int, str],
    described: Mapping[str, TransactionDescription | None],
) -> list[OpenTransaction]:
    """Give those that no coordinator will end: their producer id has no transactional id, that has no transaction, or
    its transaction is not, or no longer, in the partition. names: transactional ids by producer id."""
    found = []
    for candidate in candidates:
        name = names.get(candidate.producer.producer_id)
        description = None if name is None else described.get(name)
        if description is None or candidate.partition not in description.partitions:
            found.append(candidate)
    return found


async def _partitions(
    admin: Admin, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    known = await admin.topics()
    if topic is not None and topic not in known:
        raise CliError(f"There is no topic {topic}, or you may not see it.")
    names: Sequence[str] = sorted(known) if topic is None else [topic]
    return [
        TopicPartition(name, info.partition)
        for name in names
        for info in known[name].partitions.values()
        if broker_id is None or broker_id in info.replicas
    ]


async def _open(admin: Admin, partitions: Sequence[TopicPartition], broker_id: int | None) -> list[OpenTransaction]:
    found = []
    for first in range(0, len(partitions), _AT_A_TIME):
        asked = partitions[first : first + _AT_A_TIME]
        for where, producers in (await admin.describe_producers(asked, broker=broker_id)).items():
            if isinstance(producers, ApiError):
                raise producers
            found += [OpenTransaction(where, producer) for producer in producers]
    return found


async def _hanging(admin: Admin, candidates: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    if not candidates:
        return []
    ids = {c.producer.producer_id for c in candidates}
    names = {t.producer_id: t.transactional_id for t in await admin.list_transactions(producer_ids=ids)}
    described: dict[str, TransactionDescription | None] = {}
    for name, description in (await admin.describe_transactions(names.values())).items():
        if isinstance(description, ApiError):
            if description.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise description
            described[name] = None
        else:
            described[name] = description
    return forgotten(candidates, names, described)


def _row(found: OpenTransaction, now_ms: int) -> dict[str, Any]:
    producer = found.producer
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": -1 if producer.coordinator_epoch is None else producer.coordinator_epoch,
        "start_offset": producer.transaction_start,
        "last_timestamp": producer.last_timestamp,
        "duration_min": (now_ms - producer.last_timestamp) // _MINUTE_MS,
    }
