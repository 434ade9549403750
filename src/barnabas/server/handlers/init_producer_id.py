"""InitProducerId v0-6, for idempotent producers. KIP-98, KIP-360, KIP-679."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(InitProducerIdRequest, authz=BY_HANDLER)
async def init_producer_id(request: InitProducerIdRequest, ctx: RequestContext) -> InitProducerIdResponse:
    """Give a fresh producer id with epoch 0; whoever may write to any topic may have one."""
    if request.transactional_id is not None:
        if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        # A code that no client retries: the producer fails at once instead of waiting for a coordinator.
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not ctx.authorize_any(AclOperation.WRITE, ResourceType.TOPIC) and not ctx.authorize(
        AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return InitProducerIdResponse(producer_id=await ctx.node.producer_ids.next(), producer_epoch=0)
