"""PLAIN: tokens of every shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.sasl.exchange import AuthenticationError, Verified
from barnabas.core.sasl.mechanisms.plain import PlainClient, PlainServer, verify_in

USERS = {"alice": "secret", "jürgen": "pässwort"}


@pytest.mark.parametrize("user", USERS)
def test_both_halves_meet(user: str) -> None:
    client = PlainClient(user, USERS[user])
    assert PlainServer(verify_in(USERS)).step(client.first()) == Verified(b"", user)
    assert not client.complete
    client.step(b"")
    assert client.complete


def test_a_server_that_answers_more_is_refused() -> None:
    with pytest.raises(AuthenticationError):
        PlainClient("alice", "secret").step(b"more")


def test_the_absent_password_opens_nothing() -> None:
    with pytest.raises(AuthenticationError):
        PlainServer(lambda user, password: verify_in(USERS)(user, "\x00absent")).step(b"\0nobody\0x")


@given(st.one_of(st.binary(), st.lists(st.sampled_from([b"\0", b"alice", b"secret", b"\xff", b""])).map(b"".join)))
def test_only_the_right_token_opens(token: bytes) -> None:
    right = {f"{authzid}\0{user}\0{password}".encode() for user, password in USERS.items() for authzid in ("", user)}
    try:
        outcome = PlainServer(verify_in(USERS)).step(token)
    except AuthenticationError:
        assert token not in right
    else:
        assert token in right
        assert outcome.token == b""
