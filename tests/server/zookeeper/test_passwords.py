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
def test_another_secret_reads_nothing_and_shows_nothing(cipher: str) -> None:
    text = encoder(cipher=cipher).encoded("xyzzy")
    for other in (encoder("another"), encoder(None)):
        with pytest.raises(ValueError, match=r"password\.encoder\.secret") as refused:
            other.decoded(text)
        assert "xyzzy" not in str(refused.value)
    with pytest.raises(ValueError, match=r"password\.encoder\.secret"):
        encoder(None).encoded("xyzzy")
    with pytest.raises(ValueError, match=r"password\.encoder\.secret"):
        encoder().decoded("plain text")
