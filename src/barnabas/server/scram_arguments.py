"""The SCRAM users of a format command: `SCRAM-SHA-512=[name=alice,password=secret]` to a metadata record (KIP-900)."""

from __future__ import annotations

import secrets
from base64 import b64decode

from barnabas.core.replicated import VersionedRecord
from barnabas.core.sasl.mechanisms.scram import (
    ALGORITHMS,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramAlgorithm,
    derive_keys,
    salt_password,
)
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord


def parse_scram_argument(argument: str) -> VersionedRecord:
    """Give the record of one argument; ValueError says what is wrong with it.

    Keys: name, and password, or saltedpassword (base64) with salt; salt (base64) and iterations as wanted.
    """
    mechanism, equals, rest = argument.strip().partition("=")
    if not equals:
        raise ValueError(f"{argument.strip()!r} is not MECHANISM=[...]")
    algorithm = ALGORITHMS.get(mechanism)
    if algorithm is None:
        raise ValueError(f"{mechanism} is not a SCRAM mechanism: want {' or '.join(ALGORITHMS)}")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise ValueError(f"what follows {mechanism}= stands in brackets: {mechanism}=[name=...,password=...]")
    parts = dict(_component(part) for part in rest[1:-1].split(","))
    name = parts.pop("name", None)
    if name is None:
        raise ValueError("--add-scram lacks a name")
    iterations = _iterations(parts.pop("iterations", None), algorithm)
    given_salt = parts.pop("salt", None)
    salt = _new_salt() if given_salt is None else _base64("salt", given_salt)
    salted = _salted_password(algorithm, parts, salt, iterations, salt_given=given_salt is not None)
    if parts:
        raise ValueError(f"--add-scram does not know {', '.join(sorted(parts))}")
    keys = derive_keys(algorithm, salted, salt, iterations)
    record = UserScramCredentialRecord(
        name=name,
        mechanism=algorithm.code,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )
    return VersionedRecord(record, 0)


def _component(part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise ValueError("a part of --add-scram is not key=value")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return key, value


def _iterations(text: str | None, algorithm: ScramAlgorithm) -> int:
    if text is None:
        return MIN_ITERATIONS
    if not text.isdecimal():
        raise ValueError(f"iterations={text} is not a number")
    iterations = int(text)
    if iterations < MIN_ITERATIONS:
        raise ValueError(f"iterations={iterations} is too few for {algorithm.name}: want {MIN_ITERATIONS} or more")
    if iterations > MAX_ITERATIONS:
        raise ValueError(f"iterations={iterations} is too many for {algorithm.name}: want {MAX_ITERATIONS} or less")
    return iterations


def _salted_password(
    algorithm: ScramAlgorithm, parts: dict[str, str], salt: bytes, iterations: int, *, salt_given: bool
) -> bytes:
    password = parts.pop("password", None)
    salted = parts.pop("saltedpassword", None)
    if password is not None:
        return salt_password(algorithm, password, salt, iterations)
    if salted is None:
        raise ValueError("--add-scram lacks a password, or a saltedpassword")
    if not salt_given:
        raise ValueError("a saltedpassword needs the salt that it was made with")
    return _base64("saltedPassword", salted)


def _base64(what: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"the {what} is not base64") from None  # the text may be a secret


def _new_salt() -> bytes:
    # Printable, as Kafka's own tools make them.
    return secrets.token_hex(13).encode()
