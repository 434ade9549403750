"""AddOffsetsToTxn v0-4. KIP-98, KIP-588."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.coordinators.step import Producer
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AddOffsetsToTxnRequest, authz=BY_HANDLER)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, ctx: RequestContext) -> AddOffsetsToTxnResponse:
    """Make a group's offsets part of a transaction."""
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    offsets = TopicPartition(OFFSETS_TOPIC, ctx.node.groups.partition_for(request.group_id))
    try:
        producer = Producer(request.producer_id, request.producer_epoch)
        code = await ctx.node.transactions.add_offsets(request.transactional_id, producer, offsets, ctx.version)
    except ApiError as e:
        code = e.code
    return AddOffsetsToTxnResponse(error_code=code)
