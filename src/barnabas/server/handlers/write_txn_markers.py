"""WriteTxnMarkers v1-2 (v2 names the transaction's version): how a coordinator ends a transaction. KIP-98, KIP-890."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.server.transactions.marker_writing import write_markers
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(WriteTxnMarkersRequest, authz=BY_HANDLER)
def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Append the markers, and answer when each is committed or will not be."""
    may_alter = ctx.authorize(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, audit_denied=False)
    if not may_alter and not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return write_markers(request, ctx.node)
