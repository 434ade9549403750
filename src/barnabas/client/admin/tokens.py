"""Admin: delegation tokens (KIP-48)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.client.admin.outcome import ClusterAdmin, check
from barnabas.model.principal import KafkaPrincipal
from barnabas.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

AS_THE_CLUSTER_SAYS = -1
"""In place of a time: as long as the cluster's settings allow."""


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A delegation token. Times are ms since the epoch; requester: None where the cluster is too old to say."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal | None
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """Give what one logs in with by SCRAM, with the id as the user name and `tokenauth="true"`."""
        return b64encode(self.hmac).decode()


class TokensAdmin(ClusterAdmin):
    """Operations on delegation tokens; ApiError when refused."""

    async def create_token(
        self,
        *,
        owner: KafkaPrincipal | None = None,
        renewers: Sequence[KafkaPrincipal] = (),
        max_lifetime_ms: int = AS_THE_CLUSTER_SAYS,
    ) -> TokenInfo:
        """Make a token for `owner`, for whoever asks when that is None."""
        request = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type=r.principal_type, principal_name=r.name) for r in renewers],
            max_lifetime_ms=max_lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner.principal_type, owner.name
        made: CreateDelegationTokenResponse = await self.cluster.call_any(request)
        check(made.error_code)
        return TokenInfo(
            made.token_id,
            KafkaPrincipal(made.principal_type, made.principal_name),
            _requester(made.token_requester_principal_type, made.token_requester_principal_name),
            tuple(renewers),
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
            bytes(made.hmac),
        )

    async def renew_token(self, hmac: bytes, period_ms: int = AS_THE_CLUSTER_SAYS) -> int:
        """Let a token last for `period_ms` from now on; give when it ends."""
        response: RenewDelegationTokenResponse = await self.cluster.call_any(
            RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        )
        check(response.error_code)
        return response.expiry_timestamp_ms

    async def expire_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Let a token end after `period_ms`, at once when that is negative; give when it ends."""
        response: ExpireDelegationTokenResponse = await self.cluster.call_any(
            ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        )
        check(response.error_code)
        return response.expiry_timestamp_ms

    async def describe_tokens(self, owners: Sequence[KafkaPrincipal] | None = None) -> list[TokenInfo]:
        """Give the tokens that one may see, those of `owners` or all; an owner's renewable ones are with them."""
        asked = None
        if owners is not None:
            asked = [
                DescribeDelegationTokenOwner(principal_type=o.principal_type, principal_name=o.name) for o in owners
            ]
        response: DescribeDelegationTokenResponse = await self.cluster.call_any(
            DescribeDelegationTokenRequest(owners=asked)
        )
        check(response.error_code)
        return [
            TokenInfo(
                t.token_id,
                KafkaPrincipal(t.principal_type, t.principal_name),
                _requester(t.token_requester_principal_type, t.token_requester_principal_name),
                tuple(KafkaPrincipal(r.principal_type, r.principal_name) for r in t.renewers),
                t.issue_timestamp,
                t.expiry_timestamp,
                t.max_timestamp,
                bytes(t.hmac),
            )
            for t in response.tokens
        ]


def _requester(principal_type: str, name: str) -> KafkaPrincipal | None:
    return KafkaPrincipal(principal_type, name) if name else None
