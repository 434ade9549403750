"""Transactional ids <-> the records of `__transaction_state`, in the versions that Kafka 4.3 writes."""

from __future__ import annotations

from typing import Final

from barnabas.core.transactions.metadata import TransactionMetadata
from barnabas.core.transactions.states import EMPTY, TransactionState
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ProtocolError
from barnabas.wire.records.transaction_log_key import TransactionLogKey
from barnabas.wire.records.transaction_log_value import PartitionsSchema, TransactionLogValue

FLEXIBLE_SINCE: Final = 1
"""The transaction.version from which records have tagged fields (KIP-890)."""


def transaction(metadata: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """Describe a transactional id, as the finalised transaction.version has it written."""
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if metadata.state is EMPTY else _by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.started_ms,
    )
    key = TransactionLogKey(transactional_id=metadata.transactional_id)
    if transaction_version < FLEXIBLE_SINCE:
        return CoordinatorRecord(key, value, 0)
    value.previous_producer_id = metadata.previous_producer_id
    value.next_producer_id = metadata.next_producer_id
    value.client_transaction_version = metadata.client_version
    return CoordinatorRecord(key, value, 1)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """Say that the transactional id is gone."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def metadata_from(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Give what a record describes; raises ProtocolError for a state that no Kafka knows."""
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ProtocolError(
            f"transactional id {transactional_id} is in state {value.transaction_status}, which is none: the log of "
            "__transaction_state is damaged or of a newer Kafka"
        ) from None
    return TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        state,
        frozenset() if state is EMPTY else _partitions(value.transaction_partitions or ()),
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]


def _partitions(topics: list[PartitionsSchema] | tuple[()]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(t.topic, partition) for t in topics for partition in t.partition_ids)
