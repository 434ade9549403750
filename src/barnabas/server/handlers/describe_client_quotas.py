"""DescribeClientQuotas v0-1. KIP-546."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.quota_filter import Component, QuotaFilter
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DescribeClientQuotasRequest, authz=on_cluster(AclOperation.DESCRIBE_CONFIGS))
def describe_client_quotas(request: DescribeClientQuotasRequest, ctx: RequestContext) -> DescribeClientQuotasResponse:
    """List the quotas that match."""
    wanted = QuotaFilter(
        (Component(c.entity_type, c.match_type, c.match) for c in request.components), strict=request.strict
    )
    entries = [
        EntryData(
            entity=[EntityData(entity_type=part.type, entity_name=part.name) for part in entity],
            values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
        )
        for entity, values in wanted.select(ctx.node.image().client_quotas)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)
