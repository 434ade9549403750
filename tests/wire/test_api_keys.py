from __future__ import annotations

import pytest

from barnabas.wire.api_keys import API_KEYS, ApiKey, ApiRow, row_of
from barnabas.wire.messages.create_acls import CreateAclsResponse


@pytest.mark.parametrize("row", API_KEYS.values(), ids=lambda r: r.name)
def test_a_row_says_what_its_messages_say(row: ApiRow) -> None:
    for cls, flexible in ((row.request, row.request_flexible), (row.response, row.response_flexible)):
        assert row.key == cls.API_KEY
        assert (
            row.min_version,
            row.latest_version,
            flexible,
        ) == (cls.MIN_VERSION, cls.MAX_VERSION, cls.FLEXIBLE_FROM)
    assert row.latest_version - row.max_version == row.request.LATEST_UNSTABLE


def test_the_unstable_version_is_not_offered() -> None:
    row = API_KEYS[ApiKey.INIT_PRODUCER_ID]
    assert (row.max_version, row.latest_version) == (5, 6)
    assert [row.supports(v) for v in (-1, 0, 5, 6)] == [False, True, True, False]
    assert row.supports(6, unstable=True)


@pytest.mark.requirement("A-25")
def test_envelopes_have_our_second_version() -> None:
    assert API_KEYS[ApiKey.ENVELOPE].max_version == 1
    assert API_KEYS[ApiKey.ENVELOPE].listeners == {"controller"}


def test_what_brokers_forward() -> None:
    assert sum(row.forwardable for row in API_KEYS.values()) == 21
    assert not API_KEYS[ApiKey.PRODUCE].forwardable


def test_a_message_finds_its_row() -> None:
    assert row_of(CreateAclsResponse()) is API_KEYS[ApiKey.CREATE_ACLS] is row_of(CreateAclsResponse)
