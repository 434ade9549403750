"""Signatures by Java's names, against published vectors, and how long keys are."""

from __future__ import annotations

import pytest

from barnabas.core.connect.algorithms import KeySizeError, UnknownAlgorithmError, key_bytes, known, mac, usable


@pytest.mark.requirement("C-07")
@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [  # RFC 2202 and 4231, test case 2
        ("HmacMD5", "750c783e6ab0b503eaa86e310a5db738"),
        ("HmacSHA1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        ("HmacSHA224", "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44"),
        ("HmacSHA256", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    ],
)
def test_a_signature_is_the_published_one(algorithm: str, expected: str) -> None:
    assert mac(algorithm, b"Jefe", b"what do ya want for nothing?").hex() == expected


def test_names_are_found_in_any_case_and_others_are_not() -> None:
    assert known("hmacsha256") == "HmacSHA256"
    assert {"HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512"} <= set(usable())
    for name in ("HmacSHA489", "SHA256", ""):
        with pytest.raises(UnknownAlgorithmError, match=f"Algorithm {name} not available"):
            mac(name, b"k", b"")


def test_a_key_is_as_long_as_its_algorithm_has_it_or_as_asked() -> None:
    assert key_bytes("HmacSHA256", None) == 32
    assert key_bytes("HmacSHA256", 129) == 17
    with pytest.raises(KeySizeError, match="HmacSHA256 have at least 40 bits"):
        key_bytes("HmacSHA256", 8)
