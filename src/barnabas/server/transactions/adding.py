"""Adding partitions to transactions that are coordinated here, or saying whether they are in them (KIP-98, KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.partitions import partitions_of, response, result, transactions
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.server.context import Services

Outcome = Mapping[TopicPartition, ErrorCode]


async def add_for_brokers(
    request: AddPartitionsToTxnRequest, version: int, node: Services
) -> AddPartitionsToTxnResponse:
    """Answer brokers, which may ask for many transactions at once: version 4 and later."""
    asked = transactions(request, version)
    outcomes = await asyncio.gather(*(add(transaction, version, node) for transaction in asked))
    return response([result(*each) for each in zip(asked, outcomes, strict=True)], version)


async def add(
    transaction: AddPartitionsToTxnTransaction, version: int, node: Services, refused: Outcome | None = None
) -> Outcome:
    """Add, or verify, what exists; one partition that cannot be added keeps all others out.

    refused: what is wrong with some already.
    """
    partitions = partitions_of(transaction)
    errors = dict(refused or {})
    topics = node.image().topics.by_name
    for tp in partitions:
        found = topics.get(tp.topic)
        if tp not in errors and (found is None or tp.partition not in found.partitions):
            errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if errors:
        return {tp: errors.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in partitions}
    return await _coordinated(transaction, partitions, version, node)


async def _coordinated(
    transaction: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition], version: int, node: Services
) -> Outcome:
    coordinator = node.transactions
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            return await coordinator.verify_partitions(transaction.transactional_id, producer, partitions)
        code = await coordinator.add_partitions(transaction.transactional_id, producer, partitions, version)
    except ApiError as e:
        code = e.code
    return dict.fromkeys(partitions, code)
