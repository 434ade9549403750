"""ExpireDelegationToken v1-2: less time for a token, or none. KIP-48."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.core.metadata.token_changes import NO_TIME, expire_token
from barnabas.server.delegation_tokens import at_controller, may_ask_for_tokens
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ExpireDelegationTokenRequest, authz=BY_HANDLER)
async def expire_delegation_token(req: ExpireDelegationTokenRequest, ctx: RequestContext) -> Any:
    """Let a token end, at once or soon; only its owner and its renewers can."""
    ctx.authz.decided = True  # the token says who may
    if not may_ask_for_tokens(ctx):
        return ExpireDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
        )
    if not at_controller(ctx):
        return await ctx.node.channel.call(req, ctx.version, on_behalf=ctx)
    rules, who, now_ms = ctx.node.changes.token_rules, ctx.principal, ctx.node.clock.now_ms()
    return await ctx.node.entities.write(
        lambda image: expire_token(image.tokens, rules, image.levels, req, who, now_ms)
    )
