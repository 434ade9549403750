"""Tokens of OAUTHBEARER with a signature: found good by the issuer's keys and by what they claim (KIP-768)."""

from __future__ import annotations

import json
from typing import Final

from joserfc import jws
from joserfc.errors import JoseError

from barnabas.core.sasl.mechanisms.claims import ClaimRules, check, json_of, parts_of
from barnabas.core.sasl.mechanisms.oauthbearer import BearerToken, InvalidTokenError
from barnabas.model.ports import Clock
from barnabas.server.logins.jwks import Key, KeySource

ALGORITHMS: Final = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP", "Ed25519": "OKP",
}  # fmt: skip
"""The signatures that are believed, and the type of key of each. None that a public key could make, and not `none`."""
# Headers that are not in RFC 7515 stand in the tokens of several issuers; `crit` is obeyed nevertheless.
_REGISTRY: Final = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)


_NESTED: Final = ("jwt", "application/jwt")


class JwtValidator:
    """Gives what a signed token says; InvalidTokenError when it is not good."""

    __slots__ = ("_clock", "_rules", "_source")

    def __init__(self, source: KeySource, rules: ClaimRules, clock: Clock) -> None:
        self._source = source
        self._rules = rules
        self._clock = clock

    def __call__(self, token: str) -> BearerToken:
        """See `core.sasl.mechanisms.oauthbearer.Validate`."""
        header = json_of(parts_of(token)[0])
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise InvalidTokenError(f"its alg is {algorithm!r:.50}; want one of {', '.join(ALGORITHMS)}")
        if str(header.get("cty", "")).lower() in _NESTED:
            raise InvalidTokenError("it holds another token, not claims")
        key_id = header.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            raise InvalidTokenError("its kid is no text")
        payload = self._verified(token, algorithm, key_id)
        try:
            claims = json.loads(payload)
        except (ValueError, RecursionError):
            raise InvalidTokenError("its payload is not JSON") from None
        if not isinstance(claims, dict):
            raise InvalidTokenError("its payload is not a JSON object")
        return check(claims, self._rules, self._clock.now_ms())

    def _verified(self, token: str, algorithm: str, key_id: str | None) -> bytes:
        keys = [key for key in self._source.known() if _fits(key, algorithm, key_id)]
        if not keys:
            if key_id is not None:
                self._source.missed(key_id)
            raise InvalidTokenError(f"no key {key_id!r:.100} for {algorithm} is known")
        for key in keys:
            try:
                found = jws.deserialize_compact(token, key, algorithms=[algorithm], registry=_REGISTRY)
            except (JoseError, ValueError) as e:
                why = str(e)
                continue
            return found.payload
        raise InvalidTokenError(f"its signature is wrong: {why}")


def _fits(key: Key, algorithm: str, key_id: str | None) -> bool:
    if key.key_type != ALGORITHMS[algorithm] or (key_id is not None and key.kid != key_id):
        return False
    described = key.as_dict()
    return described.get("use") in (None, "sig") and described.get("alg") in (None, algorithm)
