"""`barnabas transactions abort | force-terminate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, Connection, require, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done
from barnabas.cli.transactions.looking import producers_of
from barnabas.client.admin import Admin
from barnabas.client.producer_id import ProducerId
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError


@dataclass(frozen=True, slots=True)
class _Hanging:
    """What to write the marker for."""

    producer: ProducerId
    coordinator_epoch: int


def abort(
    ctx: typer.Context,
    topic: Annotated[str, typer.Option(help="The topic.")],
    partition: Annotated[int, typer.Option(help="The partition's number.")],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    start_offset: Annotated[
        int | None, typer.Option(help="Where the transaction begins, as find-hanging and describe-producers say.")
    ] = None,
    producer_id: Annotated[int | None, typer.Option(help="Brokers before 3.0: the producer's id.")] = None,
    producer_epoch: Annotated[int | None, typer.Option(help="Brokers before 3.0: the producer's epoch.")] = None,
    coordinator_epoch: Annotated[int | None, typer.Option(help="Brokers before 3.0: the coordinator's epoch.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """End a transaction that hangs in a partition, so that readers of what is committed get past it.

    Only for a transaction that no coordinator knows any more; `find-hanging` finds them.

    Examples:

      barnabas transactions --bootstrap-server localhost:9092 abort --topic flights --partition 0 --start-offset 4711
    """
    config = Connection(bootstrap_server, command_config=command_config).config(ctx)
    where = TopicPartition(topic, partition)
    given: _Hanging | None = None
    if start_offset is None:
        if producer_id is None:
            raise CliError(
                "Say which transaction: --start-offset, or for brokers before 3.0 --producer-id, --producer-epoch and "
                "--coordinator-epoch."
            )
        epoch = require(producer_epoch, "--producer-epoch")
        given = _Hanging(ProducerId(producer_id, epoch), require(coordinator_epoch, "--coordinator-epoch"))

    async def work(admin: Admin) -> _Hanging:
        hanging = given or await _at(admin, where, start_offset)
        await admin.abort_transaction(where, hanging.producer, coordinator_epoch=hanging.coordinator_epoch)
        return hanging

    aborted = run_admin(config, work, needs="Alter on the cluster")
    producer = aborted.producer
    done(
        f"Aborted the transaction of producer {producer.id} (epoch {producer.epoch}) in {where}.",
        output,
        topic=topic,
        partition=partition,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
    )


async def _at(admin: Admin, where: TopicPartition, start_offset: int | None) -> _Hanging:
    for producer in await producers_of(admin, where):
        if producer.transaction_start == start_offset:
            return _Hanging(ProducerId(producer.producer_id, producer.producer_epoch), producer.coordinator_epoch or 0)
    raise CliError(f"No open transaction begins at offset {start_offset} of {where}.")


def force_terminate(
    ctx: typer.Context,
    transactional_id: Annotated[
        str, typer.Option("--transactional-id", "--transactionalId", help="The transactional id.")
    ],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Abort what a transactional id has open, and shut its producer out (KIP-939).

    Examples:

      barnabas transactions --bootstrap-server localhost:9092 force-terminate --transactional-id orders
    """
    config = Connection(bootstrap_server, command_config=command_config).config(ctx)

    async def work(admin: Admin) -> ProducerId:
        fenced = (await admin.fence_producers([transactional_id]))[transactional_id]
        if isinstance(fenced, ApiError):
            raise fenced
        return fenced

    fenced = run_admin(config, work, needs=f"Write on transactional id {transactional_id!r}")
    done(
        f"Whatever {transactional_id} had open is aborted; its producers before epoch {fenced.epoch} are shut out.",
        output,
        transactional_id=transactional_id,
        producer_id=fenced.id,
        producer_epoch=fenced.epoch,
    )
