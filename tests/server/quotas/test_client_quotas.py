"""Client quotas: precedence of entities, rates, token buckets; figures as Kafka's own arithmetic gives them."""

from __future__ import annotations

import pytest
from immutables import Map

from barnabas.core.metadata.quotas import ClientQuotasImage, QuotaEntity, entity_of
from barnabas.server.quotas.client_quotas import (
    INACTIVE_AFTER_MS,
    ClientQuotas,
    MutationQuota,
    QuotaKey,
    QuotaLimits,
    RateQuota,
    TokenBucket,
    Usage,
)


def image(limits: dict[QuotaEntity, float], key: QuotaKey = QuotaKey.PRODUCE) -> ClientQuotasImage:
    return ClientQuotasImage(Map({entity: Map({key.value: limit}) for entity, limit in limits.items()}))


def entity(**parts: str | None) -> QuotaEntity:
    return entity_of({name.replace("_", "-"): value for name, value in parts.items()})


BY_PRECEDENCE = [
    (entity(user="alice", client_id="app"), Usage("alice", "app")),
    (entity(user="alice", client_id=None), Usage("alice", "app")),
    (entity(user="alice"), Usage("alice", "")),
    (entity(user=None, client_id="app"), Usage("alice", "app")),
    (entity(user=None, client_id=None), Usage("alice", "app")),
    (entity(user=None), Usage("alice", "")),
    (entity(client_id="app"), Usage("", "app")),
    (entity(client_id=None), Usage("", "app")),
]


@pytest.mark.parametrize("position", range(len(BY_PRECEDENCE)))
def test_the_most_specific_entity_decides(position: int) -> None:
    left = {e: float(n) for n, (e, _) in enumerate(BY_PRECEDENCE)}
    for gone, _ in BY_PRECEDENCE[:position]:
        del left[gone]
    limits = QuotaLimits.of(image(left), QuotaKey.PRODUCE)
    assert limits.find("alice", "app") == (BY_PRECEDENCE[position][1], float(position))


def test_a_quota_of_somebody_else_or_of_an_ip_limits_nobody() -> None:
    limits = QuotaLimits.of(image({entity(user="bob"): 1.0, entity(ip="10.0.0.1"): 1.0}), QuotaKey.PRODUCE)
    assert limits.find("alice", "app")[1] is None
    assert QuotaLimits.of(image({entity(user="bob"): 1.0}), QuotaKey.FETCH).by_entity == {}


def test_a_rate_above_its_limit_must_wait_until_it_fits() -> None:
    quota = RateQuota(QuotaKey.PRODUCE)
    quota.update(image({entity(user="alice"): 100.0}))
    assert quota.record("alice", "app", 1_000, 0) == 0  # 1000 in a span of ten windows: just the limit
    assert quota.record("alice", "other", 500, 0) == 5_000  # 150 a second: half the span too much
    assert quota.record("bob", "app", 1e9, 0) == 0
    assert quota.record("alice", "app", 0, 11_500) == 0  # forgotten


def test_what_a_throttled_fetch_would_have_sent_is_taken_back() -> None:
    quota = RateQuota(QuotaKey.FETCH)
    quota.update(image({entity(client_id="app"): 100.0}, QuotaKey.FETCH))
    assert quota.record("alice", "app", 3_000, 0) == 20_000
    quota.take_back("alice", "app", 3_000, 0)
    assert quota.record("bob", "app", 0, 0) == 0
    assert quota.most_at_once("alice", "app") == 1_000
    assert quota.most_at_once("alice", "other") is None


def test_request_time_never_waits_longer_than_a_window() -> None:
    quotas = ClientQuotas()
    quotas.update(image({entity(user=None): 1.0}, QuotaKey.REQUEST))
    assert quotas.request_time("alice", "app", 100_000_000, 0) == 0  # 10 % of a second, over ten seconds
    assert quotas.request_time("alice", "app", 10_000_000_000, 0) == 1_000


def test_without_any_limit_nothing_is_counted() -> None:
    quota = RateQuota(QuotaKey.PRODUCE)
    assert not quota.enabled
    assert quota.record("alice", "app", 1e12, 0) == 0
    quota.update(image({entity(user="alice"): 1.0}))
    assert quota.enabled
    assert quota.record("alice", "app", 1, 0) == 0


def test_a_changed_limit_applies_to_what_was_used_before() -> None:
    quota = RateQuota(QuotaKey.PRODUCE)
    quota.update(image({entity(user="alice"): 1_000.0}))
    assert quota.record("alice", "", 1_000, 0) == 0
    quota.update(image({entity(user="alice"): 50.0}))
    assert quota.record("alice", "", 0, 0) == 10_000


def test_usages_that_are_long_inactive_are_forgotten() -> None:
    quota = RateQuota(QuotaKey.PRODUCE)
    quota.update(image({entity(client_id=None): 1.0}))
    for n in range(100):
        quota.record("", f"client-{n}", 1, 0)
    quota.record("", "late", 1, INACTIVE_AFTER_MS)
    assert len(quota._rates) == 1


def test_a_token_bucket_begins_full_refills_and_remembers_its_debt() -> None:
    bucket = TokenBucket(1_000, 10)
    assert bucket.tokens(5.0, 0) == 50.0
    bucket.take(60, 5.0, 0)
    assert bucket.throttle_ms(5.0, 0) == 2_000
    assert bucket.throttle_ms(5.0, 1_500) == 500
    assert bucket.throttle_ms(5.0, 2_000) == 0
    assert bucket.tokens(5.0, 1_000_000) == 50.0


def test_strict_mutations_are_refused_while_there_is_a_debt() -> None:
    quota = MutationQuota(windows=10)
    quota.update(image({entity(user="alice"): 2.0}, QuotaKey.CONTROLLER_MUTATION))
    assert quota.record_strictly("alice", "", 30, 0) == 0  # 20 in store: allowed, ten in debt
    assert quota.record_strictly("alice", "", 1, 0) == 5_000
    assert quota.record_strictly("alice", "", 1, 5_000) == 0
    assert quota.record_strictly("bob", "", 1_000, 0) == 0


def test_permissive_mutations_pass_and_wait_afterwards() -> None:
    quota = MutationQuota(windows=10)
    quota.update(image({entity(user="alice"): 2.0}, QuotaKey.CONTROLLER_MUTATION))
    assert quota.record_permissively("alice", "", 30, 0) == 5_000
    assert quota.record_permissively("alice", "", 2, 0) == 6_000
