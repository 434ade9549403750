"""RenewDelegationToken v1-2: more time for a token. KIP-48."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.core.metadata.token_changes import NO_TIME, renew_token
from barnabas.server.delegation_tokens import at_controller, may_ask_for_tokens
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(RenewDelegationTokenRequest, authz=BY_HANDLER)
async def renew_delegation_token(req: RenewDelegationTokenRequest, ctx: RequestContext) -> Any:
    """Let a token last longer; only its owner and its renewers can."""
    ctx.authz.decided = True  # the token says who may
    if not may_ask_for_tokens(ctx):
        return RenewDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
        )
    if not at_controller(ctx):
        return await ctx.node.channel.call(req, ctx.version, on_behalf=ctx)
    rules, who, now_ms = ctx.node.changes.token_rules, ctx.principal, ctx.node.clock.now_ms()
    return await ctx.node.entities.write(lambda image: renew_token(image.tokens, rules, image.levels, req, who, now_ms))
