"""AddOffsetsToTxn v0-4. KIP-98, KIP-588."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

_FIRST_VERSION_THAT_KNOWS_FENCED = 2
_AS_BEFORE_KIP_890 = 0
"""As which version of AddPartitionsToTxn it counts: producers of the newer protocol never send this."""


@handles(AddOffsetsToTxnRequest, authz=BY_HANDLER)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, ctx: RequestContext) -> AddOffsetsToTxnResponse:
    """Make a group's offsets part of a transaction."""
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    offsets = TopicPartition(OFFSETS_TOPIC, ctx.node.groups.partition_for(request.group_id))
    try:
        code = await ctx.node.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({offsets}),
            _AS_BEFORE_KIP_890,
        )
    except ApiError as e:
        code = e.code
    if ctx.version < _FIRST_VERSION_THAT_KNOWS_FENCED and code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
