"""Delegation tokens where no secret is configured: each side says that there are none."""

from __future__ import annotations

import pytest

from .requests import request
from .script import side_by_side
from .side import Side

pytestmark = pytest.mark.peer


@side_by_side
def test_tokens_that_are_switched_off(s: Side) -> None:
    renewers = [{"principal_type": "User", "principal_name": "alice"}]
    for lifetime in (-1, 0, 3_600_000):
        s.every_version(
            request("CreateDelegationToken", renewers=renewers, max_lifetime_ms=lifetime), note=f"{lifetime}"
        )
    s.every_version(request("RenewDelegationToken", hmac=b"nobody's", renew_period_ms=1000))
    s.every_version(request("ExpireDelegationToken", hmac=b"nobody's", expiry_time_period_ms=-1))
    for owners in (None, [], renewers):
        s.every_version(request("DescribeDelegationToken", owners=owners), note=f"{owners}")
