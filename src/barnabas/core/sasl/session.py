"""How long an authenticated session may be used, and when a client renews it (KIP-368)."""

from __future__ import annotations

from typing import Final

EARLIEST_RENEWAL: Final = 0.85
"""The part of a session's life after which a client may renew it."""
RENEWAL_WINDOW: Final = 0.10
"""The part of its life within which clients whose sessions began together renew them one after the other."""
LEAST_INTERVAL_MS: Final = 1000
"""How long after a renewal began a server refuses the next one."""


def session_lifetime_ms(now_ms: int, credential_expiry_ms: int | None, max_reauth_ms: int) -> int | None:
    """Give how long a session that begins now may be used, None for without end: the sooner of the two limits.

    now_ms, credential_expiry_ms: wall clock, ms since the epoch; max_reauth_ms: a duration, <= 0 is off, and then a
    credential's end does not end a session either. Returns ms; 0 or less where the credential is past. KIP-368.
    """
    if max_reauth_ms <= 0:
        return None
    if credential_expiry_ms is None:
        return max_reauth_ms
    return min(credential_expiry_ms - now_ms, max_reauth_ms)


def renewal_after_ms(lifetime_ms: int, chance: float) -> float | None:
    """Give how long after its login a client renews a session, None for never.

    lifetime_ms: as the server told it, 0 for without end; chance: from 0 to 1, another one each time, so that sessions
    which began together are not renewed together.
    """
    if lifetime_ms <= 0:
        return None
    return lifetime_ms * (EARLIEST_RENEWAL + RENEWAL_WINDOW * chance)
