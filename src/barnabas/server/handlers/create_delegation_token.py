"""CreateDelegationToken v1-3: a token that its owner can log in with. KIP-48, KIP-373."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.token_changes import create_token, owner_of, refused_creation
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.principal import USER_TYPE
from barnabas.server.delegation_tokens import at_controller, may_ask_for_tokens
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


_TELLS_WHO_ASKED: Final = 3
"""The first version whose answer names the requester beside the owner."""


@handles(CreateDelegationTokenRequest, authz=BY_HANDLER)
async def create_delegation_token(
    req: CreateDelegationTokenRequest, ctx: RequestContext
) -> CreateDelegationTokenResponse:
    """Make a token: for oneself always, for somebody else with CREATE_TOKENS on that user."""
    ctx.authz.decided = True  # nobody needs a permission to be trusted as himself
    response = await _created(req, ctx)
    if ctx.version < _TELLS_WHO_ASKED:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


async def _created(req: CreateDelegationTokenRequest, ctx: RequestContext) -> CreateDelegationTokenResponse:
    requester, owner = ctx.principal, owner_of(req, ctx.principal)
    if not may_ask_for_tokens(ctx):
        return refused_creation(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, requester)
    if str(owner) != str(requester) and not ctx.authorize(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return refused_creation(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner, requester)
    if any(renewer.principal_type != USER_TYPE for renewer in req.renewers):
        return refused_creation(ErrorCode.INVALID_PRINCIPAL_TYPE, owner, requester)
    if not at_controller(ctx):
        forwarded: CreateDelegationTokenResponse = await ctx.node.channel.call(req, ctx.version, on_behalf=ctx)
        return forwarded
    rules, now_ms = ctx.node.changes.token_rules, ctx.node.clock.now_ms()
    return await ctx.node.entities.write(lambda image: create_token(rules, image.levels, req, requester, now_ms))
