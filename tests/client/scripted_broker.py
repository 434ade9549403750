"""One broker as a script: it serves what a transactional producer asks on a real socket, and fails as it is told to."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import decode_request_header, encode_response_header
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.record_batch import BatchHeader, check_crc, decode_columns, iter_headers

E = ErrorCode
SERVED = (
    ApiVersionsRequest,
    MetadataRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    ProduceRequest,
    EndTxnRequest,
)


@dataclass
class ScriptedBroker:
    """Takes one transactional producer for granted. scripts: by request, what to answer with the next times: a code, or
    None to close the connection after the work is done. hold: awaited before each Produce is answered."""

    version: int = 2
    partitions: int = 2
    scripts: dict[type[Any], deque[ErrorCode | None]] = field(default_factory=lambda: defaultdict(deque))
    epoch: int = -1
    added: set[TopicPartition] = field(default_factory=set)
    open: dict[TopicPartition, list[bytes | None]] = field(default_factory=lambda: defaultdict(list))
    log: dict[TopicPartition, list[bytes | None]] = field(default_factory=lambda: defaultdict(list))
    headers: list[tuple[TopicPartition, BatchHeader]] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    producing: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    _ended: int | None = None
    _sequences: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self.hold.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def count(self, name: str) -> int:
        """Give how often a request came."""
        return sum(one == name for one, _ in self.asked)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, offset, row = decode_request_header(frame)
                assert row is not None
                request = decode(row.request, header.request_api_version, frame, offset)
                self.asked.append((row.name, header.request_api_version))
                if isinstance(request, ProduceRequest):
                    self.producing.set()
                    await self.hold.wait()
                script = self.scripts[type(request)]
                told = script.popleft() if script else E.NONE
                answer = self._answer(request, header.request_api_version, told or E.NONE)
                if told is None:
                    break
                head = encode_response_header(row.key, header.request_api_version, header.correlation_id)
                body = encode(answer, header.request_api_version)
                writer.write((len(head) + len(body)).to_bytes(4, "big") + head + body)
                await writer.drain()
        writer.close()

    def _answer(self, request: Any, version: int, refusal: ErrorCode) -> Any:
        answers: dict[type[Any], Callable[[Any, int, ErrorCode], Any]] = {
            ApiVersionsRequest: self._api_versions,
            MetadataRequest: self._metadata,
            FindCoordinatorRequest: self._find_coordinator,
            InitProducerIdRequest: self._init_producer_id,
            AddPartitionsToTxnRequest: self._add_partitions,
            ProduceRequest: self._produce,
            EndTxnRequest: self._end,
        }
        return answers[type(request)](request, version, refusal)

    def _api_versions(self, request: Any, version: int, refusal: ErrorCode) -> ApiVersionsResponse:
        rows = [API_KEYS[kind.API_KEY] for kind in SERVED]
        level = self.version
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=r.key, min_version=r.min_version, max_version=r.max_version) for r in rows],
            finalized_features_epoch=9,
            finalized_features=[
                FinalizedFeatureKey(name="transaction.version", min_version_level=level, max_version_level=level)
            ],
        )

    def _metadata(self, request: MetadataRequest, version: int, refusal: ErrorCode) -> MetadataResponse:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    name=topic.name,
                    partitions=[
                        MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1])
                        for n in range(self.partitions)
                    ],
                )
                for topic in request.topics or ()
            ],
        )

    def _find_coordinator(
        self, request: FindCoordinatorRequest, version: int, refusal: ErrorCode
    ) -> FindCoordinatorResponse:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=k, node_id=1, host="127.0.0.1", port=self.port) for k in keys]
        )

    def _init_producer_id(
        self, request: InitProducerIdRequest, version: int, refusal: ErrorCode
    ) -> InitProducerIdResponse:
        if refusal != E.NONE:
            return InitProducerIdResponse(error_code=refusal)
        self._finish(commit=False)
        self.epoch += 1
        self._ended = None
        return InitProducerIdResponse(producer_id=77, producer_epoch=self.epoch)

    def _add_partitions(
        self, request: AddPartitionsToTxnRequest, version: int, refusal: ErrorCode
    ) -> AddPartitionsToTxnResponse:
        asked = [TopicPartition(t.name, p) for t in request.v3_and_below_topics for p in t.partitions]
        if refusal == E.NONE:
            self.added.update(asked)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=p.topic,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=p.partition, partition_error_code=refusal)
                    ],
                )
                for p in asked
            ]
        )

    def _produce(self, request: ProduceRequest, version: int, refusal: ErrorCode) -> ProduceResponse:
        assert request.transactional_id == "orders"
        assert (version >= 12) == (self.version >= 2)
        responses = []
        for topic in request.topic_data:
            results = []
            for data in topic.partition_data:
                partition = TopicPartition(topic.name, data.index)
                records = data.records
                assert isinstance(records, bytes | bytearray | memoryview)
                code = refusal or self._append(partition, memoryview(records))
                results.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=len(self.log)))
            responses.append(TopicProduceResponse(name=topic.name, partition_responses=results))
        return ProduceResponse(responses=responses)

    def _append(self, partition: TopicPartition, records: memoryview) -> ErrorCode:
        ((pos, header),) = iter_headers(records)
        assert check_crc(records, pos, header)
        assert header.is_transactional
        assert self.version >= 2 or partition in self.added
        if (header.producer_id, header.producer_epoch) != (77, self.epoch):
            return E.INVALID_PRODUCER_EPOCH
        epoch, expected = self._sequences.get(partition, (-1, 0))
        if epoch != self.epoch:
            expected = 0
        if header.last_sequence == expected - 1:
            return E.DUPLICATE_SEQUENCE_NUMBER
        if header.base_sequence != expected:
            return E.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._sequences[partition] = (self.epoch, header.last_sequence + 1)
        self.headers.append((partition, header))
        self.open[partition] += decode_columns(records).values
        return E.NONE

    def _end(self, request: EndTxnRequest, version: int, refusal: ErrorCode) -> EndTxnResponse:
        again = version >= 5 and request.producer_epoch == self._ended
        if refusal == E.NONE and request.producer_epoch != self.epoch and not again:
            refusal = E.PRODUCER_FENCED
        if refusal != E.NONE:
            return EndTxnResponse(error_code=refusal)
        if not again:
            self._finish(commit=request.committed)
            if version >= 5:
                self._ended, self.epoch = self.epoch, self.epoch + 1
        given = (77, self.epoch) if version >= 5 else (-1, -1)
        return EndTxnResponse(producer_id=given[0], producer_epoch=given[1])

    def _finish(self, *, commit: bool) -> None:
        if commit:
            for partition, values in self.open.items():
                self.log[partition] += values
        self.open.clear()
        self.added.clear()
