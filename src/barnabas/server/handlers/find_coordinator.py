"""FindCoordinator v0-6 (v1 kinds of coordinators, v4 many keys, v6 share groups). KIP-98, KIP-699, KIP-932.

Which broker leads the partition that a key belongs to. The first question creates the topic, `__consumer_offsets` or
`__transaction_state`, and until that is there the answer is COORDINATOR_NOT_AVAILABLE: ask again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.server.router import BY_HANDLER, handles
from barnabas.server.transactions.transaction_coordinator import TRANSACTION_TOPIC
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_WITH_MANY_KEYS: Final = 4
FIRST_VERSION_WITH_SHARE_GROUPS: Final = 6


class KeyType(IntEnum):
    """What kind of coordinator is looked for."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class _Found:
    code: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1
    message: str | None = None


@handles(FindCoordinatorRequest, authz=BY_HANDLER)
async def find_coordinator(request: FindCoordinatorRequest, ctx: RequestContext) -> FindCoordinatorResponse:
    """Name the broker that coordinates each key."""
    if request.key_type not in KeyType.__members__.values():
        ctx.authz.decided = True
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {request.key_type}")
    kind = KeyType(request.key_type)
    if ctx.version < FIRST_VERSION_WITH_MANY_KEYS:
        found = await _find(kind, request.key, ctx)
        return FindCoordinatorResponse(
            error_code=found.code,
            error_message=found.message or found.code.message or None,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    ctx.authz.decided = not request.coordinator_keys
    coordinators = []
    for key in request.coordinator_keys:
        found = await _find(kind, key, ctx)
        coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.code,
                error_message=found.message or found.code.message or "",
            )
        )
    return FindCoordinatorResponse(coordinators=coordinators)


async def _find(kind: KeyType, key: str, ctx: RequestContext) -> _Found:
    if kind is KeyType.GROUP:
        if not ctx.authorize(AclOperation.DESCRIBE, ResourceType.GROUP, key):
            return _Found(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return await _leader(OFFSETS_TOPIC, ctx.node.groups.partition_for(key), ctx)
    if kind is KeyType.TRANSACTION:
        if not ctx.authorize(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return _Found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return await _leader(TRANSACTION_TOPIC, ctx.node.transactions.partition_for(key), ctx)
    if ctx.version < FIRST_VERSION_WITH_SHARE_GROUPS:
        ctx.authz.decided = True
        return _Found(ErrorCode.INVALID_REQUEST)
    if not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _Found(ErrorCode.UNSUPPORTED_VERSION, message="share groups are not offered by this release")


async def _leader(topic: str, partition: int, ctx: RequestContext) -> _Found:
    if not await _has_topic(topic, ctx):
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    registration = ctx.node.image().topics.by_name[topic].partitions.get(partition)
    if registration is not None:
        for broker in ctx.node.live_brokers(ctx.listener_name):
            if broker.node_id == registration.leader:
                return _Found(ErrorCode.NONE, broker.node_id, broker.host, broker.port)
    return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def _has_topic(name: str, ctx: RequestContext) -> bool:
    """Say whether one of the cluster's own topics was there; it is asked for when it was not."""
    if name in ctx.node.image().topics.by_name:
        return True
    await ctx.node.ensure_internal_topic(name)
    return False
