"""DescribeDelegationToken v1-3: the tokens that one may see, with what proves them. KIP-48, KIP-373."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.token_secrets import TokenSecrets
from barnabas.core.metadata.tokens import DelegationToken
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.delegation_tokens import may_ask_for_tokens
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


_TELLS_WHO_ASKED: Final = 3
"""The first version whose answer names the requester beside the owner."""


@handles(DescribeDelegationTokenRequest, authz=BY_HANDLER)
def describe_delegation_token(
    req: DescribeDelegationTokenRequest, ctx: RequestContext
) -> DescribeDelegationTokenResponse:
    """Give tokens, all or those of some owners: one's own, and those that a permission shows."""
    ctx.authz.decided = True  # everybody may see his own
    secrets = ctx.node.token_secrets
    if not may_ask_for_tokens(ctx):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if secrets is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    tokens = ctx.node.image().tokens.by_id.values()
    if req.owners is not None:
        wanted = [f"{owner.principal_type}:{owner.principal_name}" for owner in req.owners]
        tokens = [t for t in tokens if any(_concerns(t, who) for who in wanted)]
    shown = sorted((t for t in tokens if _may_see(t, ctx)), key=lambda t: (t.issue_timestamp, t.id))
    return DescribeDelegationTokenResponse(tokens=[_described(token, secrets, ctx.version) for token in shown])


def _concerns(token: DelegationToken, who: str) -> bool:
    return who == str(token.owner) or who in map(str, token.renewers)


def _may_see(token: DelegationToken, ctx: RequestContext) -> bool:
    return (
        _concerns(token, str(ctx.principal))
        or ctx.authorize(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or ctx.authorize(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _described(token: DelegationToken, secrets: TokenSecrets, version: int) -> DescribedDelegationToken:
    told = version >= _TELLS_WHO_ASKED
    return DescribedDelegationToken(
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.principal_type if told else "",
        token_requester_principal_name=token.requester.name if told else "",
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.id,
        hmac=secrets.hmac(token.id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=p.principal_type, principal_name=p.name)
            for p in token.renewers
        ],
    )
