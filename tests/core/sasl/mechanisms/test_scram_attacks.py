"""SCRAM messages that were forged, repeated, downgraded or blown up: neither half of ours takes them for good."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable

import pytest

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified
from barnabas.core.sasl.mechanisms.scram import (
    ALGORITHMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramClient,
    ScramKeys,
    ScramServer,
    TokenCredential,
    derive_keys,
    salt_password,
)

pytestmark = pytest.mark.slow
SALT = b"some salt"
KEYS = {a: derive_keys(a, salt_password(a, "pencil", SALT, 4096), SALT, 4096) for a in ALGORITHMS.values()}
LARGE = 500_000
"""As much as a node takes before a login, nearly."""


def server(nonce: str = "server", user: str = "user") -> ScramServer:
    return ScramServer(SCRAM_SHA_256, {user: KEYS[SCRAM_SHA_256]}.get, lambda: nonce, b"decoy")


def client(nonce: str = "client", user: str = "user") -> ScramClient:
    return ScramClient(SCRAM_SHA_256, user, "pencil", lambda: nonce)


def token_of(step: Challenge | Verified) -> bytes:
    return step.token


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=user,r=client",  # "I could bind the channel, and think that you cannot"
        b"p=tls-unique,,n=user,r=client",
        b"p=tls-server-end-point,,n=user,r=client",
        b"n,,m=ext,n=user,r=client",
        b"n,,n=user,n=other,r=client",
        b"n,,n=user,r=client,r=",
        b"n,,r=client,n=user",
        b"n,,n=,r=client",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=client",
        b"n,,n=user\x00,r=client",
        b"n,a=,n=user,r=client",
        b"n,a=other,n=user,r=client",
        b"n,a=admin=2C,n=user,r=client",
        b"n,a=user,a=other,n=user,r=client",
        b"n,,n=user,r=cli ent",
        b"n,,n=user,r=cli\xc3\xa9nt",
        b" n,,n=user,r=client",
        b"n,,n=user,r=client\n",
        b"N,,n=user,r=client",
        b"n,,n=user,r=client,",
        b"c=biws,r=clientserver,p=AAAA",
        b"",
    ],
)
def test_first_messages_that_are_none(first: bytes) -> None:
    with pytest.raises(AuthenticationError):
        server().step(first)


def forged(change: Callable[[bytes], bytes]) -> ScramServer:
    """Give a server that has answered an honest first message, and is then shown a changed final one."""
    us, them = server(), client()
    final = them.step(token_of(us.step(them.first())))
    assert final is not None
    changed = change(final)
    assert changed != final
    with pytest.raises(AuthenticationError):
        us.step(changed)
    return us


@pytest.mark.parametrize(
    ("of", "by"),
    [
        (b"c=biws", b"c=eSws"),  # y,,
        (b"c=biws", b"c=cD10bHMtdW5pcXVlLCw="),  # p=tls-unique,,
        (b"c=biws", b"c=" + b64encode(b"n,a=admin,")),
        (b"c=biws,", b""),
        (b"r=clientserver", b"r=client"),
        (b"r=clientserver", b"r=server"),
        (b"r=clientserver", b"r=clientserverX"),
        (b"r=clientserver", b"r=otherserver"),
        (b"r=clientserver", b"r=clientserver,r=clientserver"),
        (b"r=clientserver", b"r=clientserver,m=x"),
        (b"r=clientserver", b"r=clientserver,tokenauth=true"),
        (b",p=", b",x=y,p="),
        (b",p=", b",p=AAAA,p="),
        (b",p=", b",q="),
    ],
)
def test_final_messages_that_are_forged(of: bytes, by: bytes) -> None:
    us = forged(lambda final: final.replace(of, by))
    # And no second try follows the first.
    with pytest.raises(AuthenticationError, match="after the end"):
        us.step(b"n,,n=user,r=client")


@pytest.mark.parametrize("proof", [b"", b"AAAA", b64encode(bytes(32)), b64encode(bytes(64)), b64encode(bytes(33))])
def test_proofs_that_are_none(proof: bytes) -> None:
    forged(lambda final: final[: final.index(b",p=") + 3] + proof)


def test_an_exchange_that_was_overheard_opens_nothing_later() -> None:
    us, them = server("first"), client()
    heard = them.first()
    final = them.step(token_of(us.step(heard)))
    assert final is not None
    us.step(final)
    again = server("second")
    again.step(heard)
    with pytest.raises(AuthenticationError):
        again.step(final)
    # Nor with the new nonce put in: the proof covers it.
    again = server("second")
    again.step(heard)
    with pytest.raises(AuthenticationError, match="wrong password"):
        again.step(final.replace(b"r=clientfirst", b"r=clientsecond"))


@pytest.mark.parametrize(("of", "by"), [(b"i=4096", b"i=8192"), (b"s=", b"s=QUJD"), (b"server,", b"serverX,")])
def test_what_somebody_between_changes_spoils_the_proof(of: bytes, by: bytes) -> None:
    us, them = server(), client()
    final = them.step(token_of(us.step(them.first())).replace(of, by, 1))
    assert final is not None
    with pytest.raises(AuthenticationError):
        us.step(final)


def test_a_proof_for_one_mechanism_or_user_is_none_for_another() -> None:
    for algorithm in ALGORITHMS.values():
        us = ScramServer(algorithm, {"user": KEYS[algorithm], "other": KEYS[algorithm]}.get, lambda: "server", b"")
        them = ScramClient(SCRAM_SHA_256, "user", "pencil", lambda: "client")
        honest = them.first()
        final = them.step(token_of(us.step(honest.replace(b"n=user", b"n=other"))))
        assert final is not None
        with pytest.raises(AuthenticationError):
            us.step(final)
    us = ScramServer(SCRAM_SHA_512, KEYS_OF_USER.get, lambda: "server", b"")
    them = client()
    final = them.step(token_of(us.step(them.first())))
    assert final is not None
    with pytest.raises(AuthenticationError, match="wrong length"):
        us.step(final)


KEYS_OF_USER = {"user": KEYS[SCRAM_SHA_512]}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"v=",
        b"v=" + b64encode(bytes(32)),
        b"e=none,v=" + b64encode(bytes(32)),
        b"m=x,v=" + b64encode(bytes(32)),
        b"r=clientserver,s=QUJD,i=4096",
    ],
)
def test_a_server_that_proves_nothing_is_not_believed(answer: bytes) -> None:
    us, them = server(), client()
    them.step(token_of(us.step(them.first())))
    with pytest.raises(AuthenticationError):
        them.step(answer)
    assert not them.complete


def test_a_proof_of_the_server_is_good_for_one_exchange() -> None:
    us, them = server("first"), client()
    final = them.step(token_of(us.step(them.first())))
    assert final is not None
    proof = token_of(us.step(final))
    later = client()
    later.step(token_of(server("second").step(later.first())))
    with pytest.raises(AuthenticationError, match="does not know"):
        later.step(proof)


@pytest.mark.parametrize(
    "first",
    [
        b"n,,n=" + b"u" * LARGE + b",r=client",
        b"n,,n=user,r=" + b"c" * LARGE,
        b"n,,n=user,r=client" + b",ext=value" * (LARGE // 10),
        b"n,,n=user,r=client" + b",ext=value" * (LARGE // 10) + b",",
        b"n,,n=user,r=client," + b"e" * LARGE,
        b"n,a=" + b"=2C" * (LARGE // 3) + b",n=user,r=client",
        b"n,,n=" + b"=3D" * (LARGE // 3) + b",r=client",
        b"," * LARGE,
    ],
    ids=range(8),
)
def test_what_is_blown_up_is_answered_in_one_go(first: bytes) -> None:
    """Takes as long as it is long; a pattern that tried again and again would not come to an end here."""
    us = server()

    def both() -> None:
        us.step(first)
        us.step(b"c=biws,r=server,p=" + b"A" * LARGE)

    with pytest.raises(AuthenticationError) as refused:
        both()
    assert len(str(refused.value)) < 500


def by_token(first: bytes, owner: str = "owner") -> tuple[ScramServer, Challenge | Verified]:
    token = TokenCredential(KEYS[SCRAM_SHA_256], owner, 99)
    us = ScramServer(SCRAM_SHA_256, {"user": KEYS[SCRAM_SHA_256]}.get, lambda: "server", b"decoy", {"id": token}.get)
    return us, us.step(first)


def test_a_token_s_id_and_a_user_s_name_are_two_things() -> None:
    for first, known in (
        (b"n,,n=id,r=client,tokenauth=true", True),
        (b"n,,n=id,r=client,tokenauth=TRUE", True),
        (b"n,,n=id,r=client", False),
        (b"n,,n=id,r=client,tokenauth=false", False),
        (b"n,,n=id,r=client,tokenauth=1", False),
        (b"n,,n=user,r=client,tokenauth=true", False),
        (b"n,,n=owner,r=client,tokenauth=true", False),
        (b"n,,n=user,r=client,Tokenauth=true", True),
    ):
        us, challenge = by_token(first)
        bare = first.decode().removeprefix("n,,")
        them = ScramClient(SCRAM_SHA_256, "user", "pencil", lambda: "client")
        them._bare = bare
        final = them.step(token_of(challenge))
        assert final is not None
        if not known:
            with pytest.raises(AuthenticationError, match="no credential"):
                us.step(final)
            continue
        verified = us.step(final)
        assert isinstance(verified, Verified)
        assert (verified.user, verified.token_authenticated) == (
            ("owner", True) if b"n=id" in first else ("user", False)
        )
    with pytest.raises(AuthenticationError, match="asked to act as"):
        by_token(b"n,a=owner,n=id,r=client,tokenauth=true")
    with pytest.raises(AuthenticationError, match="not accepted here"):
        server().step(b"n,,n=id,r=client,tokenauth=true")


class Unequal(bytes):
    """Bytes that nobody may compare by `==`, which tells by its time how far they agree."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a secret was compared by ==")

    def __ne__(self, other: object) -> bool:
        raise AssertionError("a secret was compared by !=")

    __hash__ = bytes.__hash__


