"""Key stores and trust stores as Kafka's `ssl.*` keys name them: PEM files or text, PKCS12, JKS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from barnabas.model.config import ConfigError, Password
from barnabas.net.jks import MAGIC, JksError, parse_jks

PEM: Final = "PEM"
_PEM_WITHIN: Final = 4096
STORE_TYPES: Final = (PEM, "PKCS12", "JKS")
_PUBLIC: Final = PublicFormat.SubjectPublicKeyInfo


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key and its certificate chain, leaf first. key_pem: PKCS#8, not encrypted."""

    key_pem: bytes = field(repr=False)
    chain: tuple[x509.Certificate, ...]

    @property
    def chain_pem(self) -> bytes:
        """The chain as PEM, leaf first."""
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in self.chain)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where one store is and what opens it. what: `keystore` or `truststore`, for messages and key names."""

    what: str
    type: str
    path: str | None
    password: str | None = field(repr=False)
    key_password: str | None = field(default=None, repr=False)
    inline_certificates: str | None = None
    inline_key: str | None = field(default=None, repr=False)

    @property
    def given(self) -> bool:
        """Whether there is a store at all."""
        return self.path is not None or self.inline_certificates is not None


def key_store_config(config: Mapping[str, object]) -> StoreConfig:
    """Give the key store of a configuration; ConfigError for combinations that Kafka refuses too."""
    store = StoreConfig(
        "keystore",
        (_text(config, "ssl.keystore.type") or "JKS").upper(),
        _text(config, "ssl.keystore.location"),
        _text(config, "ssl.keystore.password"),
        _text(config, "ssl.key.password"),
        _text(config, "ssl.keystore.certificate.chain"),
        _text(config, "ssl.keystore.key"),
    )
    if (store.inline_key is None) != (store.inline_certificates is None):
        raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain only work together: set both")
    _check(store, "ssl.keystore.key")
    if store.path is not None and store.password is None and store.type != PEM:
        raise ConfigError(
            f"ssl.keystore.location={store.path}: ssl.keystore.password is missing; "
            "a PEM file needs none, but ssl.keystore.type=PEM"
        )
    return store


def trust_store_config(config: Mapping[str, object]) -> StoreConfig:
    """Give the trust store of a configuration; ConfigError for combinations that Kafka refuses too."""
    store = StoreConfig(
        "truststore",
        (_text(config, "ssl.truststore.type") or "JKS").upper(),
        _text(config, "ssl.truststore.location"),
        _text(config, "ssl.truststore.password"),
        inline_certificates=_text(config, "ssl.truststore.certificates"),
    )
    _check(store, "ssl.truststore.certificates")
    return store


def load_key(store: StoreConfig) -> KeyEntry:
    """Give the key and chain that the store holds; ConfigError says what is wrong with it."""
    try:
        if store.inline_key is not None:
            return _pem_entry(store.inline_key, store.inline_certificates or "", store.key_password)
        data = _read(store)
        if store.type == PEM:
            text = data.decode("utf-8", "replace")
            return _pem_entry(text, text, store.key_password)
        if data[:4] == MAGIC:
            return _jks_entry(data, store)
        return _pkcs12_entry(data, store)
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        raise ConfigError(f"{_where(store)}: {e}") from None


def load_trusted(store: StoreConfig) -> tuple[x509.Certificate, ...]:
    """Give the certificates that the store trusts, at least one; ConfigError says what is wrong with it."""
    try:
        trusted = _trusted(store)
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        raise ConfigError(f"{_where(store)}: {e}") from None
    if not trusted:
        raise ConfigError(f"{_where(store)}: no trusted certificate in it")
    return trusted


def _trusted(store: StoreConfig) -> tuple[x509.Certificate, ...]:
    if store.inline_certificates is not None:
        return _pem_certificates(store.inline_certificates)
    data = _read(store)
    if store.type == PEM:
        return _pem_certificates(data.decode("utf-8", "replace"))
    if data[:4] == MAGIC:
        return tuple(x509.load_der_x509_certificate(der) for der in parse_jks(data, store.password).trusted)
    bundle = pkcs12.load_pkcs12(data, None if store.password is None else store.password.encode())
    return tuple(entry.certificate for entry in bundle.additional_certs)


def _check(store: StoreConfig, inline_name: str) -> None:
    prefix = f"ssl.{store.what}"
    if store.type not in STORE_TYPES:
        raise ConfigError(f"{prefix}.type={store.type}: want one of {', '.join(STORE_TYPES)}")
    if store.inline_certificates is not None:
        if store.type != PEM:
            raise ConfigError(f"{inline_name} needs {prefix}.type=PEM, which is {store.type}")
        if store.path is not None:
            raise ConfigError(f"{inline_name} and {prefix}.location exclude each other: set one")
    if store.password is not None and store.type == PEM:
        raise ConfigError(f"{prefix}.password is not used with {prefix}.type=PEM: remove it (a key has its own)")
    if store.password is not None and not store.given:
        raise ConfigError(f"{prefix}.password is set but {prefix}.location is missing")


def _read(store: StoreConfig) -> bytes:
    if store.path is None:
        raise ConfigError(f"ssl.{store.what}.location is missing")
    try:
        data = Path(store.path).read_bytes()
    except OSError as e:
        raise ConfigError(f"{_where(store)}: {e.strerror}") from None
    if store.type != PEM and b"-----BEGIN " in data[:_PEM_WITHIN]:
        raise ConfigError(f"{_where(store)}: this is a PEM file, set ssl.{store.what}.type=PEM")
    return data


def _where(store: StoreConfig) -> str:
    if store.path is None:
        return f"ssl.{store.what}.* (inline PEM)"
    return f"ssl.{store.what}.location={store.path} ({store.type})"


_PEM_BLOCK: Final = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----\s*.*?-----END (?P=label)-----", re.DOTALL)


def _blocks(text: str, label_end: str) -> list[str]:
    return [match[0] for match in _PEM_BLOCK.finditer(text) if match["label"].endswith(label_end)]


def _pem_certificates(text: str) -> tuple[x509.Certificate, ...]:
    blocks = _blocks(text, "CERTIFICATE")
    if not blocks:
        raise ValueError("no CERTIFICATE in the PEM text")
    return tuple(x509.load_pem_x509_certificate(block.encode()) for block in blocks)


def _pem_entry(key_text: str, chain_text: str, password: str | None) -> KeyEntry:
    keys = _blocks(key_text, "PRIVATE KEY")
    if len(keys) != 1:
        raise ValueError(f"want one PRIVATE KEY in the PEM text, found {len(keys)}")
    encrypted = "ENCRYPTED" in keys[0]
    if encrypted and password is None:
        raise ValueError("the private key is encrypted: set ssl.key.password")
    secret = password.encode() if encrypted and password is not None else None
    return _entry(load_pem_private_key(keys[0].encode(), secret), _pem_certificates(chain_text))


def _jks_entry(data: bytes, store: StoreConfig) -> KeyEntry:
    keys = parse_jks(data, store.password).keys
    if not keys:
        raise JksError("no private key in it")
    password = store.key_password if store.key_password is not None else store.password or ""
    chain = tuple(x509.load_der_x509_certificate(der) for der in keys[0].chain)
    return _entry(load_der_private_key(keys[0].open(password), None), chain)


def _pkcs12_entry(data: bytes, store: StoreConfig) -> KeyEntry:
    bundle = pkcs12.load_pkcs12(data, (store.password or "").encode())
    if bundle.key is None or bundle.cert is None:
        raise ValueError("no private key in it")
    others = [entry.certificate for entry in bundle.additional_certs]
    return _entry(bundle.key, tuple(_chain(bundle.cert.certificate, others)))


def _chain(leaf: x509.Certificate, others: Iterable[x509.Certificate]) -> list[x509.Certificate]:
    chain, rest = [leaf], list(others)
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in rest if one.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        rest.remove(issuer)
        chain.append(issuer)
    return chain


def _entry(key: PrivateKeyTypes, chain: tuple[x509.Certificate, ...]) -> KeyEntry:
    if not chain:
        raise ValueError("the private key has no certificate")
    mine = chain[0].public_key().public_bytes(Encoding.DER, _PUBLIC)
    if key.public_key().public_bytes(Encoding.DER, _PUBLIC) != mine:
        raise ValueError("the first certificate does not belong to the private key")
    return KeyEntry(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), chain)


def _text(config: Mapping[str, object], key: str) -> str | None:
    value = config.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{key}: want text, not {type(value).__name__}")
    return (value.secret if isinstance(value, Password) else value) or None
