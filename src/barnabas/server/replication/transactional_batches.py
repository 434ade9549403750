"""What of a produce request is part of a transaction, by the headers of its batches. KIP-98."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from barnabas.core.coordinators.step import Producer
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.replication.transaction_verification import Client, FirstBatches
from barnabas.wire.batch_header import BATCH_HEADER_SIZE, CURRENT_MAGIC, TRANSACTIONAL
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.produce import ProduceRequest, TopicProduceData
from barnabas.wire.primitives import Records

MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 22
_PRODUCER_AT: Final = 43
_PRODUCER: Final = Struct(">qhi")
"""Id, epoch and first sequence."""


class NamedTopic(NamedTuple):
    """A topic of the request, by its name; refused: why nothing is written to it."""

    topic: TopicProduceData
    name: str
    refused: ApiError | None


def is_transactional(records: Records | None) -> bool:
    """Say whether this is a batch of a transaction."""
    return (
        isinstance(records, memoryview)
        and len(records) >= BATCH_HEADER_SIZE
        and records[MAGIC_AT] == CURRENT_MAGIC
        and bool(records[ATTRIBUTES_AT] & TRANSACTIONAL)
    )


def has_transactional(request: ProduceRequest) -> bool:
    """Say whether any batch of the request is."""
    return any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data)


def first_batches(transactional_id: str, topics: list[NamedTopic], version: int) -> FirstBatches | None:
    """Give what is sent in a producer's transaction, None when that is nothing; ApiError when two producers send it."""
    producers, sequences = set(), {}
    for topic, name, refused in topics:
        for data in topic.partition_data if refused is None else ():
            if isinstance(data.records, memoryview) and is_transactional(data.records):
                producer_id, epoch, sequence = _PRODUCER.unpack_from(data.records, _PRODUCER_AT)
                if producer_id >= 0:
                    producers.add(Producer(producer_id, epoch))
                    sequences[TopicPartition(name, data.index)] = sequence
    if len(producers) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a transaction has one producer; the request has more")
    if not producers:
        return None
    return FirstBatches(transactional_id, producers.pop(), sequences, Client.of_produce(version))


def keep(request: ProduceRequest) -> None:
    """Copy the records away from where the connection's next request is received."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytearray(data.records))
