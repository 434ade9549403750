"""What the controller decides about delegation tokens: create, renew, expire, and sweeping what is past (KIP-48).

Whether somebody may ask at all was decided before (`server.delegation_tokens`); that only owner and renewers touch a
token is decided here. As in Kafka, each refusal is an error code without words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.token_secrets import TokenSecrets
from barnabas.core.metadata.tokens import DelegationToken, TokensImage, token_record
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.principal import USER_TYPE, KafkaPrincipal
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from barnabas.wire.records.remove_delegation_token_record import RemoveDelegationTokenRecord

NO_TIME: Final = -1
"""What stands for a time in a refusal."""
_SWEPT_AT_ONCE: Final = 1000
_MAX_TIME: Final = (1 << 63) - 1
_E = ErrorCode
R = TypeVar("R", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a cluster says of its tokens. secrets: None where there are none.

    max_lifetime_ms, expiry_time_ms: `delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`.
    """

    secrets: TokenSecrets | None
    max_lifetime_ms: int
    expiry_time_ms: int
    new_id: Callable[[], str]


def owner_of(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    """Give whom a token is asked for: the requester unless somebody is named (KIP-373)."""
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def refused_creation(
    error: ErrorCode, owner: KafkaPrincipal, requester: KafkaPrincipal
) -> CreateDelegationTokenResponse:
    """Give the answer to a CreateDelegationToken that is refused."""
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        token_requester_principal_type=requester.principal_type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


def create_token(
    rules: TokenRules, levels: Levels, request: CreateDelegationTokenRequest, requester: KafkaPrincipal, now_ms: int
) -> Decision[CreateDelegationTokenResponse]:
    """Make a token for the one asked for, with renewers that are all users.

    Unlike in Kafka its owner is a User as well: a login by the token is one of User:name, whatever the owner's type.
    """
    owner = owner_of(request, requester)
    error = _unavailable(rules, levels)
    if error is _E.NONE and owner.principal_type != USER_TYPE:
        error = _E.INVALID_PRINCIPAL_TYPE
    if error is not _E.NONE or rules.secrets is None:
        refused = refused_creation(error, owner, requester)
        refused.issue_timestamp_ms = refused.expiry_timestamp_ms = refused.max_timestamp_ms = 0  # as controllers do
        return Decision((), refused)
    lifetime_ms = rules.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_timestamp = _later(now_ms, lifetime_ms)
    token = DelegationToken(
        id=rules.new_id(),
        owner=owner,
        requester=requester,
        renewers=tuple(KafkaPrincipal(p.principal_type, p.principal_name) for p in request.renewers),
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiry_timestamp=min(max_timestamp, _later(now_ms, rules.expiry_time_ms)),
    )
    response = refused_creation(_E.NONE, owner, requester)
    response.issue_timestamp_ms = now_ms
    response.expiry_timestamp_ms = token.expiry_timestamp
    response.max_timestamp_ms = max_timestamp
    response.token_id = token.id
    response.hmac = rules.secrets.hmac(token.id)
    return Decision((token_record(token),), response)


def renew_token(
    image: TokensImage,
    rules: TokenRules,
    levels: Levels,
    request: RenewDelegationTokenRequest,
    principal: KafkaPrincipal,
    now_ms: int,
) -> Decision[RenewDelegationTokenResponse]:
    """Let a token last from now on for the time asked for, `expiry_time_ms` at most, and never past its maximum."""
    token, error = _found(image, rules, levels, bytes(request.hmac))
    if token is not None and token.expired(now_ms):
        error = _E.DELEGATION_TOKEN_EXPIRED
    elif token is not None and not token.renewable_by(principal):
        error = _E.DELEGATION_TOKEN_OWNER_MISMATCH
    if token is None or error is not _E.NONE:
        return Decision((), RenewDelegationTokenResponse(error_code=error))
    period_ms = rules.expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    return _until(token, _later(now_ms, period_ms), RenewDelegationTokenResponse())


def expire_token(
    image: TokensImage,
    rules: TokenRules,
    levels: Levels,
    request: ExpireDelegationTokenRequest,
    principal: KafkaPrincipal,
    now_ms: int,
) -> Decision[ExpireDelegationTokenResponse]:
    """Let a token end after the time asked for, at once for a negative one."""
    token, error = _found(image, rules, levels, bytes(request.hmac))
    if token is not None and not token.renewable_by(principal):
        error = _E.DELEGATION_TOKEN_OWNER_MISMATCH
    elif token is not None and request.expiry_time_period_ms >= 0 and token.expired(now_ms):
        error = _E.DELEGATION_TOKEN_EXPIRED
    if token is None or error is not _E.NONE:
        return Decision((), ExpireDelegationTokenResponse(error_code=error))
    if request.expiry_time_period_ms < 0:
        return Decision((_removal(token),), ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    return _until(token, _later(now_ms, request.expiry_time_period_ms), ExpireDelegationTokenResponse())


def sweep_tokens(image: TokensImage, now_ms: int) -> Decision[tuple[str, ...]]:
    """Remove tokens that are past their time, so many at once; gives their ids."""
    past = [token for token in image.by_id.values() if token.expired(now_ms)][:_SWEPT_AT_ONCE]
    return Decision(tuple(map(_removal, past)), tuple(token.id for token in past), atomic=False)


def _until(token: DelegationToken, time_ms: int, response: R) -> Decision[R]:
    response.expiry_timestamp_ms = min(token.max_timestamp, time_ms)
    return Decision((token_record(replace(token, expiry_timestamp=response.expiry_timestamp_ms)),), response)


def _found(
    image: TokensImage, rules: TokenRules, levels: Levels, hmac: bytes
) -> tuple[DelegationToken | None, ErrorCode]:
    error = _unavailable(rules, levels)
    if error is not _E.NONE or rules.secrets is None:
        return None, error
    token = rules.secrets.find(image, hmac)
    return token, _E.DELEGATION_TOKEN_NOT_FOUND if token is None else _E.NONE


def _unavailable(rules: TokenRules, levels: Levels) -> ErrorCode:
    if rules.secrets is None:
        return _E.DELEGATION_TOKEN_AUTH_DISABLED
    return _E.NONE if levels.delegation_tokens else _E.UNSUPPORTED_VERSION


def _removal(token: DelegationToken) -> VersionedRecord:
    return VersionedRecord(RemoveDelegationTokenRecord(token_id=token.id), 0)


def _later(now_ms: int, duration_ms: int) -> int:
    return min(_MAX_TIME, now_ms + duration_ms)
