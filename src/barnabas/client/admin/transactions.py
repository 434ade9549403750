"""Admin: transactions, and the producers that partitions know (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.client.admin.outcome import ClusterAdmin, check, refusal
from barnabas.client.cluster import CoordinatorKind
from barnabas.client.producer_id import ProducerId
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_STEADY_INIT: Final = 5
"""The newest InitProducerId that is not of two-phase commits."""
_FENCED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id that a coordinator knows. state: as on the wire, such as Ongoing."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it.

    start_ms: when its transaction began, in ms since the epoch; None while it has none. partitions: those that have
    records of the transaction and no marker yet.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer as a replica of a partition knows it.

    last_timestamp: of its latest record, ms. coordinator_epoch: of its latest marker; None when it has had none.
    transaction_start: the first offset of its open transaction; None when none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start: int | None


class TransactionsAdmin(ClusterAdmin):
    """Operations on transactions."""

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Give the transactional ids of all coordinators, by name.

        states, producer_ids: only these; empty: all. longer_than_ms: only those whose transaction runs that long; -1:
        all (KIP-994). pattern: a regular expression that the id must match (KIP-1152). ProtocolError when a broker is
        too old for a filter.
        """
        await self.cluster.retry(lambda: self.cluster.refresh(()))
        found: list[TransactionListing] = []
        ids = sorted(producer_ids)
        for node in sorted(self.cluster.nodes):
            request = ListTransactionsRequest(
                state_filters=list(states),
                producer_id_filters=ids,
                duration_filter=max(longer_than_ms, -1),
                transactional_id_pattern=pattern,
            )
            found += await self._list_transactions_at(node, request)
        return sorted(found, key=lambda listing: listing.transactional_id)

    async def _list_transactions_at(self, node: int, request: ListTransactionsRequest) -> list[TransactionListing]:
        async def once() -> list[TransactionListing]:
            response: ListTransactionsResponse = await (await self.cluster.channel(node)).call(request)
            check(response.error_code)
            return [
                TransactionListing(t.transactional_id, t.producer_id, t.transaction_state, node)
                for t in response.transaction_states
            ]

        return await self.cluster.retry(once)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | ApiError]:
        """Describe each transactional id; TRANSACTIONAL_ID_NOT_FOUND for one that its coordinator does not know."""
        found: dict[str, TransactionDescription | ApiError] = {}
        for name in dict.fromkeys(transactional_ids):
            try:
                found[name] = await self._describe_transaction(name)
            except ApiError as e:
                found[name] = e
        return found

    async def _describe_transaction(self, name: str) -> TransactionDescription:
        async def once() -> TransactionDescription:
            node = await self.cluster.coordinator(CoordinatorKind.TRANSACTION, name)
            response: DescribeTransactionsResponse = await (await self.cluster.channel(node)).call(
                DescribeTransactionsRequest(transactional_ids=[name])
            )
            (state,) = response.transaction_states
            self._check_transactions_coordinator(name, state.error_code)
            return TransactionDescription(
                name,
                node,
                state.producer_id,
                state.producer_epoch,
                state.transaction_state,
                state.transaction_timeout_ms,
                state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
                tuple(sorted(TopicPartition(t.topic, p) for t in state.topics for p in t.partitions)),
            )

        return await self.cluster.retry(once)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer] | ApiError]:
        """Give the producers that each partition's leader knows, or those that the replica on `broker` knows."""
        wanted = list(partitions)
        found: dict[TopicPartition, list[ActiveProducer] | ApiError] = {}

        async def once() -> None:
            left = [p for p in wanted if p not in found]
            by_node = {broker: left} if broker is not None else await self.cluster.by_leader(left)
            moved: ApiError | None = None
            for node, group in by_node.items():
                for partition, producers in (await self._producers_at(node, group)).items():
                    if isinstance(producers, ApiError) and producers.code.retriable:
                        moved = producers
                    else:
                        found[partition] = producers
            if moved is not None:
                raise moved

        await self.cluster.retry(once)
        return found

    async def _producers_at(
        self, node: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | ApiError]:
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=t, partition_indexes=ps) for t, ps in _by_topic(partitions).items()]
        )
        response: DescribeProducersResponse = await (await self.cluster.channel(node)).call(request)
        return {
            TopicPartition(topic.name, p.partition_index): refusal(p.error_code, p.error_message)
            or [
                ActiveProducer(
                    a.producer_id,
                    a.producer_epoch,
                    a.last_sequence,
                    a.last_timestamp,
                    a.coordinator_epoch if a.coordinator_epoch >= 0 else None,
                    a.current_txn_start_offset if a.current_txn_start_offset >= 0 else None,
                )
                for a in p.active_producers
            ]
            for topic in response.topics
            for p in topic.partitions
        }

    async def abort_transaction(
        self, partition: TopicPartition, producer: ProducerId, *, coordinator_epoch: int = 0
    ) -> None:
        """End a transaction that hangs in one partition, which its coordinator knows nothing of; ApiError when refused.

        Only the partition is asked: a transaction that its coordinator does know would be torn.
        """
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
                    coordinator_epoch=max(coordinator_epoch, 0),
                )
            ]
        )

        async def once() -> None:
            response: WriteTxnMarkersResponse = await (
                await self.cluster.channel(await self.cluster.leader(partition))
            ).call(request)
            for marker in response.markers:
                for topic in marker.topics:
                    for result in topic.partitions:
                        check(result.error_code)

        await self.cluster.retry(once)

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, ProducerId | ApiError]:
        """Shut every producer with these transactional ids out, and abort what they left open; give what the next epoch
        of each begins after.

        Several ids at once, for coordinators take their time where something is open. DisconnectedError,
        RequestTimeoutError when one cannot be reached.
        """
        room = asyncio.Semaphore(_FENCED_AT_ONCE)

        async def fence(name: str) -> ProducerId | ApiError:
            async with room:
                try:
                    return await self._fence_producer(name)
                except ApiError as e:
                    return e

        names = list(dict.fromkeys(transactional_ids))
        return dict(zip(names, await asyncio.gather(*map(fence, names)), strict=True))

    async def _fence_producer(self, name: str) -> ProducerId:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=self.timeout_ms)

        async def once() -> ProducerId:
            response: InitProducerIdResponse = await self._ask_transactions_coordinator(
                name, request, max_version=_STEADY_INIT
            )
            self._check_transactions_coordinator(name, response.error_code)
            return ProducerId(response.producer_id, response.producer_epoch)

        return await self.cluster.retry(once)

    async def _ask_transactions_coordinator(self, name: str, request: Any, **how: Any) -> Any:
        node = await self.cluster.coordinator(CoordinatorKind.TRANSACTION, name)
        return await (await self.cluster.channel(node)).call(request, **how)

    def _check_transactions_coordinator(self, name: str, code: int) -> None:
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self.cluster.forget_coordinator(CoordinatorKind.TRANSACTION, name)
        check(code)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition.partition)
    return grouped
