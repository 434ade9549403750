"""Delegation tokens: their image and replay (KIP-48, KIP-900).

The log holds who may use a token and until when, never what proves it: that is made of the token's id and
`delegation.token.secret.key` (`core.metadata.token_secrets`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import ReplayError, VersionedRecord, replays
from barnabas.model.principal import KafkaPrincipal
from barnabas.wire.records.delegation_token_record import DelegationTokenRecord
from barnabas.wire.records.remove_delegation_token_record import RemoveDelegationTokenRecord


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token. owner: who logs in by it; requester: who asked for it; renewers: who else may renew and expire it.

    Times are ms since the epoch: no renewal goes beyond max_timestamp, and after expiry_timestamp it is of no use.
    """

    id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int

    def expired(self, now_ms: int) -> bool:
        """Say whether it is past its time."""
        return min(self.max_timestamp, self.expiry_timestamp) < now_ms

    def renewable_by(self, principal: KafkaPrincipal) -> bool:
        """Say whether that principal owns it or was named as a renewer."""
        who = str(principal)  # whatever else a principal builder has put into it
        return who == str(self.owner) or who in map(str, self.renewers)


@dataclass(frozen=True, slots=True)
class TokensImage:
    """The tokens by id."""

    by_id: Map[str, DelegationToken] = field(default_factory=Map)


@replays(DelegationTokenRecord)
def set_token(image: TokensImage, r: DelegationTokenRecord) -> TokensImage:
    """Add a token, or change how long it lasts."""
    try:
        owner, requester = KafkaPrincipal.parse(r.owner), KafkaPrincipal.parse(r.requester or r.owner)
        renewers = tuple(KafkaPrincipal.parse(renewer) for renewer in r.renewers)
    except ValueError as e:
        raise ReplayError(f"a delegation token of the metadata log: {e}") from None
    token = DelegationToken(
        r.token_id, owner, requester, renewers, r.issue_timestamp, r.max_timestamp, r.expiration_timestamp
    )
    return TokensImage(image.by_id.set(r.token_id, token))


@replays(RemoveDelegationTokenRecord)
def remove_token(image: TokensImage, r: RemoveDelegationTokenRecord) -> TokensImage:
    """Remove a token; of one that is gone already nothing is left to do, as in Kafka."""
    return TokensImage(image.by_id.delete(r.token_id)) if r.token_id in image.by_id else image


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (set_token, remove_token)


def snapshot_records(image: TokensImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image; none where metadata.version does not know them."""
    if not levels.delegation_tokens:
        return
    for _, token in sorted(image.by_id.items()):
        yield token_record(token)


def token_record(token: DelegationToken) -> VersionedRecord:
    """Give the record that sets a token."""
    record = DelegationTokenRecord(
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=[str(renewer) for renewer in token.renewers],
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiry_timestamp,
        token_id=token.id,
    )
    return VersionedRecord(record, 0)
