"""How long an authenticated session may be used (KIP-368)."""

from __future__ import annotations


def session_lifetime_ms(now_ms: int, credential_expiry_ms: int | None, max_reauth_ms: int) -> int:
    """Give the time the client may use this session: the sooner of the two limits.

    now_ms, credential_expiry_ms: wall clock, ms since the epoch; max_reauth_ms: a duration, <= 0 is off.
    Returns ms, never negative. 0 has two meanings on the wire, and we keep Kafka's: no limit is set, or
    the credential is already past and the session ends at once. Raises nothing. KIP-368.
    """
    limits = []
    if credential_expiry_ms is not None:
        limits.append(credential_expiry_ms - now_ms)
    if max_reauth_ms > 0:
        limits.append(max_reauth_ms)
    return max(0, min(limits, default=0))
