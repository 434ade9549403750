"""How long a session may last."""

from __future__ import annotations

import pytest

from barnabas.core.sasl.session import session_lifetime_ms


@pytest.mark.parametrize(
    ("now_ms", "expiry_ms", "max_reauth_ms", "lifetime_ms"),
    [
        (1000, None, 0, 0),
        (1000, None, -1, 0),
        (1000, None, 60_000, 60_000),
        (1000, 5000, 0, 4000),
        (1000, 5000, 60_000, 4000),
        (1000, 500_000, 60_000, 60_000),
        (1000, 500, 60_000, 0),
        (1000, 500, 0, 0),
    ],
)
def test_the_sooner_limit_counts(now_ms: int, expiry_ms: int | None, max_reauth_ms: int, lifetime_ms: int) -> None:
    assert session_lifetime_ms(now_ms, expiry_ms, max_reauth_ms) == lifetime_ms
