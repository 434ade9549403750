"""Passwords in znodes: ours come back, and those that Apache Kafka wrote are read."""

from __future__ import annotations

import pytest

from barnabas.model.config import Password
from barnabas.server.zookeeper.passwords import CBC, GCM, PasswordEncoder


def encoder(secret: str | None = "of the cluster", **more: object) -> PasswordEncoder:
    known = None if secret is None else Password(secret)
    return PasswordEncoder(lambda key: key.endswith("password"), known, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("cipher", [CBC, GCM])
@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("password", ["", "secret", "sixteen letters!", "naïve \N{GRINNING FACE}"])
def test_a_password_comes_back(cipher: str, bits: int, password: str) -> None:
    text = encoder(cipher=cipher, key_bits=bits, key_factory="PBKDF2WithHmacSHA256").encoded(password)
    assert not password or password not in text
    # How it was encrypted is said beside it: settings of now do not matter.
    assert encoder().decoded(text) == password


def test_the_same_password_never_looks_the_same() -> None:
    assert encoder().encoded("secret") != encoder().encoded("secret")


@pytest.mark.parametrize("cipher", [CBC, GCM])
def test_another_secret_reads_nothing_and_keeps_what_is_there(cipher: str) -> None:
    text = encoder(cipher=cipher).encoded("xyzzy")
    for other in (encoder("another"), encoder(None), encoder(None, old_secret=Password("another"))):
        kept = other.decoded(text)
        assert "xyzzy" not in kept
        assert kept != text  # or it could be taken for a password that somebody chose
        assert other.encoded(kept) == text


def test_what_nobody_has_encrypted_is_no_password() -> None:
    kept = encoder().decoded("plain text")
    assert kept != "plain text"
    assert encoder().encoded(kept) == "plain text"


def test_without_a_secret_nothing_is_encrypted() -> None:
    with pytest.raises(ValueError, match=r"password\.encoder\.secret"):
        encoder(None).encoded("xyzzy")


def test_the_old_secret_reads_and_does_not_write() -> None:
    text = encoder("old").encoded("xyzzy")
    both = encoder("new", old_secret=Password("old"))
    assert both.decoded(text) == "xyzzy"
    renewed = both.renewed(text)
    assert renewed != text
    assert encoder("new").decoded(renewed) == "xyzzy"
    assert both.renewed(renewed) == renewed
    assert encoder("new").renewed(text) == text
    assert encoder("third", old_secret=Password("other")).renewed(text) == text
