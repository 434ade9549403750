"""Keys and signatures by Java's names, as `inter.worker.*` has them: HmacSHA256 and its kin (KIP-507, C-07).

Java finds an algorithm whatever the case of its name; what is compared, as by membership in
`inter.worker.verification.algorithms`, is the name as it was written.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple


class _Row(NamedTuple):
    """digest: hashlib's name; default_bytes, least_bits: of a key, as the JDK's generators have it."""

    digest: str
    default_bytes: int
    least_bits: int


_ROWS: Final = {
    "HmacMD5": _Row("md5", 64, 1),
    "HmacSHA1": _Row("sha1", 64, 1),
    "HmacSHA224": _Row("sha224", 28, 40),
    "HmacSHA256": _Row("sha256", 32, 40),
    "HmacSHA384": _Row("sha384", 48, 40),
    "HmacSHA512": _Row("sha512", 64, 40),
    "HmacSHA512/224": _Row("sha512_224", 28, 40),
    "HmacSHA512/256": _Row("sha512_256", 32, 40),
    "HmacSHA3-224": _Row("sha3_224", 28, 40),
    "HmacSHA3-256": _Row("sha3_256", 32, 40),
    "HmacSHA3-384": _Row("sha3_384", 48, 40),
    "HmacSHA3-512": _Row("sha3_512", 64, 40),
}


class UnknownAlgorithmError(ValueError):
    """An algorithm that this worker cannot use; the text names it."""


class KeySizeError(ValueError):
    """A size that keys of an algorithm cannot have; the text says which they can."""


def usable() -> tuple[str, ...]:
    """Give the names of all algorithms that this machine's libraries offer."""
    return tuple(name for name, row in _ROWS.items() if _offered(row))


def mac(algorithm: str, key: bytes, body: bytes) -> bytes:
    """Give the signature of a body; UnknownAlgorithmError when there is no such algorithm."""
    return hmac.digest(key, body, _row(algorithm).digest)


def known(algorithm: str) -> str:
    """Give an algorithm's name as it is usually written; UnknownAlgorithmError when there is none such."""
    row = _row(algorithm)
    return next(name for name in _ROWS if _ROWS[name] is row)


def key_bytes(algorithm: str, size_bits: int | None) -> int:
    """Give how many bytes a key has.

    size_bits: None for the algorithm's own default. UnknownAlgorithmError; KeySizeError when keys cannot be so small.
    """
    row = _row(algorithm)
    if size_bits is None:
        return row.default_bytes
    if size_bits < row.least_bits:
        raise KeySizeError(f"keys of {algorithm} have at least {row.least_bits} bits")
    return (size_bits + 7) // 8


def _row(algorithm: str) -> _Row:
    for name, row in _ROWS.items():
        if name.lower() == algorithm.lower() and _offered(row):
            return row
    raise UnknownAlgorithmError(f"Algorithm {algorithm} not available")


def _offered(row: _Row) -> bool:
    return row.digest in hashlib.algorithms_available
