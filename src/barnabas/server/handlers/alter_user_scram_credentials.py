"""AlterUserScramCredentials v0: SCRAM users. KIP-554."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.scram_changes import alter_credentials
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AlterUserScramCredentialsRequest, authz=on_cluster(AclOperation.ALTER))
async def alter_user_scram_credentials(
    req: AlterUserScramCredentialsRequest, ctx: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials."""
    response = await ctx.node.entities.write(lambda image: alter_credentials(image.scram, req, image.levels))
    response.throttle_time_ms = ctx.throttle_ms
    return response
