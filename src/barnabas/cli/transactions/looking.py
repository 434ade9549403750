"""`barnabas transactions list | describe | describe-producers`."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, Connection, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.client.admin import Admin
from barnabas.client.admin.transactions import ActiveProducer, TransactionDescription, TransactionListing
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode


def list_transactions(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    duration_filter: Annotated[
        int | None, typer.Option(metavar="MS", help="Only those that run longer; all if negative.")
    ] = None,
    transactional_id_pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only transactional ids that match this.")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List transactional ids with their producers and the states of their transactions.

    Examples:

      barnabas transactions --bootstrap-server localhost:9092 list --duration-filter 60000
    """
    config = Connection(bootstrap_server, command_config=command_config).config(ctx)

    async def work(admin: Admin) -> list[TransactionListing]:
        longer_than_ms = -1 if duration_filter is None else duration_filter
        return await admin.list_transactions(longer_than_ms=longer_than_ms, pattern=transactional_id_pattern)

    show(
        [
            {
                "transactional_id": t.transactional_id,
                "coordinator": t.coordinator,
                "producer_id": t.producer_id,
                "transaction_state": t.state,
            }
            for t in run_admin(config, work, needs="Describe on the transactional ids")
        ],
        output,
        empty="There is no such transactional id, or you may not see it.",
    )


def describe(
    ctx: typer.Context,
    transactional_id: Annotated[str, typer.Option(help="The transactional id.")],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what a transactional id has open, since when, and where.

    Examples:

      barnabas transactions --bootstrap-server localhost:9092 describe --transactional-id orders
    """
    config = Connection(bootstrap_server, command_config=command_config).config(ctx)

    async def work(admin: Admin) -> TransactionDescription:
        found = (await admin.describe_transactions([transactional_id]))[transactional_id]
        if isinstance(found, ApiError):
            if found.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise CliError(
                    f"There is no transactional id {transactional_id}; `barnabas transactions list` shows those you "
                    "may see."
                )
            raise found
        return found

    found = run_admin(config, work, needs=f"Describe on transactional id {transactional_id!r} and on its topics")
    show([_described(found, int(time.time() * 1000))], output)


def _described(found: TransactionDescription, now_ms: int) -> dict[str, Any]:
    return {
        "coordinator_id": found.coordinator,
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "transaction_state": found.state,
        "transaction_timeout_ms": found.timeout_ms,
        "current_transaction_start_time_ms": found.start_ms,
        "transaction_duration_ms": None if found.start_ms is None else now_ms - found.start_ms,
        "topic_partitions": [str(p) for p in found.partitions],
    }


def describe_producers(
    ctx: typer.Context,
    topic: Annotated[str, typer.Option(help="The topic.")],
    partition: Annotated[int, typer.Option(help="The partition's number.")],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    broker_id: Annotated[int | None, typer.Option(help="Ask the replica on this broker; the leader without.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the producers that a partition knows, and which of them have a transaction open in it.

    Examples:

      barnabas transactions --bootstrap-server localhost:9092 describe-producers --topic flights --partition 0
    """
    config = Connection(bootstrap_server, command_config=command_config).config(ctx)
    where = TopicPartition(topic, partition)
    producers = run_admin(config, lambda admin: producers_of(admin, where, broker_id), needs=f"Read on topic {topic!r}")
    show([_producer_row(p) for p in producers], output, empty=f"{where} knows no producer.")


async def producers_of(admin: Admin, where: TopicPartition, broker_id: int | None = None) -> list[ActiveProducer]:
    """Give the producers that one partition knows; ApiError when it is refused."""
    found = (await admin.describe_producers([where], broker=broker_id))[where]
    if isinstance(found, ApiError):
        raise found
    return found


def _producer_row(producer: ActiveProducer) -> dict[str, Any]:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "latest_coordinator_epoch": -1 if producer.coordinator_epoch is None else producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "current_transaction_start_offset": producer.transaction_start,
    }
