"""The transaction coordinator on its runtime: markers go out once an outcome is committed, and over hand-overs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.config import TransactionConfig
from barnabas.model.metrics import Metrics
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.clock import SystemClock
from barnabas.server.coordinators.coordinator_log import MemoryLog
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.transactions.marker_sender import MarkerSender
from barnabas.server.transactions.metrics import publish_transaction_metrics
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.core.transactions.test_marking import answer, asked_of
from tests.peers.eventually import eventually

E = ErrorCode
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
WAIT_S = 60.0
MARKERS = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager"


class CountingLog(MemoryLog):
    """Counts what it refuses."""

    refused = 0

    def append(self, *args: Any, **kwargs: Any) -> int:
        try:
            return super().append(*args, **kwargs)
        except ApiError:
            self.refused += 1
            raise


@dataclass
class World:
    """One partition of the transaction log, in memory; it outlives coordinators. writes: whether brokers write."""

    log: CountingLog = field(default_factory=lambda: CountingLog())
    writes: asyncio.Event = field(default_factory=asyncio.Event)
    markers: list[set[tuple[int, TopicPartition]]] = field(default_factory=list)
    next_id: int = 0

    def __post_init__(self) -> None:
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            TransactionConfig(),
            clock=SystemClock(),
            producer_ids=ProducerIds(self._allocate, AllocateProducerIdsRequest),
            transaction_version=lambda: 2,
            partition_count=lambda: 1,
            open_log=lambda tp: self.log,
            new_sender=lambda finished: MarkerSender(self._write, lambda tp: 1, finished, retry_backoff_ms=1),
        )

    async def _allocate(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        self.next_id += 10
        return AllocateProducerIdsResponse(producer_id_start=self.next_id, producer_id_len=10)

    async def _write(self, broker: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.markers.append(asked_of(request))
        await self.writes.wait()
        return answer(request)

    async def hand_over(self) -> None:
        """Let another coordinator take over in the next epoch."""
        await self.coordinator.close()
        self.log.leader_epoch += 1
        self.coordinator = self.new_coordinator()
        await self.coordinator.elected(0)

    async def began(self, *partitions: TopicPartition) -> Producer:
        """Give the producer of a transaction with these partitions."""
        made = await self.coordinator.init_producer_id(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4
        )
        producer = Producer(made.producer_id, made.producer_epoch)
        assert await self.coordinator.add_partitions("t", producer, frozenset(partitions), 3, E) is E.NONE
        return producer

    async def end(self, producer: Producer, *, commit: bool = True) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id="t",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        return await self.coordinator.end(request, 4)

    async def settled(self) -> str:
        """Give how the transaction ended, once its markers are written."""

        async def prepares() -> bool:
            return self.coordinator.describe("t").transaction_state.startswith("Prepare")

        await eventually(prepares, False, WAIT_S)
        return self.coordinator.describe("t").transaction_state

    async def refused(self, times: int) -> None:
        """Wait until the log has refused so many batches."""

        async def seen() -> bool:
            return self.log.refused >= times

        await eventually(seen, True, WAIT_S)

    async def marked(self, times: int) -> None:
        """Wait until brokers were asked to write markers so often."""

        async def asked() -> bool:
            return len(self.markers) >= times

        await eventually(asked, True, WAIT_S)


@pytest.fixture
async def world() -> World:
    made = World()
    await made.coordinator.elected(0)
    return made


@pytest.mark.parametrize(("commit", "state"), [(True, "CompleteCommit"), (False, "CompleteAbort")])
async def test_the_partitions_are_told_once_and_the_log_has_the_end(world: World, commit: bool, state: str) -> None:
    producer = await world.began(A0, A1)
    assert (await world.end(producer, commit=commit)).error_code == E.NONE
    world.writes.set()
    assert await world.settled() == state
    assert world.markers == [{(producer.producer_id, A0), (producer.producer_id, A1)}]
    await world.hand_over()
    assert world.coordinator.describe("t").transaction_state == state
    assert len(world.markers) == 1


async def test_an_outcome_is_told_to_nobody_before_it_is_committed(world: World) -> None:
    producer = await world.began(A0)
    world.log.auto_commit = False
    ended = asyncio.create_task(world.end(producer))
    before = world.log.log_end_offset

    async def is_appended() -> bool:
        return world.log.log_end_offset > before

    await eventually(is_appended, True, WAIT_S)
    assert (world.markers, ended.done()) == ([], False)
    world.log.auto_commit = True
    world.log.commit(world.log.log_end_offset)
    assert (await ended).error_code == E.NONE
    world.writes.set()
    assert await world.settled() == "CompleteCommit"


async def test_whoever_takes_over_tells_the_partitions_again(world: World) -> None:
    producer = await world.began(A0)
    await world.end(producer, commit=False)
    await world.marked(1)
    await world.hand_over()
    world.writes.set()
    assert await world.settled() == "CompleteAbort"
    assert world.markers == [{(producer.producer_id, A0)}] * 2


async def test_what_was_loaded_and_may_be_taken_back_is_told_to_nobody(world: World) -> None:
    producer = await world.began(A0)
    await world.end(producer)
    await world.coordinator.close()
    told = len(world.markers)
    world.log.high_watermark -= 1
    world.coordinator = world.new_coordinator()
    await world.coordinator.elected(0)
    await asyncio.sleep(0)
    assert len(world.markers) == told
    world.writes.set()
    world.log.commit(world.log.log_end_offset)
    assert await world.settled() == "CompleteCommit"


async def test_the_next_transaction_waits_for_the_markers_of_the_last(world: World) -> None:
    producer = await world.began(A0)
    await world.end(producer)
    assert await world.coordinator.add_partitions("t", producer, frozenset({A1}), 3, E) is E.CONCURRENT_TRANSACTIONS
    world.writes.set()
    await world.settled()
    assert await world.coordinator.add_partitions("t", producer, frozenset({A1}), 3, E) is E.NONE


async def test_the_end_is_noted_though_the_log_fails_at_first(world: World) -> None:
    producer = await world.began(A0)
    await world.end(producer)
    world.log.failure = E.NOT_ENOUGH_REPLICAS
    world.writes.set()
    await world.refused(2)
    world.log.failure = None
    assert await world.settled() == "CompleteCommit"
    assert len(world.markers) == 1


async def test_what_waits_to_be_noted_and_how_long_loading_took_are_measured(world: World) -> None:
    registry = Metrics(SystemClock())
    publish_transaction_metrics(registry, world.coordinator)

    def waiting(name: str) -> object:
        return dict(registry.values(f"*name={name}"))[f"{MARKERS},name={name}"]["Value"]

    async def noting_again() -> object:
        return waiting("LogAppendRetryQueueSize")

    loads = dict(registry.values())["kafka.server:type=transaction-coordinator-metrics"]
    assert loads["partition-load-time-max"] >= loads["partition-load-time-avg"] >= 0  # type: ignore[operator]
    await world.end(await world.began(A0))
    assert await noting_again() == 0
    world.log.failure = E.NOT_ENOUGH_REPLICAS
    world.writes.set()
    await eventually(noting_again, 1, WAIT_S)
    world.log.failure = None
    await world.settled()
    assert (await noting_again(), waiting("UnknownDestinationQueueSize")) == (0, 0)


async def test_who_is_not_here_is_not_looked_after(world: World) -> None:
    await world.began(A0)
    assert [s.transactional_id for s in world.coordinator.listed(ListTransactionsRequest()).transaction_states] == ["t"]
    world.coordinator.resigned(0)
    assert world.coordinator.describe("t").error_code == E.NOT_COORDINATOR
    with pytest.raises(ApiError) as refused:
        await world.end(Producer(1, 0))
    assert refused.value.code is E.NOT_COORDINATOR


async def test_what_nobody_may_ask_for_is_refused_by_a_node_that_looks_after_nothing() -> None:
    """As in Kafka: a client that is sent to another node for it would be sent around for ever."""
    coordinator = World().coordinator
    nobody = Producer(1, 0)
    for name, timeout_ms, code in (
        ("", 60_000, E.INVALID_REQUEST),
        ("t", 0, E.INVALID_TRANSACTION_TIMEOUT),
        ("t", 60_000, E.NOT_COORDINATOR),
    ):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
        with pytest.raises(ApiError, match=code.name):
            await coordinator.init_producer_id(request, 4)
    for name, code in (("", E.INVALID_REQUEST), ("t", E.NOT_COORDINATOR)):
        with pytest.raises(ApiError, match=code.name):
            await coordinator.end(EndTxnRequest(transactional_id=name), 4)
        with pytest.raises(ApiError, match=code.name):
            await coordinator.add_partitions(name, nobody, frozenset(), 3, E)
        with pytest.raises(ApiError, match=code.name):
            await coordinator.verify_partitions(name, nobody, frozenset())
        assert coordinator.describe(name).error_code == code
    await coordinator.close()
