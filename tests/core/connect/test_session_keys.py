"""When a leader makes a new session key."""

from __future__ import annotations

import pytest

from barnabas.core.connect.session_keys import KeySettings, Renewal, SessionKey, renewal

HOUR_MS = 3_600_000
SETTINGS = KeySettings("HmacSHA256", 32, HOUR_MS)
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1_000)


@pytest.mark.requirement("C-11", "C-13", "C-14")
def test_a_key_is_inherited_with_its_age_and_replaced_when_its_time_is_over() -> None:
    assert renewal(None, SETTINGS, 0).due
    assert renewal(KEY, SETTINGS, 1_000) == Renewal(False, 1_000 + HOUR_MS)
    assert renewal(KEY, SETTINGS, 999 + HOUR_MS) == Renewal(False, 1_000 + HOUR_MS)
    assert renewal(KEY, SETTINGS, 1_000 + HOUR_MS).due
    assert renewal(KEY, SETTINGS, 5_000 + HOUR_MS).due


@pytest.mark.requirement("C-03", "H-25")
def test_a_ttl_of_zero_never_replaces_a_key_even_after_a_restart() -> None:
    assert renewal(KEY, KeySettings("HmacSHA256", 32, 0), 1 << 50) == Renewal(False, None)


@pytest.mark.requirement("C-15", "C-38")
@pytest.mark.parametrize("settings", [KeySettings("HmacSHA512", 32, 0), KeySettings("HmacSHA256", 16, 0)])
def test_a_leader_with_other_settings_replaces_the_key_at_once(settings: KeySettings) -> None:
    assert renewal(KEY, settings, 1_001).due


@pytest.mark.requirement("C-40")
def test_a_key_does_not_print_itself() -> None:
    secret = SessionKey(b"not-to-be-seen", "HmacSHA256", 1)
    assert "not-to-be-seen" not in f"{secret} {secret!r}"
