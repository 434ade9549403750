"""Produce v3-13 (v9 flexible, v10 leader hints, v11 TRANSACTION_ABORTABLE, v12 adds partitions to transactions, v13
topic ids). KIP-98, KIP-516, KIP-890, KIP-951.

Record data is checked by its batch headers and copied once, into the page cache. With acks=all the answer waits until
the replicas in sync have the records; where there is only one replica, that is at once. Before the first batch of a
transaction its coordinator is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import ZERO_UUID
from barnabas.server.replication.partition import ALL_REPLICAS
from barnabas.server.replication.partitions import INTERNAL_TOPICS
from barnabas.server.replication.purgatory import AckedRequest
from barnabas.server.replication.transaction_verification import Begun, FirstBatches
from barnabas.server.replication.transactional_batches import (
    ATTRIBUTES_AT,
    MAGIC_AT,
    NamedTopic,
    first_batches,
    has_transactional,
    keep,
)
from barnabas.server.router import BY_HANDLER, NO_ANSWER, NoAnswer, handles
from barnabas.storage.log_validator import RecordsRefusedError
from barnabas.wire.batch_header import BATCH_HEADER_SIZE, CURRENT_MAGIC, LOG_OVERHEAD, TRANSACTIONAL
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.wire.primitives import Records

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.server.replication.partition import Partition
    from barnabas.storage.log import LogAppendInfo

ADMIN_CLIENT_ID = "__admin_client"
"""The one client id that may write to internal topics, as in Kafka."""
UNKNOWN: Final = -1
LEADERS_FROM: Final = 10
"""The first version whose answers name the leader to a client that asked somebody else (KIP-951)."""
ZSTD_FROM: Final = 7
"""The first version in which a batch may be compressed with zstd (KIP-110)."""
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""Failures after which Kafka does not say where the log begins."""


_Answer = ProduceResponse | NoAnswer | Awaitable["ProduceResponse | NoAnswer"]


class _Written(NamedTuple):
    """A write that is not committed yet, and its answer."""

    partition: Partition
    info: LogAppendInfo
    answer: PartitionProduceResponse


@handles(ProduceRequest, authz=BY_HANDLER)
def produce(request: ProduceRequest, ctx: RequestContext) -> _Answer:
    """Append each partition's batches; what fails, fails alone."""
    refused = _refused_as_a_whole(request, ctx)
    # As in Kafka, a topic without partitions is not answered.
    named = [_named(topic, ctx, refused) for topic in request.topic_data if topic.partition_data]
    if request.transactional_id is None or refused is not None:
        return _write(request, named, ctx)
    try:
        batches = first_batches(request.transactional_id, named, ctx.version)
    except ApiError as e:
        return _write(request, [one._replace(refused=e) for one in named], ctx)
    if batches is None:
        return _write(request, named, ctx, Begun())
    begun = ctx.node.replicas.verification.begin(batches)
    answered = ctx.node.replicas.verification.ask_at_once(batches, begun) if begun.guards else begun
    if answered is not None:
        return _write(request, named, ctx, answered)
    keep(request)  # now: a coroutine begins only after the next request may have come in
    return _write_once_asked(request, named, ctx, batches, begun)


async def _write_once_asked(
    request: ProduceRequest, named: list[NamedTopic], ctx: RequestContext, batches: FirstBatches, begun: Begun
) -> ProduceResponse | NoAnswer:
    begun = await ctx.node.replicas.verification.ask_patiently(batches, begun)
    answer = _write(request, named, ctx, begun)
    return await answer if isinstance(answer, Awaitable) else answer


def _write(
    request: ProduceRequest, named: list[NamedTopic], ctx: RequestContext, begun: Begun | None = None
) -> _Answer:
    """Append; begun: of the transaction that the request names, None when it names none."""
    uncommitted: list[_Written] = []
    answers = [
        TopicProduceResponse(
            name=one.topic.name,
            topic_id=one.topic.topic_id,
            partition_responses=_topic(request, one, ctx, uncommitted, begun),
        )
        for one in named
    ]
    ctx.node.quotas.produced(ctx, sum(len(p.records or b"") for t in request.topic_data for p in t.partition_data))
    if request.acks == 0:
        wrong = next((p for t in answers for p in t.partition_responses if p.error_code), None)
        if wrong is not None:
            raise ProtocolError(f"acks=0, and a write failed: {ErrorCode(wrong.error_code).name}")
        return NO_ANSWER
    if uncommitted:
        return _acknowledged(answers, uncommitted, request.timeout_ms, ctx)
    return _response(answers, ctx)


async def _acknowledged(
    answers: list[TopicProduceResponse], written: list[_Written], timeout_ms: int, ctx: RequestContext
) -> ProduceResponse:
    """Answer when all is committed, or will not be, or the client's time is over."""
    waiting = AckedRequest(ctx.node.replicas.writes, timeout_ms)
    for one in written:
        waiting.expect(one.answer)
    for one in written:
        one.partition.acknowledge(one.info, waiting, one.answer)
    try:
        await waiting.done
    finally:
        waiting.abandon()
    for one in written:
        if one.answer.error_code:
            _without_offset(one.answer, one.partition, ctx)
    return _response(answers, ctx)


def _without_offset(answer: PartitionProduceResponse, partition: Partition, ctx: RequestContext) -> None:
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = UNKNOWN
    _name_leader(answer, partition.tp.topic, ctx)


