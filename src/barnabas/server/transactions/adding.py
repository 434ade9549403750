"""Adding partitions to transactions that are coordinated here, or saying whether they are in them (KIP-98, KIP-890).

Clients and other brokers ask by a request; this node, for the partitions that it leads, without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
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
    """Answer brokers, which may ask for many transactions at once: version 4 and later."""
    asked = transactions(request, version)
    outcomes = await asyncio.gather(*(add(transaction, version, node) for transaction in asked))
    return response([result(*each) for each in zip(asked, outcomes, strict=True)], version)


async def add(
    transaction: AddPartitionsToTxnTransaction, version: int, node: Services, refused: Outcome | None = None
) -> Outcome:
    """Add, or verify, what exists; one partition that cannot be added keeps all others out.

    refused: what is wrong with some already.
    """
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    ask = verified if transaction.verify_only else partial(added, version=version)
    return await ask(transaction.transactional_id, producer, partitions_of(transaction), node, refused=refused)


class OwnCoordinator:
    """`server.transactions.verifier.OwnCoordinator`: the one of this node."""

    def __init__(self, node: Services) -> None:
        self.node_id: int = node.config.node_id
        self._node = node

    async def add(self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]) -> Outcome:
        """Add partitions."""
        return await added(transactional_id, producer, partitions, self._node)

    async def verify(self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]) -> Outcome:
        """Say which partitions are in the open transaction."""
        return await verified(transactional_id, producer, partitions, self._node)

    def verified_at_once(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Outcome | None:
        """The same; None when the answer has to wait until the transaction log has what it depends on."""
        if wrong := _wrong(partitions, None, self._node):
            return wrong
        try:
            answer = self._node.transactions.verify_partitions(transactional_id, producer, partitions)
            if answer.done():
                return answer.result()
        except ApiError as e:
            return dict.fromkeys(partitions, e.code)
        answer.cancel()
        return None


async def added(
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    node: Services,
    *,
    version: int = AddPartitionsToTxnRequest.MAX_VERSION,
    refused: Outcome | None = None,
) -> Outcome:
    """Add partitions. version: of the request by which that is asked for."""
    if wrong := _wrong(partitions, refused, node):
        return wrong
    try:
        code = await node.transactions.add_partitions(transactional_id, producer, partitions, version)
    except ApiError as e:
        code = e.code
    return dict.fromkeys(partitions, code)


async def verified(
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    node: Services,
    *,
    refused: Outcome | None = None,
) -> Outcome:
    """Say which partitions are in the open transaction."""
    if wrong := _wrong(partitions, refused, node):
        return wrong
    try:
        return await node.transactions.verify_partitions(transactional_id, producer, partitions)
    except ApiError as e:
        return dict.fromkeys(partitions, e.code)


def _wrong(partitions: frozenset[TopicPartition], refused: Outcome | None, node: Services) -> Outcome | None:
    """Give what to answer when not all partitions exist or may be added, None when they do and may."""
    errors = dict(refused or {})
    topics = node.image().topics.by_name
    for tp in partitions:
        found = topics.get(tp.topic)
        if tp not in errors and (found is None or tp.partition not in found.partitions):
            errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not errors:
        return None
    return {tp: errors.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in partitions}
