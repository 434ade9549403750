"""AddPartitionsToTxn v0-5: from clients (v0-3), from brokers that verify or add for them (v4-5). KIP-98, KIP-890."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.transactions.partitions import BROKERS_SINCE, partitions_of, response, result, transactions
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.replication.partitions import INTERNAL_TOPICS
from barnabas.server.router import BY_HANDLER, handles
from barnabas.server.transactions.adding import Outcome, add, add_for_brokers
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AddPartitionsToTxnRequest, authz=BY_HANDLER)
async def add_partitions_to_txn(request: AddPartitionsToTxnRequest, ctx: RequestContext) -> AddPartitionsToTxnResponse:
    """Make partitions part of transactions, or say whether they are."""
    if ctx.version >= BROKERS_SINCE:
        if not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return await add_for_brokers(request, ctx.version, ctx.node)
    (transaction,) = transactions(request, ctx.version)
    outcome = await _of_client(transaction, ctx)
    return response([result(transaction, outcome)], ctx.version)


async def _of_client(transaction: AddPartitionsToTxnTransaction, ctx: RequestContext) -> Outcome:
    partitions = partitions_of(transaction)
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = {topic.name for topic in transaction.topics if topic.name not in INTERNAL_TOPICS}
    allowed = ctx.authorize_many(AclOperation.WRITE, ResourceType.TOPIC, sorted(topics))
    refused = {tp: ErrorCode.TOPIC_AUTHORIZATION_FAILED for tp in partitions if tp.topic not in allowed}
    return await add(transaction, ctx.version, ctx.node, refused)
