"""What the controller decides about delegation tokens (KIP-48, KIP-373)."""

from __future__ import annotations

import hmac
from base64 import b64encode
from itertools import count
from typing import Any

import pytest

from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.token_changes import (
    TokenRules,
    create_token,
    expire_token,
    renew_token,
    sweep_tokens,
)
from barnabas.core.metadata.token_secrets import TokenSecrets
from barnabas.core.metadata.tokens import REPLAYS, TokensImage, snapshot_records
from barnabas.core.replicated import Decision, ReplayTable
from barnabas.core.sasl.mechanisms.scram import SCRAM_SHA_256, derive_keys, salt_password
from barnabas.model.features import MetadataVersion
from barnabas.model.principal import KafkaPrincipal
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

NEW = Levels(metadata_version=int(MetadataVersion.IBP_3_6_IV2))
OLD = Levels(metadata_version=int(MetadataVersion.IBP_3_6_IV1))
ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))
TABLE = ReplayTable[TokensImage](REPLAYS)
NOW = 1_000_000
DAY, WEEK = 86_400_000, 604_800_000
E = ErrorCode


class Tokens:
    """An image, and the rules that change it."""

    def __init__(self, *, key: str | None = "key") -> None:
        numbers = count(1)
        secrets = None if key is None else TokenSecrets(key)
        self.rules = TokenRules(secrets, WEEK, DAY, lambda: f"token-{next(numbers)}")
        self.image = TokensImage()

    def apply(self, decision: Decision[Any]) -> Any:
        for versioned in decision.records:
            self.image = TABLE.replay(self.image, versioned.record)
        return decision.response

    def create(self, who: KafkaPrincipal = ALICE, now: int = NOW, levels: Levels = NEW, **fields: Any) -> Any:
        return self.apply(create_token(self.rules, levels, CreateDelegationTokenRequest(**fields), who, now))

    def renew(self, hmac: bytes, period: int = -1, who: KafkaPrincipal = ALICE, now: int = NOW) -> Any:
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
        return self.apply(renew_token(self.image, self.rules, NEW, request, who, now))

    def expire(self, hmac: bytes, period: int = -1, who: KafkaPrincipal = ALICE, now: int = NOW) -> Any:
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)
        return self.apply(expire_token(self.image, self.rules, NEW, request, who, now))


def test_a_token_is_made_for_the_one_who_asks() -> None:
    tokens = Tokens()
    made = tokens.create(renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    assert (made.error_code, made.token_id) == (0, "token-1")
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (NOW, NOW + DAY, NOW + WEEK)
    assert made.hmac == hmac.digest(b"key", b"token-1", "sha512")
    assert tokens.image.by_id["token-1"].renewers == (BOB,)


def test_somebody_else_may_own_it() -> None:
    tokens = Tokens()
    made = tokens.create(owner_principal_type="User", owner_principal_name="bob")
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    token = tokens.image.by_id["token-1"]
    assert (token.owner, token.requester) == (BOB, ALICE)
    assert tokens.renew(made.hmac).error_code == E.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.renew(made.hmac, who=BOB).error_code == 0


@pytest.mark.parametrize(
    ("asked", "expiry", "most"),
    [(5, 5, 5), (DAY + 5, DAY, DAY + 5), (2 * WEEK, DAY, WEEK), (0, DAY, WEEK), (-1, DAY, WEEK)],
)
def test_a_shorter_life_may_be_asked_for_and_no_longer_one(asked: int, expiry: int, most: int) -> None:
    made = Tokens().create(max_lifetime_ms=asked)
    assert (made.expiry_timestamp_ms, made.max_timestamp_ms) == (NOW + expiry, NOW + most)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"levels": OLD}, E.UNSUPPORTED_VERSION),
        ({"owner_principal_type": "Robot", "owner_principal_name": "alice"}, E.INVALID_PRINCIPAL_TYPE),
    ],
)
def test_what_is_refused_leaves_nothing_behind(changes: dict[str, Any], error: ErrorCode) -> None:
    tokens = Tokens()
    refused = tokens.create(**changes)
    assert (refused.error_code, refused.token_id, refused.hmac) == (error, "", b"")
    assert (refused.issue_timestamp_ms, refused.expiry_timestamp_ms, refused.max_timestamp_ms) == (0,) * 3
    assert not tokens.image.by_id


