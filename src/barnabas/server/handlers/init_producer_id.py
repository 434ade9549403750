"""InitProducerId v0-6 (v3 to go on with an id, v4 PRODUCER_FENCED). KIP-98, KIP-360, KIP-588, KIP-679."""

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
    """Give a producer its id: a transactional id's own, else a fresh one, for whoever may write to any topic."""
    if request.transactional_id is not None:
        return await _transactional(request, request.transactional_id, ctx)
    if not ctx.authorize_any(AclOperation.WRITE, ResourceType.TOPIC) and not ctx.authorize(
        AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    _check_identity(request)
    return InitProducerIdResponse(producer_id=await ctx.node.producer_ids.next(), producer_epoch=0)


async def _transactional(
    request: InitProducerIdRequest, transactional_id: str, ctx: RequestContext
) -> InitProducerIdResponse:
    rights = [AclOperation.WRITE, *([AclOperation.TWO_PHASE_COMMIT] if request.enable2_pc else [])]
    for operation in rights:
        if not ctx.authorize(operation, ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    _check_identity(request)
    try:
        return await ctx.node.transactions.init_producer_id(request, ctx.version)
    except ApiError as e:
        return InitProducerIdResponse(error_code=e.code, producer_id=-1, producer_epoch=-1)


def _check_identity(request: InitProducerIdRequest) -> None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer that goes on names both its id and its epoch")
