"""AddPartitionsToTxn v0-5: from clients (v0-3), from brokers that verify or add for them (v4-5). KIP-98, KIP-890."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.core.transactions.partitions import BROKERS_SINCE, partitions_of, transactions
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.replication.partitions import INTERNAL_TOPICS
from barnabas.server.router import BY_HANDLER, handles
from barnabas.server.transactions.adding import Outcome, add_for_brokers, add_for_client
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AddPartitionsToTxnRequest, authz=BY_HANDLER)
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ctx: RequestContext
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Make partitions part of transactions, or say whether they are."""
    if ctx.version >= BROKERS_SINCE:
        if not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return add_for_brokers(request, ctx.version, ctx.node)
    (transaction,) = transactions(request, ctx.version)
    return add_for_client(transaction, ctx.version, ctx.node, _refused(transaction, ctx))


def _refused(transaction: AddPartitionsToTxnTransaction, ctx: RequestContext) -> Outcome:
    partitions = partitions_of(transaction)
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = {topic.name for topic in transaction.topics if topic.name not in INTERNAL_TOPICS}
    allowed = ctx.authorize_many(AclOperation.WRITE, ResourceType.TOPIC, sorted(topics))
    return {tp: ErrorCode.TOPIC_AUTHORIZATION_FAILED for tp in partitions if tp.topic not in allowed}
