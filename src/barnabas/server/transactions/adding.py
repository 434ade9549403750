"""Adding partitions to transactions that are coordinated here, or saying whether they are in them (KIP-98, KIP-890).

Clients and other brokers ask by a request; this node, for the partitions that it leads, without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.partitions import partitions_of, response, result, transactions
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.server.context import Services

Outcome = Mapping[TopicPartition, ErrorCode]


async def add_for_brokers(
    request: AddPartitionsToTxnRequest, version: int, node: Services
) -> AddPartitionsToTxnResponse:
    """Answer brokers, which may ask for many transactions at once, or to verify them: version 4 and later."""
    own = OwnCoordinator(node)

    async def outcome(asked: AddPartitionsToTxnTransaction) -> Outcome:
        ask = own.verify if asked.verify_only else partial(own.add, version=version)
        producer = Producer(asked.producer_id, asked.producer_epoch)
        return await ask(asked.transactional_id, producer, partitions_of(asked))

    asked = transactions(request, version)
    outcomes = await asyncio.gather(*(outcome(transaction) for transaction in asked))
    return response([result(*each) for each in zip(asked, outcomes, strict=True)], version)


def add_for_client(
    asked: AddPartitionsToTxnTransaction, version: int, node: Services, refused: Outcome
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Answer a client: version 3 and before. refused: what is wrong with some partitions already."""
    partitions = partitions_of(asked)

    def answer(outcome: Outcome) -> AddPartitionsToTxnResponse:
        return response([result(asked, outcome)], version)

    if wrong := _wrong(partitions, refused, node):
        return answer(wrong)
    producer = Producer(asked.producer_id, asked.producer_epoch)
    return node.transactions.add_partitions(
        asked.transactional_id, producer, partitions, version, lambda code: answer(dict.fromkeys(partitions, code))
    )


class OwnCoordinator:
    """`server.transactions.verifier.OwnCoordinator`: the one of this node."""

    def __init__(self, node: Services) -> None:
        self.node_id: int = node.config.node_id
        self._node = node

    async def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: int = AddPartitionsToTxnRequest.MAX_VERSION,
    ) -> Outcome:
        """Add partitions; one that cannot be added keeps all others out. version: of who asks."""
        if wrong := _wrong(partitions, {}, self._node):
            return wrong
        try:
            return await self._node.transactions.add_partitions(
                transactional_id, producer, partitions, version, lambda code: dict.fromkeys(partitions, code)
            )
        except ApiError as e:
            return dict.fromkeys(partitions, e.code)

    async def verify(self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]) -> Outcome:
        """Say which partitions are in the open transaction."""
        if wrong := _wrong(partitions, {}, self._node):
            return wrong
        try:
            return await self._node.transactions.verify_partitions(transactional_id, producer, partitions)
        except ApiError as e:
            return dict.fromkeys(partitions, e.code)

    def verified_at_once(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Outcome | None:
        """The same; None when the answer has to wait until the transaction log has what it depends on."""
        if wrong := _wrong(partitions, {}, self._node):
            return wrong
        try:
            answer = self._node.transactions.verify_partitions(transactional_id, producer, partitions)
            if answer.done():
                return answer.result()
        except ApiError as e:
            return dict.fromkeys(partitions, e.code)
        answer.cancel()
        return None


def _wrong(partitions: frozenset[TopicPartition], refused: Outcome, node: Services) -> Outcome | None:
    """Give what to answer when not all partitions exist or may be added, None when they do and may."""
    errors = dict(refused)
    topics = node.image().topics.by_name
    for tp in partitions:
        found = topics.get(tp.topic)
        if tp not in errors and (found is None or tp.partition not in found.partitions):
            errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not errors:
        return None
    return {tp: errors.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in partitions}
