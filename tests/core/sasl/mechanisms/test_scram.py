"""SCRAM: the RFC's own exchanges, both halves against each other, and rubbish."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified
from barnabas.core.sasl.mechanisms.scram import (
    ALGORITHMS,
    CLIENT_MAX_ITERATIONS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramAlgorithm,
    ScramClient,
    ScramKeys,
    ScramServer,
    decoy_keys,
    derive_keys,
    escape_name,
    salt_password,
    unescape_name,
)

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SHA_1 = ScramAlgorithm("SCRAM-SHA-1", 0, "sha1", 20)


def keys(algorithm: ScramAlgorithm, password: str = "pencil", iterations: int = 4096, salt: bytes = SALT) -> ScramKeys:
    return derive_keys(algorithm, salt_password(algorithm, password, salt, iterations), salt, iterations)


STORED = {algorithm: keys(algorithm) for algorithm in ALGORITHMS.values()}


def server(algorithm: ScramAlgorithm = SCRAM_SHA_256, nonce: str = "server") -> ScramServer:
    users = {"user": STORED[algorithm]}
    return ScramServer(algorithm, users.get, lambda: nonce, b"secret")


def client(algorithm: ScramAlgorithm = SCRAM_SHA_256, nonce: str = "client", password: str = "pencil") -> ScramClient:
    return ScramClient(algorithm, "user", password, lambda: nonce)


def test_the_exchange_of_rfc_7677() -> None:
    us, them = server(nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"), client(nonce="rOprNGfwEbeRWgbNEkqO")
    assert them.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = us.step(them.first())
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert challenge == Challenge(first)
    final = them.step(challenge.token)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    verified = us.step(final)
    assert verified == Verified(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")
    assert not them.complete
    assert them.step(verified.token) is None
    assert them.complete


def test_the_exchange_of_rfc_5802() -> None:
    stored = keys(SHA_1, salt=b64decode("QSXCR+Q6sek8bf92"))
    us = ScramServer(SHA_1, lambda user: stored, lambda: "3rfcNHYJY1ZVvWVs7j", b"")
    us.step(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL")
    final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert us.step(final) == Verified(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", "user")


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda a: a.name)
@pytest.mark.parametrize("password", ["pencil", "Pencil", "pencil ", "", "pêncil"])
def test_only_the_right_password_opens(algorithm: ScramAlgorithm, password: str) -> None:
    us, them = server(algorithm), client(algorithm, password=password)
    final = them.step(us.step(them.first()).token)
    assert final is not None
    if password == "pencil":
        assert isinstance(us.step(final), Verified)
    else:
        with pytest.raises(AuthenticationError) as caught:
            us.step(final)
        assert caught.value.public is None


def test_the_client_finds_out_a_server_that_does_not_know_the_password() -> None:
    them = client()
    token = them.first()
    for answer in (b"v=" + b64encode(bytes(32)), b"e=other-error", b"v=", b"rubbish"):
        them = client()
        token = server().step(them.first()).token
        them.step(token)
        with pytest.raises(AuthenticationError):
            them.step(answer)
        assert not them.complete


@pytest.mark.parametrize(
    "answer",
    [
        b"r=other,s=QUJD,i=4096",
        b"r=client,s=QUJD,i=4096",
        b"r=clientx,s=QUJD,i=4095",
        b"r=clientx,s=QUJD,i=%d" % (CLIENT_MAX_ITERATIONS + 1),
        b"r=clientx,s=QUJD,i=99999999999999999999",
        b"r=clientx,s=QUJD,i=-1",
        b"r=clientx,s=Q,i=4096",
        b"m=x,r=clientx,s=QUJD,i=4096",
        b"\xff",
    ],
)
def test_the_client_refuses_bad_first_answers(answer: bytes) -> None:
    with pytest.raises(AuthenticationError):
        client().step(answer)


def test_an_exchange_is_good_for_one_login() -> None:
    us, them = server(), client()
    final = them.step(us.step(them.first()).token)
    assert final is not None
    us.step(final)
    with pytest.raises(AuthenticationError):
        us.step(final)
    failed = server()
    with pytest.raises(AuthenticationError):
        failed.step(b"rubbish")
    with pytest.raises(AuthenticationError, match="after the end"):
        failed.step(them.first())


def test_a_credential_below_the_least_iterations_is_not_used() -> None:
    weak = keys(SCRAM_SHA_256, iterations=4095)
    with pytest.raises(AuthenticationError, match="4095 iterations"):
        ScramServer(SCRAM_SHA_256, lambda user: weak, lambda: "n", b"").step(b"n,,n=user,r=c")


def test_decoys_look_like_credentials_and_stay_the_same() -> None:
    decoy = decoy_keys(SCRAM_SHA_512, b"secret", "nobody")
    assert decoy == decoy_keys(SCRAM_SHA_512, b"secret", "nobody")
    assert decoy.salt != decoy_keys(SCRAM_SHA_512, b"secret", "somebody").salt
    assert decoy.salt != decoy_keys(SCRAM_SHA_512, b"other", "nobody").salt
    assert (len(decoy.stored_key), len(decoy.server_key)) == (64, 64)
    # Kafka's tools make salts as 130 random bits in base 36.
    assert decoy.salt.isalnum()
    assert 22 <= len(decoy.salt) <= 26


def test_keys_do_not_show_in_a_repr() -> None:
    assert "stored_key" not in repr(STORED[SCRAM_SHA_256])


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_names_come_through_escaping(name: str) -> None:
    escaped = escape_name(name)
    assert "," not in escaped
    assert unescape_name(escaped) == name


_WORDS = b"n, n,, y,, a= n=user n= r=client r=clientserver , = c=biws p= AAAA m=x tokenauth=true x=y i=4096 s=QUJD v="
_PIECES = st.sampled_from([*_WORDS.split(), b"p=" + b64encode(bytes(32)), b"\0", b"\xff"])
_TOKENS = st.one_of(st.binary(max_size=80), st.lists(_PIECES, max_size=9).map(b"".join))


@given(st.lists(_TOKENS, min_size=1, max_size=3), st.booleans())
@settings(max_examples=300, deadline=None)
def test_rubbish_gives_only_authentication_errors(tokens: list[bytes], after_first: bool) -> None:
    us, them = server(), client()
    if after_first:
        us.step(them.first())
    for token in tokens:
        for step in (us.step, them.step):
            try:
                outcome = step(token)
            except AuthenticationError:
                continue
            assert not isinstance(outcome, Verified)
            assert not them.complete


def test_a_proof_is_written_in_one_way() -> None:
    us, them = server(), client()
    final = them.step(us.step(them.first()).token)
    assert final is not None
    assert final.endswith(b"0=")  # of whose last character two bits are none of the proof's
    with pytest.raises(AuthenticationError, match="malformed base64"):
        us.step(final[:-2] + b"1=")


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_changed_final_message_is_accepted(data: st.DataObject) -> None:
    us, them = server(), client()
    final = them.step(us.step(them.first()).token)
    assert final is not None
    at = data.draw(st.integers(0, len(final) - 1))
    changed = final[:at] + bytes([data.draw(st.integers(0, 255).filter(lambda b: b != final[at]))]) + final[at + 1 :]
    with pytest.raises(AuthenticationError):
        us.step(changed)
