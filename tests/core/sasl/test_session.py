"""How long a session may last, and when a client renews it."""

from __future__ import annotations

import pytest

from barnabas.core.sasl.session import renewal_after_ms, session_lifetime_ms


@pytest.mark.parametrize(
    ("now_ms", "expiry_ms", "max_reauth_ms", "lifetime_ms"),
    [
        (1000, None, 0, None),
        (1000, None, -1, None),
        (1000, None, 60_000, 60_000),
        (1000, 5000, 0, None),
        (1000, 5000, 60_000, 4000),
        (1000, 500_000, 60_000, 60_000),
        (1000, 500, 60_000, -500),
        (1000, 500, 0, None),
    ],
)
def test_the_sooner_limit_counts(
    now_ms: int, expiry_ms: int | None, max_reauth_ms: int, lifetime_ms: int | None
) -> None:
    assert session_lifetime_ms(now_ms, expiry_ms, max_reauth_ms) == lifetime_ms


@pytest.mark.parametrize(
    ("lifetime_ms", "chance", "after_ms"),
    [(0, 0.5, None), (100_000, 0.0, 85_000), (100_000, 0.5, 90_000), (100_000, 1.0, 95_000), (10, 0.0, 8.5)],
)
def test_a_session_is_renewed_late_in_its_life(lifetime_ms: int, chance: float, after_ms: float | None) -> None:
    assert renewal_after_ms(lifetime_ms, chance) == after_ms
