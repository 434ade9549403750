"""The producer: records in, batches out, each exactly once per partition and in order (KIP-98, idempotent).

A partition has at most one batch under way, so that its order survives every retry; partitions of a node share
requests. Batches grow while earlier ones are under way, which is what makes them large under load.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self

from barnabas.client.accumulator import (
    Batch,
    Delivery,
    DeliveryError,
    Queue,
    both,
    pass_on,
    size_of,
)
from barnabas.client.cluster import Cluster, backoffs, topic_error
from barnabas.client.config import ClientConfig
from barnabas.client.encoded_batch import EncodedBatch
from barnabas.client.partitioner import partition_for_key
from barnabas.client.producer_id import ProducerId
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, Compression, Record

Header = tuple[str, bytes | None]
NAMED_TOPICS_VERSION: Final = 12
_LOST_PRODUCER: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Producer:
    """Writes records. Use as an async context manager: leaving it flushes.

    on_failure: told of each batch that could not be delivered, for callers that do not await deliveries.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        cluster: Cluster | None = None,
        on_failure: Callable[[TopicPartition, Sequence[Record], Exception], None] | None = None,
    ) -> None:
        self.cluster = cluster or Cluster(config)
        self._owns_cluster = cluster is None
        self._config = config
        self._on_failure = on_failure
        self._acks = {"all": -1, "-1": -1, "1": 1, "0": 0}[config["acks"]]
        self._idempotent: bool = config["enable.idempotence"] and self._acks == -1
        self._compression = Compression[config["compression.type"].upper()]
        self._batch_bytes = max(config.integer("batch.size"), 1)
        self._linger_s = config.integer("linger.ms") / 1000
        self._room_bytes = config.integer("buffer.memory")
        self._most_bytes = config.integer("max.request.size")
        self._delivery_s = config.integer("delivery.timeout.ms") / 1000
        self._in_flight_limit = config.integer("max.in.flight.requests.per.connection")
        self._queues: dict[TopicPartition, Queue] = {}
        self._sticky: dict[str, TopicPartition] = {}
        self._identity: ProducerId | None = None
        self._transactional_id: str | None = None
        self._waiting_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._work = asyncio.Event()
        self._flushing = 0
        self._in_flight: dict[int, int] = {}
        self._sender: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._joins: set[asyncio.Future[tuple[int, int]]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close(flush=exc[0] is None)

    async def close(self, *, flush: bool = True) -> None:
        """End the producer, by default once everything is delivered or has failed."""
        try:
            if flush:
                await self.flush()
        finally:
            tasks = [t for t in (self._sender, *self._requests, *self._joins) if t is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for queue in self._queues.values():
                for batch in queue.batches:
                    self._fail(batch, DeliveryError("the producer was closed"))
                queue.batches.clear()
            if self._owns_cluster:
                await self.cluster.close()

    # Taking records.

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Delivery:
        """Take one record; waits only for room or for the topic's metadata. timestamp: ms, now when None."""
        record = Record(0, int(time.time() * 1000) if timestamp is None else timestamp, key, value, headers)
        size = size_of(record)
        if size > self._most_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of {size} bytes is more than max.request.size={self._most_bytes} allows",
            )
        if self._waiting_bytes + size > self._room_bytes:
            await self._wait_for_room(size)
        where = await self._partition_of(topic, key, partition, size)
        return self._append(where, record, size)

    async def send_many(self, partition: TopicPartition, records: Iterable[Record]) -> list[Delivery]:
        """Take records for one partition in their order; give a delivery for each batch they end in.

        Quicker than `send` for each; offsets in the records are ignored.
        """
        await self._known(partition.topic, partition.partition)
        deliveries: list[Delivery] = []
        batch: Batch | None = None
        for record in records:
            size = size_of(record)
            if self._waiting_bytes + size > self._room_bytes:
                await self._wait_for_room(size)
            delivery = self._append(partition, record, size)
            if delivery.batch is not batch:
                batch = delivery.batch
                deliveries.append(delivery)
        return deliveries

    async def send_encoded(self, partition: TopicPartition, batch: bytes | memoryview) -> Delivery:
        """Take one whole batch that is encoded already, as `batch_of_body` gives it; the delivery tells of its first
        record.

        Nothing is done for each record. ProtocolError when it is not one batch; one that is too large for the topic
        fails with MESSAGE_TOO_LARGE, for only its maker can cut it.
        """
        whole = EncodedBatch.of(batch)
        await self._known(partition.topic, partition.partition)
        if self._waiting_bytes + len(batch) > self._room_bytes:
            await self._wait_for_room(len(batch))
        made = self._open_batch(partition)
        made.whole = whole
        made.size = len(batch)
        self._waiting_bytes += made.size - BATCH_HEADER_SIZE
        queue = self._queues.setdefault(partition, Queue())
        queue.batches.append(made)
        self._wake()
        return Delivery(made, 0)

    async def flush(self) -> None:
        """Wait until everything taken so far is delivered or has failed; failures are in the deliveries."""
        self._flushing += 1
        self._work.set()
        try:
            pending = [batch.done for queue in self._queues.values() for batch in queue.batches]
            if pending:
                await asyncio.wait(pending)
        finally:
            self._flushing -= 1

    def _append(self, where: TopicPartition, record: Record, size: int) -> Delivery:
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = Queue()
        batch = queue.batches[-1] if queue.batches else None
        if batch is None or batch.closed or batch.size + size > self._batch_bytes:
            batch = self._open_batch(where)
            queue.batches.append(batch)
            self._wake()
        elif batch.size + size >= self._batch_bytes:
            self._work.set()
        batch.records.append(record)
        batch.size += size
        self._waiting_bytes += size
        return Delivery(batch, len(batch.records) - 1)

    def _open_batch(self, where: TopicPartition) -> Batch:
        return Batch(where, asyncio.get_running_loop().time())

    async def _partition_of(self, topic: str, key: bytes | None, partition: int | None, size: int) -> TopicPartition:
        if partition is not None:
            await self._known(topic, partition)
            return TopicPartition(topic, partition)
        if key is None:
            stuck = self._sticky.get(topic)
            if stuck is not None and self._fits(stuck, size):
                return stuck
        info = await self._known(topic, 0)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, len(info.partitions)))
        usable = [p.partition for p in info.partitions.values() if p.leader >= 0] or list(info.partitions)
        chosen = self._sticky[topic] = TopicPartition(topic, random.choice(usable))
        return chosen

    def _fits(self, partition: TopicPartition, size: int) -> bool:
        queue = self._queues.get(partition)
        if queue is None or not queue.batches:
            return False  # its batch is gone: the next one may go elsewhere
        batch = queue.batches[-1]
        return not batch.closed and batch.size + size <= self._batch_bytes

    async def _known(self, topic: str, partition: int) -> Any:
        deadline = asyncio.get_running_loop().time() + self._config.integer("max.block.ms") / 1000
        for wait_s in backoffs(self._config):
            try:
                info = await self.cluster.topic(topic, create=True)
                if partition in info.partitions:
                    return info
                error = topic_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
                self.cluster.forget_topic(topic)
            except ApiError as e:
                if not e.code.retriable:
                    raise
                error = e
            except (DisconnectedError, RequestTimeoutError):
                if not self.cluster.reached or asyncio.get_running_loop().time() > deadline:
                    raise
                error = topic_error(ErrorCode.NETWORK_EXCEPTION, topic)
            if asyncio.get_running_loop().time() + wait_s > deadline:
                raise error
            await asyncio.sleep(wait_s)
        raise AssertionError("back-offs never end")

    async def _wait_for_room(self, size: int) -> None:
        try:
            async with asyncio.timeout(self._config.integer("max.block.ms") / 1000):
                while self._waiting_bytes and self._waiting_bytes + size > self._room_bytes:
                    self._room.clear()
                    self._flushing += 1  # who waits for room cannot wait for linger as well
                    self._work.set()
                    try:
                        await self._room.wait()
                    finally:
                        self._flushing -= 1
        except TimeoutError:
            raise DeliveryError(
                f"no room for {size} bytes within max.block.ms: buffer.memory={self._room_bytes} is full"
            ) from None

    # Sending.

    def _wake(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._run(), name="producer sender")
        self._work.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._work.clear()
            wait_s = await self._drain(loop.time())
            try:
                async with asyncio.timeout(wait_s):
                    await self._work.wait()
            except TimeoutError:
                continue

    async def _drain(self, now: float) -> float | None:
        """Start a request to each node that has something ready; give when the next batch will be, in seconds."""
        ready: dict[int, list[Batch]] = {}
        wait_s: float | None = None
        for partition, queue in list(self._queues.items()):
            if queue.busy or not queue.batches:
                continue
            batch = queue.batches[0]
            due = batch.born + self._linger_s - now
            full = len(queue.batches) > 1 or batch.size >= self._batch_bytes or batch.whole is not None
            if due > 0 and not full and not self._flushing and not batch.tried:
                wait_s = due if wait_s is None else min(wait_s, due)
                continue
            if not self._admits(batch):
                continue
            leader = await self._leader(partition, batch)
            if leader is not None and self._in_flight.get(leader, 0) < self._in_flight_limit:
                ready.setdefault(leader, []).append(batch)
        for node, batches in ready.items():
            self._start(node, batches)
        return wait_s

    def _admits(self, batch: Batch) -> bool:
        """Say whether a batch may go out now; who says no wakes the sender when it may."""
        return True

    async def _leader(self, partition: TopicPartition, batch: Batch) -> int | None:
        try:
            return await self.cluster.leader(partition)
        except (ApiError, DisconnectedError, RequestTimeoutError) as e:
            self._again_or_fail(batch, e)
            return None
        except Exception as e:  # noqa: BLE001 - whatever it is, it belongs to the batch: the sender must live on
            self._finish_failed(batch, e)
            return None

    def _start(self, node: int, batches: list[Batch]) -> None:
        size = 0
        chosen: list[Batch] = []
        for batch in batches:
            if batch.done.done():
                continue  # given up while the others were being looked at
            if chosen and size + batch.size > self._most_bytes:
                self._work.set()
                break
            size += batch.size
            chosen.append(batch)
            self._queues[batch.partition].busy = True
        if not chosen:
            return
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        task = asyncio.create_task(self._request(node, chosen), name=f"produce to {node}")
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _request(self, node: int, batches: list[Batch]) -> None:
        try:
            answers = await self._produce(node, batches)
        except (ApiError, DisconnectedError, RequestTimeoutError) as e:
            for batch in batches:
                self._again_or_fail(batch, e)
        except Exception as e:  # noqa: BLE001 - whatever it is, it belongs to these batches
            for batch in batches:
                self._finish_failed(batch, e)
        else:
            for batch in batches:
                self._settle(batch, answers.get(batch.partition))
        finally:
            self._in_flight[node] -= 1
            self._work.set()

    async def _produce(self, node: int, batches: list[Batch]) -> dict[TopicPartition, PartitionProduceResponse]:
        if self._idempotent and self._identity is None:
            await self._identify()
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            records = self._encoded(batch)
            by_topic.setdefault(batch.partition.topic, []).append(
                PartitionProduceData(index=batch.partition.partition, records=records)
            )
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._config.integer("request.timeout.ms"),
            topic_data=[TopicProduceData(name=t, partition_data=data) for t, data in by_topic.items()],
        )
        channel = await self.cluster.channel(node)
        version = channel.versions(request, max_version=self._newest_version())
        for batch in batches:
            batch.tried = True
        if self._acks == 0:
            await channel.send_unanswered(request, version=version)
            return {b.partition: PartitionProduceResponse(base_offset=-1) for b in batches}
        response: ProduceResponse = await channel.call(request, version=version)
        return {TopicPartition(t.name, p.index): p for t in response.responses for p in t.partition_responses}

    def _newest_version(self) -> int:
        return NAMED_TOPICS_VERSION

    async def _identify(self) -> None:
        async def once() -> InitProducerIdResponse:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
            response: InitProducerIdResponse = await self.cluster.call_any(request)
            if response.error_code != ErrorCode.NONE:
                raise ApiError(ErrorCode(response.error_code))
            return response

        answer = await self.cluster.retry(once)
        self._identity = ProducerId(answer.producer_id, answer.producer_epoch)

    def _encoded(self, batch: Batch) -> bytes:
        if batch.encoded is None:
            queue = self._queues[batch.partition]
            if self._idempotent and batch.identity is None:
                if queue.identity != self._identity:
                    queue.identity, queue.next_sequence = self._identity, 0
                batch.identity, batch.sequence = self._identity, queue.next_sequence
                queue.next_sequence = (queue.next_sequence + batch.count) & 0x7FFFFFFF
            batch.encoded = batch.encode(self._compression, transactional=self._transactional_id is not None)
        return batch.encoded

    # What became of it.

    def _settle(self, batch: Batch, answer: PartitionProduceResponse | None) -> None:
        if answer is None:
            self._finish_failed(batch, DeliveryError("the node's answer leaves the partition out"))
            return
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._take_off(batch)
            batch.done.set_result((answer.base_offset, answer.log_append_time_ms))
        elif code in _TOO_LARGE and len(batch.records) > 1:
            self._split(batch)
        elif code in _LOST_PRODUCER and self._idempotent:
            self._lost(batch, ApiError(code))
        else:
            self._again_or_fail(batch, self._explained(code, batch.partition, answer.error_message))

    def _lost(self, batch: Batch, error: ApiError) -> None:
        """The broker has forgotten us, or we it: begin again under a new id."""
        if batch.identity == self._identity:
            self._identity = None
        batch.encoded = batch.identity = None
        self._again_or_fail(batch, error, again=True)

    def _explained(self, code: ErrorCode, partition: TopicPartition, message: str | None) -> ApiError:
        if message:
            return ApiError(code, f"partition {partition}: {message}")
        return topic_error(code, partition.topic)

    def _again_or_fail(self, batch: Batch, error: Exception, *, again: bool = False) -> None:
        """Try the batch again after a pause while there is time for it, else give it up."""
        loop = asyncio.get_running_loop()
        again = again or (error.code.retriable if isinstance(error, ApiError) else self.cluster.reached)
        if not again or loop.time() - batch.born > self._delivery_s or self._config.integer("retries") == 0:
            self._finish_failed(batch, error)
            return
        self.cluster.forget_topic(batch.partition.topic)
        self._queues[batch.partition].busy = True
        batch.tried = True
        loop.call_later(self._config.integer("retry.backoff.ms") / 1000, self._release, batch.partition)

    def _release(self, partition: TopicPartition) -> None:
        self._queues[partition].busy = False
        self._work.set()

    def _finish_failed(self, batch: Batch, error: Exception) -> None:
        self._take_off(batch)
        self._gave_up(batch, error)
        self._fail(batch, error)

    def _gave_up(self, batch: Batch, error: Exception) -> None:
        if batch.tried and batch.identity is not None and batch.identity == self._identity:
            self._identity = None  # its sequence numbers may be used up or not: nobody knows

    def _fail(self, batch: Batch, error: Exception) -> None:
        if not batch.done.done():
            batch.done.set_exception(error)
            if self._on_failure is not None:
                self._on_failure(batch.partition, batch.records, error)

    def _take_off(self, batch: Batch) -> None:
        queue = self._queues[batch.partition]
        queue.busy = False
        if queue.batches and queue.batches[0] is batch:
            queue.batches.popleft()
        self._waiting_bytes -= batch.size - BATCH_HEADER_SIZE
        self._room.set()
        self._work.set()

    def _split(self, batch: Batch) -> None:
        """Cut a batch that the node finds too large in two; the second half follows the first."""
        queue = self._queues[batch.partition]
        middle = len(batch.records) // 2
        halves: list[Batch] = []
        for records in (batch.records[:middle], batch.records[middle:]):
            half = Batch(batch.partition, batch.born)
            half.records = list(records)
            half.size += sum(map(size_of, records))
            half.tried = True
            half.identity = batch.identity
            half.sequence = batch.sequence if not halves else (batch.sequence + middle) & 0x7FFFFFFF
            halves.append(half)
        queue.batches.popleft()
        queue.batches.extendleft(reversed(halves))
        queue.busy = False
        first, second = halves
        joined = both(first.done, second.done)
        task = asyncio.ensure_future(joined)
        task.add_done_callback(lambda t: pass_on(t, batch.done))
        self._joins.add(task)
        task.add_done_callback(self._joins.discard)
        self._work.set()
