from __future__ import annotations

import pytest
from immutables import Map

from barnabas.core.metadata.quota_filter import Component, MatchType, QuotaFilter
from barnabas.core.metadata.quotas import ClientQuotasImage, entity_of
from barnabas.wire.errors import ApiError, ErrorCode

ALICE = entity_of({"user": "alice"})
ALICE_APP = entity_of({"user": "alice", "client-id": "app"})
ANYBODY = entity_of({"user": None})
HOST = entity_of({"ip": "10.0.0.1"})
IMAGE = ClientQuotasImage(Map({e: Map({"producer_byte_rate": 1.0}) for e in (ALICE, ALICE_APP, ANYBODY, HOST)}))


def selected(*components: Component, strict: bool = False) -> set[object]:
    return {entity for entity, _ in QuotaFilter(components, strict).select(IMAGE)}


def test_a_filter_without_components_matches_everything() -> None:
    assert selected() == {ALICE, ALICE_APP, ANYBODY, HOST}
    assert selected(strict=True) == set()


def test_components_narrow_and_strict_leaves_no_others() -> None:
    alice = Component("user", MatchType.EXACT, "alice")
    assert selected(alice) == {ALICE, ALICE_APP}
    assert selected(alice, strict=True) == {ALICE}
    assert selected(Component("user", MatchType.DEFAULT, None)) == {ANYBODY}
    assert selected(Component("user", MatchType.ANY, None)) == {ALICE, ALICE_APP, ANYBODY}
    assert selected(alice, Component("client-id", MatchType.ANY, None)) == {ALICE_APP}
    assert selected(Component("ip", MatchType.ANY, None)) == {HOST}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 0, "a"), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("group", 0, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 2, "a")], ErrorCode.INVALID_REQUEST),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(
    components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as refused:
        selected(*(Component(*c) for c in components))
    assert refused.value.code is code
