"""Both halves of GSSAPI against others that do not keep to it, over real contexts of Kerberos."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified
from barnabas.core.sasl.mechanisms.gssapi import GssapiClient, GssapiServer

from .kdc import REALM, SERVICE, Kdc

if TYPE_CHECKING:
    from barnabas.net.kerberos import Acceptor, Tickets

pytestmark = pytest.mark.peer
MUTATIONS = 400


@pytest.fixture(scope="module")
def acceptor(kdc: Kdc) -> Acceptor:
    from barnabas.net.kerberos import Acceptor

    return Acceptor(kdc.service(), SERVICE)


@pytest.fixture(scope="module")
def tickets(kdc: Kdc) -> Tickets:
    from barnabas.net.kerberos import Tickets

    return Tickets.by_key_table(kdc.principal("alice"), "alice")


def client(tickets: Tickets) -> GssapiClient:
    return GssapiClient(*tickets.begin("kafka", "localhost"))


def user(name: str) -> str:
    return name.partition("@")[0]


def test_both_halves_agree(acceptor: Acceptor, tickets: Tickets) -> None:
    us, them = GssapiServer(acceptor.context(), user), client(tickets)
    token, said = them.first(), 0
    while isinstance(outcome := us.step(token), Challenge):
        said += 1
        token = them.step(outcome.token) or b""
    assert outcome == Verified(b"", "alice", attributes={"principal": f"alice@{REALM}"})
    assert not them.complete
    assert them.step(outcome.token) is None
    assert them.complete
    assert said == 2


def test_a_name_that_the_rules_make_nothing_of_is_nobody(acceptor: Acceptor, tickets: Tickets) -> None:
    us, them = GssapiServer(acceptor.context(), lambda name: ""), client(tickets)
    token = them.first()
    for _ in range(2):
        outcome = us.step(token)
        assert isinstance(outcome, Challenge)
        token = them.step(outcome.token) or b""
    with pytest.raises(AuthenticationError, match="the rules make an empty name of 'alice@"):
        us.step(token)


@pytest.mark.parametrize("name", ["é", "a_b", "*", "q\\@r", "a'b"])
def test_names_of_odd_characters(acceptor: Acceptor, kdc: Kdc, name: str) -> None:
    from barnabas.net.kerberos import Tickets

    kdc.principal(name)
    them = client(Tickets.by_cache(kdc.ticket(name), None))
    us = GssapiServer(acceptor.context(), lambda whole: whole)
    token = them.first()
    while isinstance(outcome := us.step(token), Challenge):
        token = them.step(outcome.token) or b""
    assert outcome.user == f"{name}@{REALM}"


@pytest.mark.parametrize("offer", [b"", b"\x01", b"\x06\0\xff\xff", b"\x00\0\0\0", b"\x01\0\0\0\0"])
def test_a_server_that_wants_a_security_layer_is_left(acceptor: Acceptor, tickets: Tickets, offer: bytes) -> None:
    theirs, us = acceptor.context(), client(tickets)
    assert us.step(theirs.step(us.first())) == b""
    with pytest.raises(AuthenticationError, match="wants a security layer"):
        us.step(theirs.wrap(offer))
    assert not us.complete


def test_a_server_that_does_not_prove_itself_is_left(acceptor: Acceptor, tickets: Tickets) -> None:
    theirs, us = acceptor.context(), client(tickets)
    theirs.step(us.first())
    with pytest.raises(AuthenticationError):
        us.step(theirs.wrap(b"\x01\0\0\0"))  # what would come next, without the proof before it
    other = client(tickets)
    with pytest.raises(AuthenticationError):
        other.step(b"")


def test_a_server_that_talks_on_is_left(acceptor: Acceptor, tickets: Tickets) -> None:
    theirs, us = acceptor.context(), client(tickets)
    us.step(theirs.step(us.first()))
    us.step(theirs.wrap(b"\x01\0\0\0"))
    with pytest.raises(AuthenticationError, match="more where all is said"):
        us.step(b"more")


def test_no_changed_token_is_taken(acceptor: Acceptor, tickets: Tickets) -> None:
    chance = random.Random(4752)
    good = client(tickets).first()
    for _ in range(MUTATIONS):
        token = bytearray(good)
        kind = chance.randrange(3)
        if kind == 0:
            token[chance.randrange(len(token))] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del token[chance.randrange(len(token)) :]
        else:
            token[chance.randrange(len(token))] = chance.randrange(256)
        if bytes(token) == good:
            continue
        us = GssapiServer(acceptor.context(), user)
        try:
            outcome = us.step(bytes(token))
        except AuthenticationError:
            continue
        # Kerberos leaves some bits outside of what it proves; who the ticket belongs to is not among them.
        assert isinstance(outcome, Challenge)
        with pytest.raises(AuthenticationError):
            us.step(b"never proven")


def test_no_changed_choice_is_taken(acceptor: Acceptor, tickets: Tickets) -> None:
    chance = random.Random(2222)
    # Bytes 6 and 7 say by how much the rest is rotated (RFC 4121, 4.2.5), where a whole turn changes nothing.
    for at in (*range(6), *range(8, 32)):
        us, them = GssapiServer(acceptor.context(), user), client(tickets)
        token = them.first()
        for _ in range(2):
            outcome = us.step(token)
            assert isinstance(outcome, Challenge)
            token = them.step(outcome.token) or b""
        changed = bytearray(token)
        assert len(changed) == 32
        changed[at] ^= 1 << chance.randrange(8)
        with pytest.raises(AuthenticationError):
            us.step(bytes(changed))
