"""Which tokens are found good, and every way of forging one that we know of."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified
from barnabas.core.sasl.mechanisms.claims import MAX_TOKEN_CHARACTERS, ClaimRules
from barnabas.core.sasl.mechanisms.oauthbearer import InvalidTokenError, OAuthBearerClient, OAuthBearerServer
from barnabas.model.config import ConfigError
from barnabas.net.clock import SystemClock
from barnabas.server.logins.jwks import FileKeys, HttpKeys, key_source, parse_keys
from barnabas.server.logins.jwt import JwtValidator
from barnabas.server.logins.oauth import validator as listener_validator
from tests.peers.eventually import eventually
from tests.server.controllers import node_config

from .issuer import AUDIENCE, ISSUER, In, Issuer, at_once, unsigned

pytestmark = pytest.mark.slow
RULES = ClaimRules(audiences=("other", AUDIENCE), issuer=ISSUER)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def stranger() -> Issuer:
    """Give an issuer who calls its key as ours calls its own."""
    return Issuer()


@pytest.fixture
def validate(issuer: Issuer, tmp_path: Path) -> JwtValidator:
    return validator(issuer, tmp_path)


def validator(issuer: Issuer, folder: Path, rules: ClaimRules = RULES) -> JwtValidator:
    path = folder / "keys.json"
    path.write_text(issuer.jwks())
    return JwtValidator(FileKeys(path), rules, SystemClock())


def test_a_good_token_says_whom_it_names(issuer: Issuer, validate: JwtValidator) -> None:
    ends = int(time.time()) + 100
    found = validate(issuer.token("alice", roles=["a"], exp=ends))
    assert (found.principal_name, found.expiry_ms) == ("alice", ends * 1000)
    assert found.claims["roles"] == ["a"]
    assert validate(issuer.token(aud=["x", AUDIENCE])).principal_name == "alice"
    assert validate(issuer.token(exp=In(-10), iat=In(-20))).principal_name == "alice", "within the clocks' skew"
    assert validate(issuer.token(header={"nonce": "x"})).principal_name == "alice"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": In(-60)}, "ended"),
        ({"exp": None}, "no exp"),
        ({"exp": "tomorrow"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": float("inf")}, "exp is no time"),
        ({"exp": -1}, "exp is no time"),
        ({"iat": None}, "no iat"),
        ({"iat": In(5000), "exp": In(4000)}, "before it begins"),
        ({"nbf": In(600)}, "not good before"),
        ({"iss": "https://stranger.test"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "somebody else"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"sub": ""}, "names nobody"),
        ({"sub": "  "}, "names nobody"),
        ({"sub": ["alice"]}, "names nobody"),
        ({"sub": None}, "names nobody"),
        ({"scope": 7}, "scope"),
    ],
)
def test_claims_that_are_not_believed(issuer: Issuer, validate: JwtValidator, claims: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidTokenError, match=why):
        validate(issuer.token(**claims))


def good_claims() -> dict[str, Any]:
    return at_once({"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "iat": In(0), "exp": In(100)})


def public_key_as_secret(issuer: Issuer) -> str:
    """Sign with HMAC, the public key being the secret: what a verifier falls for that lets the header choose."""
    header = {"alg": "HS256", "kid": "first"}
    head = unsigned(header, good_claims())[:-1]
    made = hmac.digest(issuer.keys[0].as_pem(private=False), head.encode(), hashlib.sha256)
    return f"{head}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def another_payload(issuer: Issuer) -> str:
    parts = issuer.token("alice").split(".")
    parts[1] = base64.urlsafe_b64encode(json.dumps(good_claims()).encode()).rstrip(b"=").decode()
    return ".".join(parts)


def key_in_header(issuer: Issuer) -> str:
    own = Issuer()
    return own.token("root", header={"jwk": own.keys[0].as_dict(private=False)})


FORGERIES: dict[str, Callable[[Issuer], str]] = {
    "alg none": lambda _: unsigned({"alg": "none"}, good_claims()),
    "alg none with a kid": lambda _: unsigned({"alg": "none", "kid": "first"}, good_claims()),
    "alg None": lambda _: unsigned({"alg": "None", "kid": "first"}, good_claims()),
    "no alg": lambda _: unsigned({"kid": "first"}, good_claims(), "c2ln"),
    "alg of another type": lambda _: unsigned({"alg": ["RS256"], "kid": "first"}, good_claims(), "c2ln"),
    "no signature": lambda _: unsigned({"alg": "RS256", "kid": "first"}, good_claims()),
    "signature of zeros": lambda _: unsigned({"alg": "ES256", "kid": "first"}, good_claims(), "A" * 86),
    "the public key as a secret": public_key_as_secret,
    "another payload": another_payload,
    "a key of its own in the header": key_in_header,
    "a kid that is no text": lambda i: i.token(header={"kid": 7}),
    "a critical header": lambda i: i.token(header={"crit": ["exp"], "exp": 1}),
    "two parts": lambda i: i.token().rpartition(".")[0],
    "five parts": lambda i: i.token() + ".a.b",
    "no JSON": lambda _: "YQ.YQ.YQ",
    "JSON that is no object": lambda _: "WzFd.WzFd.WzFd",
    "deep JSON": lambda _: base64.urlsafe_b64encode(b"[" * 30_000).decode() + ".e30.c2ln",
    "oversized": lambda _: "a" * (MAX_TOKEN_CHARACTERS + 1),
    "empty": lambda _: "..",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries(issuer: Issuer, validate: JwtValidator, name: str) -> None:
    with pytest.raises(InvalidTokenError):
        validate(FORGERIES[name](issuer))


def test_a_token_of_another_issuer(stranger: Issuer, validate: JwtValidator) -> None:
    with pytest.raises(InvalidTokenError, match="signature is wrong"):
        validate(stranger.token("root"))


@pytest.mark.requirement("H-40")
@pytest.mark.parametrize(
    ("seconds", "ends", "begins", "taken"),
    [
        ("0", 100, -1, True),
        ("0", -2, -10, False),
        ("120", -100, -110, True),
        ("120", -140, -150, False),
        ("120", 200, 100, True),
        ("120", 200, 140, False),
    ],
)
def test_how_far_clocks_may_be_apart_is_a_setting(
    issuer: Issuer, tmp_path: Path, seconds: str, ends: int, begins: int, taken: bool
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(issuer.jwks())
    config = node_config(
        tmp_path,
        sasl__oauthbearer__jwks__endpoint__url=keys.as_uri(),
        sasl__oauthbearer__expected__issuer=ISSUER,
        sasl__oauthbearer__expected__audience=AUDIENCE,
        sasl__oauthbearer__clock__skew__seconds=seconds,
    )
    validate, _ = listener_validator(config, "PLAINTEXT", SystemClock())
    token = issuer.token(exp=In(ends), iat=In(-200), nbf=In(begins))
    if taken:
        assert validate(token).principal_name == "alice"
    else:
        with pytest.raises(InvalidTokenError):
            validate(token)


def test_other_names_of_claims(issuer: Issuer, tmp_path: Path) -> None:
    rules = ClaimRules((AUDIENCE,), ISSUER, sub_claim="user", scope_claim="scp", required_scope=("write",))
    validate = validator(issuer, tmp_path, rules)
    assert validate(issuer.token("x", user="bob", scp=["read", "write"])).principal_name == "bob"
    with pytest.raises(InvalidTokenError, match="lacks write") as refused:
        validate(issuer.token("x", user="bob", scp="read"))
    assert refused.value.scope == "write"


def test_a_token_for_somebody_is_not_for_those_who_expect_nobody(issuer: Issuer, tmp_path: Path) -> None:
    validate = validator(issuer, tmp_path, ClaimRules())
    with pytest.raises(InvalidTokenError, match="audience"):
        validate(issuer.token())
    assert validate(issuer.token(aud=None, iss="anybody")).principal_name == "alice"


def test_a_changed_file_of_keys_is_read_again(tmp_path: Path) -> None:
    issuer = Issuer()
    validate = validator(issuer, tmp_path)
    issuer.add_key("second", curve=True)
    with pytest.raises(InvalidTokenError, match="no key 'second'"):
        validate(issuer.token())
    (tmp_path / "keys.json").write_text(issuer.jwks())
    assert validate(issuer.token()).principal_name == "alice"
    (tmp_path / "keys.json").write_text("rubbish")
    os.utime(tmp_path / "keys.json", (1, 1))
    with capture_logs() as said:
        for _ in range(3):
            assert validate(issuer.token()).principal_name == "alice"
    assert len(said) == 1, "what is wrong with a file is said once, not at every login"


def test_secrets_are_no_keys() -> None:
    assert parse_keys(b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}') == []
    for rubbish in (b"", b"[]", b'{"keys": 1}', b'{"keys": [1]}', b'{"keys": [{"kty": "RSA"}]}'):
        with pytest.raises(ValueError, match="not a JSON Web Key Set"):
            parse_keys(rubbish)


@pytest.mark.parametrize("url", ["ftp://x/keys", "keys.json", "https://"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        key_source(url, 1, 1, 1, SystemClock())


async def test_keys_that_cannot_be_had_keep_a_node_from_starting(tmp_path: Path) -> None:
    for url in (f"file://{tmp_path}/nothing.json", "http://127.0.0.1:1/keys"):
        with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
            await key_source(url, 1000, 100, 1000, SystemClock()).start()


class Standing:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


async def test_an_unknown_key_is_asked_for_once_a_minute() -> None:
    clock = Standing()
    source = HttpKeys("http://127.0.0.1:1", 3_600_000, 100, 1000, clock)
    wanted = source._wanted
    for key_id, after_ms, asked in (("a", 0, True), ("a", 0, False), ("b", 0, True), ("a", 60_000, True)):
        clock.ms += after_ms
        wanted.clear()
        source.missed(key_id)
        assert wanted.is_set() is asked, (key_id, clock.ms)
    wanted.clear()
    source.missed("x" * 1001)
    assert not wanted.is_set()
    for number in range(100):
        source.missed(str(number))
    assert len(source._missed) <= 16


def exchange(validate: JwtValidator) -> OAuthBearerServer:
    return OAuthBearerServer(validate)


def test_the_exchange(issuer: Issuer, validate: JwtValidator) -> None:
    ends = int(time.time()) + 50
    client = OAuthBearerClient(issuer.token(exp=ends), {"traceId": "1"})
    verified = exchange(validate).step(client.first())
    assert isinstance(verified, Verified)
    assert (verified.user, verified.credential_expiry_ms) == ("alice", ends * 1000)
    assert verified.attributes["sub"] == "alice"
    assert client.step(verified.token) is None
    assert client.complete


def test_a_refusal_says_nothing_but_that(issuer: Issuer, validate: JwtValidator) -> None:
    server, client = exchange(validate), OAuthBearerClient(issuer.token(exp=In(-100)))
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    assert json.loads(challenge.token) == {"status": "invalid_token"}
    acknowledged = client.step(challenge.token)
    assert acknowledged == b"\x01"
    with pytest.raises(AuthenticationError, match="it ended") as refused:
        server.step(acknowledged)
    assert refused.value.public == '{"status":"invalid_token"}'


def test_a_refusal_is_not_followed_by_another_try(issuer: Issuer, validate: JwtValidator) -> None:
    server = exchange(validate)
    server.step(OAuthBearerClient(issuer.token(exp=In(-100))).first())
    with pytest.raises(AuthenticationError):
        server.step(OAuthBearerClient(issuer.token()).first())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"\xff" * 20,
    ],
)
def test_first_messages_that_are_none(validate: JwtValidator, message: bytes) -> None:
    with pytest.raises(AuthenticationError) as refused:
        exchange(validate).step(message)
    assert refused.value.public is None


def test_nobody_acts_as_somebody_else(issuer: Issuer, validate: JwtValidator) -> None:
    as_root = f"n,a=root,\x01auth=Bearer {issuer.token()}\x01\x01".encode()
    with pytest.raises(AuthenticationError, match="asked to act as"):
        exchange(validate).step(as_root)
    as_alice = f"n,a=alice,\x01auth=Bearer {issuer.token()}\x01\x01".encode()
    assert isinstance(exchange(validate).step(as_alice), Verified)


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=Bearer b", "ä"])
def test_what_cannot_be_sent(token: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        OAuthBearerClient(token)
    with pytest.raises(ValueError, match="extension"):
        OAuthBearerClient("a", {"auth": "x"})


async def test_names_made_up_do_not_make_us_ask_and_ask() -> None:
    issuer, clock = Issuer(), Standing()
    with issuer.serving() as url:
        source = HttpKeys(f"{url}/keys", 3_600_000, 100, 1000, clock)
        await source.start()
        clock.ms = 950
        running = asyncio.create_task(source.run())
        try:
            for number in range(30):
                source.missed(f"made-up-{number}")
                await asyncio.sleep(0)
            await eventually(_fetched(issuer), 2)
            source.missed("one-more")
            clock.ms = 5000
            source.missed("and-another")
            await eventually(_fetched(issuer), 3)
        finally:
            running.cancel()


def _fetched(issuer: Issuer) -> Callable[[], Awaitable[object]]:
    async def read() -> object:
        return issuer.fetched

    return read