def test_without_a_key_there_are_no_tokens() -> None:
    tokens = Tokens(key=None)
    assert tokens.create().error_code == E.DELEGATION_TOKEN_AUTH_DISABLED
    assert tokens.renew(b"x").error_code == E.DELEGATION_TOKEN_AUTH_DISABLED
    assert tokens.expire(b"x").error_code == E.DELEGATION_TOKEN_AUTH_DISABLED


def test_renewing() -> None:
    tokens = Tokens()
    made = tokens.create(renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    assert tokens.renew(made.hmac, 10, now=NOW + 1).expiry_timestamp_ms == NOW + 11
    assert tokens.renew(made.hmac, 2 * DAY, who=BOB, now=NOW + 1).expiry_timestamp_ms == NOW + 1 + DAY
    assert tokens.renew(made.hmac, who=CAROL).error_code == E.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.renew(bytes(64)).error_code == E.DELEGATION_TOKEN_NOT_FOUND
    late = made.max_timestamp_ms - 5
    for day in range(1, 7):
        tokens.renew(made.hmac, now=NOW + day * DAY)
    assert tokens.renew(made.hmac, now=late).expiry_timestamp_ms == made.max_timestamp_ms
    assert tokens.renew(made.hmac, who=CAROL, now=late + 6).error_code == E.DELEGATION_TOKEN_EXPIRED


def test_expiring() -> None:
    tokens = Tokens()
    made = tokens.create()
    assert tokens.expire(made.hmac, 10).expiry_timestamp_ms == NOW + 10
    assert tokens.expire(made.hmac, 2 * WEEK).expiry_timestamp_ms == NOW + WEEK
    assert tokens.expire(made.hmac, who=CAROL).error_code == E.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.expire(made.hmac, 0, now=NOW + WEEK + 1).error_code == E.DELEGATION_TOKEN_EXPIRED
    assert tokens.expire(made.hmac, -1, now=NOW + WEEK + 1).expiry_timestamp_ms == NOW + WEEK + 1
    assert tokens.expire(made.hmac).error_code == E.DELEGATION_TOKEN_NOT_FOUND
    assert not tokens.image.by_id


def test_what_is_past_its_time_is_swept_away() -> None:
    tokens = Tokens()
    kept, gone = tokens.create(), tokens.create(max_lifetime_ms=5)
    assert tokens.apply(sweep_tokens(tokens.image, NOW + 5)) == ()
    assert tokens.apply(sweep_tokens(tokens.image, NOW + 6)) == (gone.token_id,)
    assert set(tokens.image.by_id) == {kept.token_id}


def test_a_snapshot_rebuilds_the_tokens() -> None:
    tokens = Tokens()
    tokens.create(renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    tokens.create(owner_principal_type="User", owner_principal_name="bob")
    again = TokensImage()
    for versioned in snapshot_records(tokens.image, NEW):
        again = TABLE.replay(again, versioned.record)
    assert again == tokens.image
    assert not list(snapshot_records(tokens.image, OLD))


def test_the_hmac_in_base64_is_the_password() -> None:
    tokens = Tokens()
    made = tokens.create()
    assert tokens.rules.secrets is not None
    stored = tokens.rules.secrets.credential(SCRAM_SHA_256, tokens.image, made.token_id)
    assert stored is not None
    salted = salt_password(SCRAM_SHA_256, b64encode(made.hmac).decode(), stored.salt, stored.iterations)
    assert derive_keys(SCRAM_SHA_256, salted, stored.salt, stored.iterations) == stored
    assert tokens.rules.secrets.credential(SCRAM_SHA_256, tokens.image, "token-2") is None
    assert TokenSecrets("another key").find(tokens.image, made.hmac) is None


def test_tokens_that_are_gone_are_forgotten() -> None:
    secrets = TokenSecrets("key")
    for number in range(3000):
        secrets.hmac(str(number))
    assert secrets.find(TokensImage(), secrets.hmac("1")) is None
    assert len(secrets._hmacs) < 2000
