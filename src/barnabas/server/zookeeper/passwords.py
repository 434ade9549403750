"""Passwords in the configs of brokers as they stand in ZooKeeper: encrypted by `password.encoder.secret` (KIP-226).

What was encrypted says how, so that settings may change while old values stay readable by the same secret. What cannot
be read is kept as it stands, for the broker that can: a controller writes it back when it changes another config.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7

from barnabas.model.config import Password

log = structlog.get_logger("kafka.server.configs")

DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
CBC: Final = "AES/CBC/PKCS5Padding"
GCM: Final = "AES/GCM/NoPadding"
_FACTORIES: Final[dict[str, Callable[[], hashes.HashAlgorithm]]] = {
    "PBKDF2WithHmacSHA1": hashes.SHA1,
    "PBKDF2WithHmacSHA256": hashes.SHA256,
    "PBKDF2WithHmacSHA384": hashes.SHA384,
    "PBKDF2WithHmacSHA512": hashes.SHA512,
}
_BLOCK_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_SALT_BYTES: Final = 256
_TAG_BITS: Final = 128
_UNREADABLE: Final = "\0"
"""Before what could not be read, and is nobody's password here."""


@dataclass(frozen=True)
class PasswordEncoder:
    """`configs.Passwords` of a cluster: which configs are passwords, and how they stand in znodes.

    secret: None when `password.encoder.secret` is not set: then no password can be written or read; old_secret: reads
    what `secret` does not, never writes. key_bits: of AES.
    """

    is_password_key: Callable[[str], bool]
    secret: Password | None
    key_factory: str = DEFAULT_KEY_FACTORY
    cipher: str = CBC
    key_bits: int = 128
    iterations: int = 4096
    old_secret: Password | None = None

    def is_password(self, key: str) -> bool:
        """Say whether the value of a config is to be encrypted."""
        return self.is_password_key(key)

    def encoded(self, value: str) -> str:
        """Give what stands in the znode; ValueError when there is no secret."""
        if value.startswith(_UNREADABLE):
            return value.removeprefix(_UNREADABLE)
        if self.secret is None:
            raise ValueError("a password can be kept in ZooKeeper only where password.encoder.secret is set")
        salt = os.urandom(_SALT_BYTES)
        key = _key(self.secret, self.key_factory, salt, self.iterations, self.key_bits)
        fields = {
            "cipherAlgorithm": self.cipher,
            "keyFactoryAlgorithm": self.key_factory,
            "keyLength": str(self.key_bits),
            "salt": b64encode(salt).decode(),
            "iterations": str(self.iterations),
            "passwordLength": str(_java_length(value)),
        }
        if self.cipher == GCM:
            nonce = os.urandom(_NONCE_BYTES)
            sealed = AESGCM(key).encrypt(nonce, value.encode(), None)
            fields["authenticationTagLength"] = str(_TAG_BITS)
        else:
            nonce = os.urandom(_BLOCK_BYTES)
            padder = PKCS7(_BLOCK_BYTES * 8).padder()
            encryptor = Cipher(algorithms.AES(key), modes.CBC(nonce)).encryptor()
            sealed = encryptor.update(padder.update(value.encode()) + padder.finalize()) + encryptor.finalize()
        fields |= {"initializationVector": b64encode(nonce).decode(), "encryptedPassword": b64encode(sealed).decode()}
        return ",".join(f"{name}:{text}" for name, text in fields.items())

    def decoded(self, text: str) -> str:
        """Give the password; where none of the secrets made it, what `encoded` turns into the same text again."""
        for secret in (self.secret, self.old_secret):
            if secret is not None and (password := opened(text, secret)) is not None:
                return password
        why = "password.encoder.secret is not set" if self.secret is None else "another password.encoder.secret made it"
        log.error("a password among the configs of brokers cannot be read, and counts for nothing here", why=why)
        return _UNREADABLE + text

    def renewed(self, text: str) -> str:
        """Give what is to stand in the znode instead: the same, unless the old secret alone reads it."""
        if self.old_secret is None or (self.secret is not None and opened(text, self.secret) is not None):
            return text
        password = opened(text, self.old_secret)
        return text if password is None else self.encoded(password)


def opened(text: str, secret: Password) -> str | None:
    """Give the password that stands there; None when another secret made it, or none."""
    try:
        fields = {name.strip(): value.strip() for name, _, value in (f.rpartition(":") for f in text.split(","))}
        return _opened(fields, secret)
    except (KeyError, ValueError, InvalidTag):
        return None


def _opened(fields: dict[str, str], secret: Password) -> str:
    salt, nonce = b64decode(fields["salt"]), b64decode(fields["initializationVector"])
    sealed = b64decode(fields["encryptedPassword"])
    key = _key(secret, fields["keyFactoryAlgorithm"], salt, int(fields["iterations"]), int(fields["keyLength"]))
    if fields["cipherAlgorithm"] == GCM:
        plain = AESGCM(key).decrypt(nonce, sealed, None)
    elif fields["cipherAlgorithm"] == CBC:
        decryptor = Cipher(algorithms.AES(key), modes.CBC(nonce)).decryptor()
        unpadder = PKCS7(_BLOCK_BYTES * 8).unpadder()
        plain = unpadder.update(decryptor.update(sealed) + decryptor.finalize()) + unpadder.finalize()
    else:
        raise ValueError(fields["cipherAlgorithm"])
    value = plain.decode()
    if _java_length(value) != int(fields["passwordLength"]):
        raise ValueError("length")
    return value


def _key(secret: Password, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
    derived = PBKDF2HMAC(_FACTORIES[factory](), length=bits // 8, salt=salt, iterations=iterations)
    return derived.derive(secret.secret.encode())


def _java_length(value: str) -> int:
    return len(value.encode("utf-16-le")) // 2