@pytest.mark.parametrize("password", ["pencil", "wrong"])
def test_stored_keys_are_compared_in_constant_time(password: str) -> None:
    stored = KEYS[SCRAM_SHA_256]
    keys = ScramKeys(stored.salt, Unequal(stored.stored_key), Unequal(stored.server_key), stored.iterations)
    us = ScramServer(SCRAM_SHA_256, {"user": keys}.get, lambda: "server", b"decoy")
    them = ScramClient(SCRAM_SHA_256, "user", password, lambda: "client")
    final = them.step(token_of(us.step(them.first())))
    assert final is not None
    if password == "pencil":
        assert them.step(token_of(us.step(final))) is None
    else:
        with pytest.raises(AuthenticationError):
            us.step(final)


def test_a_stranger_takes_as_much_work_as_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    worked: list[tuple[int, int, str]] = []
    really = hmac.digest

    def counted(key: bytes, message: bytes, digest: str) -> bytes:
        worked.append((len(key), len(message), digest))
        return really(key, message, digest)

    work = {}
    for name in ("user", "none"):  # of one length
        us, them = server(), ScramClient(SCRAM_SHA_256, name, "wrong", lambda: "client")
        with monkeypatch.context() as patched:
            patched.setattr(hmac, "digest", counted)
            challenge = token_of(us.step(them.first()))
        final = them.step(challenge)
        assert final is not None
        with monkeypatch.context() as patched:
            patched.setattr(hmac, "digest", counted)
            with pytest.raises(AuthenticationError):
                us.step(final)
        work[name] = [(key, digest) for key, _, digest in worked]
        worked.clear()
    assert work["user"] == work["none"]
    assert len(work["user"]) == 4
