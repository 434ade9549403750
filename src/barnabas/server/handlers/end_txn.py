"""EndTxn v0-5 (v5 answers with the producer's next epoch). KIP-98, KIP-588, KIP-890."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(EndTxnRequest, authz=BY_HANDLER)
def end_txn(request: EndTxnRequest, ctx: RequestContext) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Commit or abort a transaction."""
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return ctx.node.transactions.end(request, ctx.version)
