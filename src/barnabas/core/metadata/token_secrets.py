"""What proves a delegation token: an HMAC of its id under the key that all nodes share (KIP-48).

Its base64 text is the password that a client logs in with by SCRAM; nothing of it is ever stored.
"""

from __future__ import annotations

from base64 import b64encode
from hmac import compare_digest, digest
from typing import Final

from barnabas.core.metadata.tokens import DelegationToken, TokensImage
from barnabas.core.sasl.mechanisms.scram import (
    MIN_ITERATIONS,
    ScramAlgorithm,
    ScramKeys,
    derive_keys,
    salt_password,
)

_SALT_BYTES: Final = 16
_SPARE: Final = 1000
"""How many tokens that are gone may be remembered."""


class TokenSecrets:
    """The HMACs and SCRAM credentials of tokens, worked out when first asked for and kept while the token lives."""

    __slots__ = ("_credentials", "_hmacs", "_ids", "_key")

    def __init__(self, key: str) -> None:
        """key: `delegation.token.secret.key`; not empty."""
        self._key = key.encode()
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, str], ScramKeys] = {}

    def hmac(self, token_id: str) -> bytes:
        """Give the HMAC of a token's id, HmacSHA512."""
        found = self._hmacs.get(token_id)
        if found is None:
            found = self._hmacs[token_id] = digest(self._key, token_id.encode(), "sha512")
            self._ids[found] = token_id
        return found

    def find(self, image: TokensImage, hmac: bytes) -> DelegationToken | None:
        """Give the token with that HMAC; None when there is none."""
        self._forget(image)
        token_id = self._ids.get(hmac)
        if token_id is None:
            for known in image.by_id:
                self.hmac(known)
            token_id = self._ids.get(hmac)
        if token_id is None or not compare_digest(self.hmac(token_id), hmac):
            return None
        return image.by_id.get(token_id)

    def credential(self, algorithm: ScramAlgorithm, image: TokensImage, token_id: str) -> ScramKeys | None:
        """Give what a login by the token is checked against; None when there is no such token."""
        if token_id not in image.by_id:
            return None
        self._forget(image)
        found = self._credentials.get((algorithm.name, token_id))
        if found is None:
            hmac = self.hmac(token_id)
            salt = digest(self._key, b"salt\0" + hmac, "sha256")[:_SALT_BYTES]
            salted = salt_password(algorithm, b64encode(hmac).decode(), salt, MIN_ITERATIONS)
            found = self._credentials[algorithm.name, token_id] = derive_keys(algorithm, salted, salt, MIN_ITERATIONS)
        return found

    def _forget(self, image: TokensImage) -> None:
        if len(self._hmacs) > len(image.by_id) + _SPARE:
            self._hmacs = {i: h for i, h in self._hmacs.items() if i in image.by_id}
            self._ids = {h: i for i, h in self._hmacs.items()}
            self._credentials = {k: c for k, c in self._credentials.items() if k[1] in image.by_id}
