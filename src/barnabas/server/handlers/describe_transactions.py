"""DescribeTransactions v0. KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DescribeTransactionsRequest, authz=BY_HANDLER)
def describe_transactions(request: DescribeTransactionsRequest, ctx: RequestContext) -> DescribeTransactionsResponse:
    """Describe transactional ids that are looked after here, with the partitions that the principal may see."""
    ctx.authz.decided = not request.transactional_ids
    states = [_described(transactional_id, ctx) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _described(transactional_id: str, ctx: RequestContext) -> TransactionState:
    if not ctx.authorize(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    state = ctx.node.transactions.describe(transactional_id)
    seen = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, [topic.topic for topic in state.topics])
    state.topics = [topic for topic in state.topics if topic.topic in seen]
    return state