def _response(answers: list[TopicProduceResponse], ctx: RequestContext) -> ProduceResponse:
    response = ProduceResponse(responses=answers)
    if ctx.version >= LEADERS_FROM:
        leaders = {p.current_leader.leader_id for t in answers for p in t.partition_responses if p.error_code} - {-1}
        if leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
                for b in ctx.node.live_brokers(ctx.listener_name)
                if b.node_id in leaders
            ]
    return response


def _refused_as_a_whole(request: ProduceRequest, ctx: RequestContext) -> ApiError | None:
    ctx.authz.decided = not any(t.partition_data for t in request.topic_data)
    transactional_id = request.transactional_id
    if (
        transactional_id is not None
        and has_transactional(request)
        and not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.acks not in (-1, 0, 1):
        ctx.authz.decided = True
        return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}; want 0, 1 or -1 (all)")
    return None


def _named(topic: TopicProduceData, ctx: RequestContext, refused: ApiError | None) -> NamedTopic:
    name = topic.name
    if refused is None and ctx.version >= 13:
        known = ctx.node.image().topics.by_id.get(topic.topic_id)
        if known is None or topic.topic_id == ZERO_UUID:
            ctx.authz.decided = True
            refused = ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            name = known.name
    if refused is None:
        refused = _refused_topic(name, ctx)
    return NamedTopic(topic, name, refused)


def _topic(
    request: ProduceRequest, one: NamedTopic, ctx: RequestContext, uncommitted: list[_Written], begun: Begun | None
) -> list[PartitionProduceResponse]:
    topic, name, refused = one
    if refused is not None:
        return [_failure(p.index, refused, ctx) for p in topic.partition_data]
    return [_append(name, p, request.acks, ctx, uncommitted, begun) for p in topic.partition_data]


def _refused_topic(name: str, ctx: RequestContext) -> ApiError | None:
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TOPIC, name):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT_ID:
        return ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the cluster's own, and clients cannot write to it"
        )
    return None


def _append(
    topic: str,
    data: PartitionProduceData,
    acks: int,
    ctx: RequestContext,
    uncommitted: list[_Written],
    begun: Begun | None,
) -> PartitionProduceResponse:
    node = ctx.node
    partition = stats = None
    try:
        leader = node.partitions.leader(topic, data.index)
        stats = node.metrics.topics.of(topic)
        stats.produce_requests.count += 1
        records = _one_batch(data.records, ctx, begun)
        guard = None if begun is None else begun.guard_of(leader.tp)
        partition = leader
        info = partition.append(records, acks, guard)
    except ApiError as e:
        if stats is not None:
            node.metrics.topics.write_refused(topic, e, len(data.records or b""))
        failure = _failure(data.index, e, ctx, topic)
        if partition is not None and ctx.version >= 5 and e.code not in _WITHOUT_LOG_START:
            failure.log_start_offset = partition.log.log_start_offset
        return failure
    stats.bytes_in.count += len(records)
    stats.messages_in.count += info.record_count
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    if acks == ALL_REPLICAS and not partition.is_committed(info):
        uncommitted.append(_Written(partition, info, answer))
    return answer


def _size_at(records: memoryview, at: int) -> int:
    return LOG_OVERHEAD + int.from_bytes(records[at + 8 : at + LOG_OVERHEAD], "big", signed=True)


def _one_batch(records: Records | None, ctx: RequestContext, begun: Begun | None) -> memoryview:
    """Give the records of a partition when they are one whole batch of the format in use; ApiError when not."""
    if not isinstance(records, memoryview) or len(records) < BATCH_HEADER_SIZE:
        raise ApiError(ErrorCode.INVALID_RECORD, "a produce request must hold one batch for each partition")
    if records[MAGIC_AT] != CURRENT_MAGIC:
        ctx.node.metrics.topics.wrong_magic()
        code = ErrorCode.INVALID_RECORD if records[MAGIC_AT] < CURRENT_MAGIC else ErrorCode.CORRUPT_MESSAGE
        raise ApiError(code, f"a batch has the format {records[MAGIC_AT]}; only 2 is accepted")
    size = _size_at(records, 0)
    if size > len(records):
        raise ApiError(ErrorCode.INVALID_RECORD, f"a batch of {size} bytes came as {len(records)}")
    if BATCH_HEADER_SIZE <= size <= len(records) - BATCH_HEADER_SIZE and size + _size_at(records, size) <= len(records):
        raise ApiError(ErrorCode.INVALID_RECORD, "a produce request holds one batch for each partition, not more")
    attributes = records[ATTRIBUTES_AT]
    if attributes & TRANSACTIONAL and begun is None:
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a batch belongs to a transaction, the request to none"
        )
    if ctx.version < ZSTD_FROM and attributes & 7 == Compression.ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {ZSTD_FROM} of the request")
    return records


def _failure(index: int, error: ApiError, ctx: RequestContext, topic: str | None = None) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=index, error_code=error.code, base_offset=-1)
    if ctx.version >= 8:
        answer.error_message = error.message
        if isinstance(error, RecordsRefusedError):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=why)
                for i, why in error.record_errors
            ]
    if topic is not None:
        _name_leader(answer, topic, ctx)
    return answer


def _name_leader(answer: PartitionProduceResponse, topic: str, ctx: RequestContext) -> None:
    if ctx.version >= LEADERS_FROM and answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader, epoch = ctx.node.leader_and_epoch(topic, answer.index)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
