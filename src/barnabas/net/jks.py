"""Java's own key store format (JKS): read private keys with their chains, and trusted certificates.

The layout is big-endian: magic, version, entry count, entries, then a SHA-1 over password and contents. Private
keys are hidden by Sun's own scheme: a SHA-1 key stream, salted, with a SHA-1 checksum. Both are weak; JKS is read
because it is what many Kafka installations have. New stores should be PEM or PKCS12.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final

from barnabas.net.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, dotted, elements, one

MAGIC: Final = b"\xfe\xed\xfe\xed"
_SUN_KEY_PROTECTOR: Final = "1.3.6.1.4.1.42.2.17.1.1"
_DIGEST_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"


class JksError(ValueError):
    """The bytes are no JKS store, or the password does not fit."""


@dataclass(frozen=True, slots=True)
class JksKey:
    """A private key that is still protected. chain: DER certificates, the key's own first."""

    alias: str
    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...]

    def open(self, password: str) -> bytes:
        """Give the key as PKCS#8 DER; JksError when the password is another one."""
        try:
            algorithm, wrapped = _encrypted_key(self.protected)
        except ValueError as e:
            raise JksError(f"the key {self.alias!r} is malformed: {e}") from None
        if algorithm != _SUN_KEY_PROTECTOR:
            raise JksError(f"the key {self.alias!r} is protected by {algorithm}, which is not JKS's own scheme")
        return _uncover(wrapped, password, self.alias)


@dataclass(frozen=True, slots=True)
class JksStore:
    """What a JKS file holds."""

    keys: tuple[JksKey, ...]
    trusted: tuple[bytes, ...]


def parse_jks(data: bytes, password: str | None) -> JksStore:
    """Give what the store holds; without a password its integrity is not checked, as Java does for trust stores."""
    if data[:4] != MAGIC:
        raise JksError("not a JKS file")
    if len(data) < 12 + _DIGEST_BYTES:
        raise JksError("the file is cut off")
    contents, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None and not hmac.compare_digest(digest, _store_digest(contents, password)):
        raise JksError("the password is wrong, or the file was changed")
    reader = _Reader(contents, 4)
    version, count = reader.int32(), reader.int32()
    if version not in (1, 2):
        raise JksError(f"version {version} is unknown")
    keys: list[JksKey] = []
    trusted: list[bytes] = []
    for _ in range(count):
        tag, alias = reader.int32(), reader.text()
        reader.take(8)
        if tag == 1:
            protected = reader.blob()
            chain = tuple(reader.certificate(version) for _ in range(reader.int32()))
            keys.append(JksKey(alias, protected, chain))
        elif tag == 2:
            trusted.append(reader.certificate(version))
        else:
            raise JksError(f"entry {alias!r} has the unknown tag {tag}")
    return JksStore(tuple(keys), tuple(trusted))


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if size < 0 or len(piece) != size:
            raise JksError("the file is cut off")
        self._at += size
        return piece

    def int32(self) -> int:
        value: int = struct.unpack(">i", self.take(4))[0]
        return value

    def text(self) -> str:
        # Java's modified UTF-8 differs from UTF-8 in NUL and in characters past the BMP; an alias is only shown.
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "replace")

    def blob(self) -> bytes:
        return self.take(self.int32())

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise JksError(f"certificates of the type {kind!r} are not read")
        return self.blob()


def _store_digest(contents: bytes, password: str) -> bytes:
    return hashlib.sha1(password.encode("utf-16-be") + _WHITENER + contents).digest()


def _encrypted_key(der: bytes) -> tuple[str, bytes]:
    (algorithm_tag, algorithm, _), (data_tag, data, _) = elements(one(der, SEQUENCE))
    oid_tag, oid, _ = next(elements(algorithm))
    if (algorithm_tag, oid_tag, data_tag) != (SEQUENCE, OBJECT_IDENTIFIER, OCTET_STRING):
        raise ValueError("not an EncryptedPrivateKeyInfo")
    return dotted(oid), data


def _uncover(wrapped: bytes, password: str, alias: str) -> bytes:
    secret = password.encode("utf-16-be")
    if len(wrapped) < 2 * _DIGEST_BYTES:
        raise JksError(f"the key {alias!r} is cut off")
    block, covered = wrapped[:_DIGEST_BYTES], wrapped[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream = bytearray()
    while len(stream) < len(covered):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(covered, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), wrapped[-_DIGEST_BYTES:]):
        raise JksError(f"the password of the key {alias!r} is wrong")
    return key
