"""AlterClientQuotas v0-1: quotas of users, client ids and addresses. KIP-546, KIP-612."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.core.metadata.quota_changes import Alteration
from barnabas.core.metadata.quota_changes import alter_client_quotas as decide
from barnabas.core.metadata.quotas import IP
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntryData,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AlterClientQuotasRequest, authz=on_cluster(AclOperation.ALTER_CONFIGS))
async def alter_client_quotas(req: AlterClientQuotasRequest, ctx: RequestContext) -> AlterClientQuotasResponse:
    """Set and remove quotas."""
    alterations = [_alteration(entry) for entry in req.entries]
    names = {name for alteration in alterations for kind, name in alteration.entity if kind == IP and name}
    hosts = {name for name in names if await _resolves(name)}
    results = await ctx.node.entities.write(
        lambda image: decide(image.client_quotas, alterations, hosts.__contains__, validate_only=req.validate_only)
    )
    entries = [
        ResponseEntryData(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
            entity=entry.entity,
        )
        for entry, error in zip(req.entries, results, strict=True)
    ]
    return AlterClientQuotasResponse(entries=entries, throttle_time_ms=ctx.throttle_ms)


async def _resolves(name: str) -> bool:
    try:
        await asyncio.get_running_loop().getaddrinfo(name, None)
    except OSError:
        return False
    return True


def _alteration(entry: RequestEntryData) -> Alteration:
    return Alteration(
        entity=tuple((part.entity_type, part.entity_name) for part in entry.entity),
        ops=tuple((op.key, None if op.remove else op.value) for op in entry.ops),
    )
