"""AddPartitionsToTxn v0-5: from clients (v0-3), from brokers that verify or add for them (v4-5). KIP-98, KIP-890."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.core.coordinators.step import Producer
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.replication.partitions import INTERNAL_TOPICS
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_OF_BROKERS: Final = 4
Outcome = Mapping[TopicPartition, ErrorCode]


@handles(AddPartitionsToTxnRequest, authz=BY_HANDLER)
async def add_partitions_to_txn(request: AddPartitionsToTxnRequest, ctx: RequestContext) -> AddPartitionsToTxnResponse:
    """Make partitions part of transactions, or say whether they are."""
    if ctx.version < FIRST_VERSION_OF_BROKERS:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        outcome = await _of_client(transaction, ctx)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(outcome))
    if not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    outcomes = await asyncio.gather(*(_known(transaction, ctx) for transaction in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=_results(outcome))
            for transaction, outcome in zip(request.transactions, outcomes, strict=True)
        ]
    )


async def _of_client(transaction: AddPartitionsToTxnTransaction, ctx: RequestContext) -> Outcome:
    partitions = _partitions(transaction.topics)
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = {topic.name for topic in transaction.topics if topic.name not in INTERNAL_TOPICS}
    allowed = ctx.authorize_many(AclOperation.WRITE, ResourceType.TOPIC, sorted(topics))
    refused = {tp: ErrorCode.TOPIC_AUTHORIZATION_FAILED for tp in partitions if tp.topic not in allowed}
    return await _known(transaction, ctx, refused)


async def _known(
    transaction: AddPartitionsToTxnTransaction, ctx: RequestContext, refused: Outcome | None = None
) -> Outcome:
    """Add what exists; one partition that cannot be added keeps all others out."""
    partitions = _partitions(transaction.topics)
    errors = dict(refused or {})
    topics = ctx.node.image().topics.by_name
    for tp in partitions:
        found = topics.get(tp.topic)
        if tp not in errors and (found is None or tp.partition not in found.partitions):
            errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if errors:
        return {tp: errors.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in partitions}
    return await _coordinated(transaction, partitions, ctx)


async def _coordinated(
    transaction: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition], ctx: RequestContext
) -> Outcome:
    coordinator = ctx.node.transactions
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            return await coordinator.verify_partitions(transaction.transactional_id, producer, partitions)
        code = await coordinator.add_partitions(transaction.transactional_id, producer, partitions, ctx.version)
    except ApiError as e:
        code = e.code
    return dict.fromkeys(partitions, code)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions)


def _results(outcome: Outcome) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for tp, code in sorted(outcome.items()):
        result = AddPartitionsToTxnPartitionResult(partition_index=tp.partition, partition_error_code=code)
        by_topic.setdefault(tp.topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results) for topic, results in by_topic.items()
    ]
