"""ListTransactions v0-2 (v1 by duration, v2 by pattern of the transactional id). KIP-664, KIP-994, KIP-1152."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ListTransactionsRequest, authz=BY_HANDLER)
def list_transactions(request: ListTransactionsRequest, ctx: RequestContext) -> ListTransactionsResponse:
    """List transactional ids that are looked after here and that the principal may see."""
    ctx.authz.decided = True
    response = ctx.node.transactions.listed(request)
    seen = ctx.authorize_many(
        AclOperation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        [state.transactional_id for state in response.transaction_states],
    )
    response.transaction_states = [s for s in response.transaction_states if s.transactional_id in seen]
    return response
