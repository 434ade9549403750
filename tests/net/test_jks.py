"""JKS stores: written by pyjks and by Java's keytool, read by us; and broken ones."""

from __future__ import annotations

import hashlib

import jks
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from barnabas.net.dev_ca import DevCa
from barnabas.net.jks import JksError, parse_jks


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


CA = DevCa.create()
SERVER = CA.issue_server()
KEY = load_pem_private_key(SERVER.key_pem, None).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
CHAIN = (der(SERVER.certificate_pem), der(CA.certificate_pem))


def written(password: str = "store-pass", key_password: str | None = None) -> bytes:
    key = jks.PrivateKeyEntry.new("server", list(CHAIN), KEY, "pkcs8")
    if key_password is not None:
        key.encrypt(key_password)
    trusted = jks.TrustedCertEntry.new("ca", CHAIN[1])
    return bytes(jks.KeyStore.new("jks", [key, trusted]).saves(password))


STORE = written()


def test_keys_chains_and_trusted_certificates_are_read() -> None:
    store = parse_jks(STORE, "store-pass")
    assert [(key.alias, key.chain) for key in store.keys] == [("server", CHAIN)]
    assert store.keys[0].open("store-pass") == KEY
    assert store.trusted == (CHAIN[1],)
    assert KEY.hex() not in repr(store)


def test_a_key_may_have_a_password_of_its_own() -> None:
    (key,) = parse_jks(written(key_password="kéy"), "store-pass").keys
    assert key.open("kéy") == KEY
    with pytest.raises(JksError, match="password of the key 'server'"):
        key.open("store-pass")


def test_a_wrong_store_password_is_found_and_none_is_not_checked() -> None:
    with pytest.raises(JksError, match="password is wrong"):
        parse_jks(STORE, "other")
    assert parse_jks(STORE, None).trusted == (CHAIN[1],)


def test_other_files_are_refused() -> None:
    for data in (b"", b"PK", bytes(100), STORE[:20], b"\xce\xce\xce\xce" + STORE[4:]):
        with pytest.raises(JksError):
            parse_jks(data, None)


@given(st.integers(0, len(STORE) - 1), st.binary(max_size=6))
def test_broken_stores_give_only_jks_errors(at: int, junk: bytes) -> None:
    broken = STORE[:at] + junk + STORE[at + len(junk) :]
    signed = broken[:-20] + hashlib.sha1("x".encode("utf-16-be") + b"Mighty Aphrodite" + broken[:-20]).digest()
    try:
        store = parse_jks(signed, "x")
        for key in store.keys:
            key.open("store-pass")
    except JksError:
        pass
