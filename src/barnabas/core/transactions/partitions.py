"""What belongs to a transaction: AddPartitionsToTxn v0-5 and its verification, AddOffsetsToTxn. KIP-98, KIP-890.

KIP-447 changed nothing here: the group's offsets are one more partition, of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.metadata import EPOCH_BUMP_VERSION, TransactionMetadata
from barnabas.core.transactions.states import ONGOING, SETTLED
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BROKERS_SINCE: Final = 4
"""From this version on, AddPartitionsToTxn comes from brokers, many transactions in one."""


def client_version(version: int) -> int:
    """Give the transaction.version by whose rules a client acts for whom this version of AddPartitionsToTxn is sent."""
    return EPOCH_BUMP_VERSION if version >= BROKERS_SINCE else 0


def added(
    metadata: TransactionMetadata | None,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    by: int,
    now_ms: int,
) -> TransactionMetadata | None:
    """Give the transactional id with the partitions in its transaction, None when they are in it already.

    by: the client's transaction.version. Raises CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
    """
    if metadata is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.is_ending:
        # First of all: the client may know the next producer id already, which is not in force yet.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    _check(metadata, producer)
    if metadata.state is ONGOING and partitions <= metadata.partitions:
        return None
    return metadata.moved(
        ONGOING,
        now_ms,
        partitions=metadata.partitions | partitions,
        started_ms=now_ms if metadata.state in SETTLED else metadata.started_ms,
        client_version=by,
    )


def verified(
    metadata: TransactionMetadata | None, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Say of each partition whether it is in the transaction (NONE) or not (TRANSACTION_ABORTABLE).

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if metadata is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    _check(metadata, producer)
    if metadata.is_ending:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return {p: ErrorCode.NONE if p in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE for p in partitions}


def _check(metadata: TransactionMetadata, producer: Producer) -> None:
    if metadata.producer_id != producer.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != producer.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def transactions(request: AddPartitionsToTxnRequest, version: int) -> Sequence[AddPartitionsToTxnTransaction]:
    """Give the request's transactions; before version 4 it has one, that of the client itself."""
    if version >= BROKERS_SINCE:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def partitions_of(transaction: AddPartitionsToTxnTransaction) -> frozenset[TopicPartition]:
    """Give the partitions that a transaction of a request names."""
    return frozenset(TopicPartition(t.name, partition) for t in transaction.topics for partition in t.partitions)


def result(
    transaction: AddPartitionsToTxnTransaction, outcome: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    """Give the part of the response about one transaction: topics and partitions as they were asked for.

    As in Kafka, a topic without partitions is part of it unless it was to be verified.
    """
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=outcome[TopicPartition(topic.name, partition)]
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in transaction.topics
            if topic.partitions or not transaction.verify_only
        ],
    )


def response(results: Sequence[AddPartitionsToTxnResult], version: int) -> AddPartitionsToTxnResponse:
    """Give the response in its version's shape."""
    if version >= BROKERS_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=list(results))
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[topic for each in results for topic in each.topic_results]
    )
