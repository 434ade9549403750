"""What the claims of a token must say before anybody believes them (RFC 7519), and tokens that nobody signed.

Signatures are checked elsewhere. Times in claims are seconds since the epoch, everywhere else ms.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.core.sasl.mechanisms.oauthbearer import BearerToken, InvalidTokenError

MAX_TOKEN_CHARACTERS: Final = 1 << 16
"""The longest token that is looked into."""
_LAST_SECOND: Final = 1 << 42


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What is expected. audiences: one of them, where any is named; issuer: exactly this one, any when None.

    required_scope: words that the scope must have. Without an audience to expect, a token that has one is for somebody
    else, as Kafka sees it, unless any_audience.
    """

    audiences: Sequence[str] = ()
    issuer: str | None = None
    clock_skew_ms: int = 30_000
    sub_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: Sequence[str] = ()
    issued_at_required: bool = True
    any_audience: bool = False


def parts_of(token: str) -> tuple[str, str, str]:
    """Give header, payload and signature of a compact token, encoded; InvalidTokenError when it is none."""
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise InvalidTokenError(f"it has {len(token)} characters, more than {MAX_TOKEN_CHARACTERS}")
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise InvalidTokenError(f"it has {len(parts)} parts; want header, payload and signature")
    return parts[0], parts[1], parts[2]


def json_of(part: str) -> Mapping[str, Any]:
    """Give the JSON object in a part; InvalidTokenError when there is none."""
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise InvalidTokenError("a part of it is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise InvalidTokenError("a part of it is not a JSON object")
    return found


def unsecured(token: str) -> Mapping[str, Any]:
    """Give the claims of a token with `alg` none, which anybody can make; InvalidTokenError when it is signed."""
    header, payload, signature = parts_of(token)
    if json_of(header).get("alg") != "none" or signature:
        raise InvalidTokenError("it is signed, and only unsecured tokens are taken here")
    return json_of(payload)


def check(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> BearerToken:
    """Give whom the claims name, InvalidTokenError when they are not to be believed, now or by us."""
    expiry_ms = _times(claims, rules, now_ms)
    issuer = claims.get("iss")
    if rules.issuer is not None and issuer != rules.issuer:
        raise InvalidTokenError(f"its issuer is {issuer!r:.200}, not {rules.issuer!r}")
    if not rules.any_audience:
        _check_audience(claims.get("aud"), rules.audiences)
    scope = _scope(claims, rules.scope_claim)
    if missing := set(rules.required_scope) - scope:
        raise InvalidTokenError(f"its scope lacks {', '.join(sorted(missing))}", scope=" ".join(rules.required_scope))
    subject = claims.get(rules.sub_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidTokenError(f"its claim {rules.sub_claim} names nobody")
    return BearerToken(subject.strip(), expiry_ms, claims)


def _times(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> int:
    expires = _time(claims, "exp")
    issued, not_before = _time(claims, "iat"), _time(claims, "nbf")
    if expires is None:
        raise InvalidTokenError("it has no exp: it would be good for ever")
    if issued is None and rules.issued_at_required:
        raise InvalidTokenError("it has no iat")
    if now_ms - rules.clock_skew_ms >= expires:
        raise InvalidTokenError(f"it ended {now_ms - expires} ms ago")
    if not_before is not None and now_ms + rules.clock_skew_ms < not_before:
        raise InvalidTokenError(f"it is not good before {not_before - now_ms} ms from now")
    if any(begin is not None and begin > expires for begin in (issued, not_before)):
        raise InvalidTokenError("it ends before it begins")
    return expires


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LAST_SECOND:
        raise InvalidTokenError(f"its {name} is no time")
    return int(value * 1000)


def _check_audience(audience: Any, expected: Sequence[str]) -> None:
    if audience is None and not expected:
        return
    found = [audience] if isinstance(audience, str) else audience
    if not isinstance(found, list) or not set(expected) & {a for a in found if isinstance(a, str)}:
        raise InvalidTokenError(f"its audience is {audience!r:.200}; want one of {list(expected)}")


def _scope(claims: Mapping[str, Any], name: str) -> set[str]:
    value = claims.get(name)
    words = value.split() if isinstance(value, str) else value
    if words is None:
        return set()
    if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
        raise InvalidTokenError(f"its {name} is no list of words")
    return set(words)
