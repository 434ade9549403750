"""Writing the markers that end transactions, to partitions that this node leads (KIP-98, KIP-890).

Each partition gets its marker and answers for itself, once the replicas in sync have it. Partitions of
`__consumer_offsets` get theirs by way of the group coordinator, whose offsets count, or vanish, by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.coordinators.step import Producer
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.coordinators.runtime import Marker
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.server.replication.purgatory import AckedRequest
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import Services
    from barnabas.server.replication.partition import Partition
    from barnabas.storage.log import LogAppendInfo

_NOT_READY: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
"""What a transaction coordinator does not expect to hear: it asks whoever leads the partition again."""


class _Written(NamedTuple):
    """A marker that is not committed yet, and its answer."""

    replica: Partition
    info: LogAppendInfo
    answer: WritableTxnMarkerPartitionResult


class _Appended(NamedTuple):
    """The markers of a request: offsets, those that the group coordinator sees to."""

    written: list[_Written]
    offsets: list[tuple[Awaitable[None], WritableTxnMarkerPartitionResult]]


def write_markers(
    request: WriteTxnMarkersRequest, node: Services
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Append the markers, now, and answer when each is committed or will not be: at once where all of them are."""
    results: dict[int, dict[str, WritableTxnMarkerTopicResult]] = {}
    appended = _Appended([], [])
    for asked in request.markers:
        named = [topic for topic in asked.topics if topic.partition_indexes]
        if not named:
            continue  # as in Kafka, what is for nobody is not answered
        marker = Marker(
            Producer(asked.producer_id, asked.producer_epoch),
            asked.transaction_result,
            asked.coordinator_epoch,
            asked.transaction_version,
        )
        topics = results.setdefault(asked.producer_id, {})
        for topic in named:
            result = topics.setdefault(topic.name, WritableTxnMarkerTopicResult(name=topic.name))
            for number in topic.partition_indexes:
                answer = WritableTxnMarkerPartitionResult(partition_index=number)
                result.partitions.append(answer)
                _append(TopicPartition(topic.name, number), marker, answer, node, appended)
    response = WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values()))
            for producer_id, topics in results.items()
        ]
    )
    return _once_committed(appended, response, node) if appended.written or appended.offsets else response


def _append(
    tp: TopicPartition,
    marker: Marker,
    answer: WritableTxnMarkerPartitionResult,
    node: Services,
    appended: _Appended,
) -> None:
    try:
        if min(marker.producer) < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST)  # where Kafka fails with UNKNOWN_SERVER_ERROR
        replica = node.partitions.find(tp)
        if replica is None or replica.log.is_offline:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if tp.topic == OFFSETS_TOPIC:
            appended.offsets.append((node.groups.end_transaction(tp.partition, marker), answer))
            return
        info = replica.append_coordinator(
            marker.batch(node.clock.now_ms()), transaction_version=marker.transaction_version
        )
        if not replica.is_committed(info):
            appended.written.append(_Written(replica, info, answer))
    except ApiError as e:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if e.code in _NOT_READY else e.code


async def _once_committed(
    appended: _Appended, response: WriteTxnMarkersResponse, node: Services
) -> WriteTxnMarkersResponse:
    """Wait until what became of each marker stands in the response."""
    if appended.written:
        waiting = AckedRequest(node.replicas.writes, node.config["request.timeout.ms"])
        for one in appended.written:
            waiting.expect(one.answer)
        for one in appended.written:
            one.replica.acknowledge(one.info, waiting, one.answer)
        try:
            await waiting.done
        finally:
            waiting.abandon()
    ended = await asyncio.gather(*(future for future, _ in appended.offsets), return_exceptions=True)
    for outcome, (_, answer) in zip(ended, appended.offsets, strict=True):
        if isinstance(outcome, ApiError):
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if outcome.code in _NOT_READY else outcome.code
        elif outcome is not None:
            raise outcome
    return response
