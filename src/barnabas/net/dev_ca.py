"""A certificate authority of one's own, for development nodes and tests. Keys are written with mode 0600."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_CA_DAYS: Final = 3650
_LEAF_DAYS: Final = 825
_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key, both PEM; `store` is both in one text, a Kafka PEM key store."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    ca_pem: bytes

    @property
    def store(self) -> bytes:
        """Key, certificate and the authority's certificate."""
        return self.key_pem + self.certificate_pem + self.ca_pem


class DevCa:
    """An authority that signs certificates for servers and clients."""

    __slots__ = ("_certificate", "_key")

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str = "Barnabas development CA") -> DevCa:
        """Make a new authority with a fresh key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _dated(_CA_DAYS)
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def load(cls, key_file: Path, certificate_file: Path) -> DevCa:
        """Give the authority that `save` wrote; ValueError when the key is of another kind."""
        key = load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key_file}: want an elliptic-curve key")
        return cls(key, x509.load_pem_x509_certificate(certificate_file.read_bytes()))

    def save(self, key_file: Path, certificate_file: Path) -> None:
        """Write the authority's key and certificate as PEM."""
        write_private(key_file, _key_pem(self._key))
        write_private(certificate_file, self.certificate_pem)

    @property
    def certificate_pem(self) -> bytes:
        """What those who trust this authority need."""
        return self._certificate.public_bytes(Encoding.PEM)

    def issue_server(self, hosts: Sequence[str] = LOOPBACK_HOSTS, name: str = "localhost") -> Issued:
        """Make a certificate for a server that is reached under these names and addresses.

        It serves towards other nodes as a client's as well, as brokers need it.
        """
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), usages, hosts)

    def issue_client(self, name: str | x509.Name) -> Issued:
        """Make a certificate for a client; as text, `name` is its common name."""
        if isinstance(name, str):
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(name, [ExtendedKeyUsageOID.CLIENT_AUTH], ())

    def _issue(self, subject: x509.Name, usages: list[x509.ObjectIdentifier], hosts: Sequence[str]) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _dated(_LEAF_DAYS)
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, SHA256())
        return Issued(certificate.public_bytes(Encoding.PEM), _key_pem(key), self.certificate_pem)


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read, all of it or nothing."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)


def _dated(days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
