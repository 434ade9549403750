"""Addresses as Java prints them."""

from __future__ import annotations

import pytest

from barnabas.model.addresses import host_text, is_address


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::00ff:0", "2001:db8:0:0:0:0:ff:0"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("localhost", "localhost"),
        ("", ""),
    ],
)
def test_host_text(host: str, text: str) -> None:
    assert host_text(host) == text


def test_what_is_an_address() -> None:
    assert all(is_address(text) for text in ("10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "fe80::1%eth0"))
    assert not any(is_address(text) for text in ("", "*", "localhost", "10.0.0.0/8", "10.0.0", " ::1"))
