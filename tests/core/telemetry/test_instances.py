"""Clients ask for their subscription and push: what they are told, when they are too early, when they are forgotten."""

from __future__ import annotations

from itertools import count

import pytest

from barnabas.core.telemetry import instances
from barnabas.core.telemetry.instances import ClientInstances
from barnabas.core.telemetry.subscriptions import ClientAttributes, Subscription
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from barnabas.wire.messages.push_telemetry import PushTelemetryRequest

JAVA = ClientAttributes("", "billing", "apache-kafka-java", "4.3.1", "10.0.0.7", "50211")
RUST = JAVA._replace(client_id="shipping", client_software_name="librdkafka")
MAX_BYTES = 1_000


def broker(**subscriptions: dict[str, str]) -> ClientInstances:
    numbers = count(1000)
    made = ClientInstances(lambda: Uuid(next(numbers).to_bytes(16, "big")), MAX_BYTES)
    for name, configs in subscriptions.items():
        made.subscribe(name, Subscription.of(configs))
    return made


EVERY_SECOND = {"interval.ms": "1000", "metrics": "a."}


def told(made: ClientInstances, now_ms: int, client: ClientAttributes = JAVA) -> GetTelemetrySubscriptionsResponse:
    return made.subscription_of(ZERO_UUID, client, f"c{client.client_id}{now_ms}", now_ms)


def push(
    subscription: GetTelemetrySubscriptionsResponse,
    *,
    subscription_id: int | None = None,
    terminating: bool = False,
    codec: int = Compression.NONE,
    metrics: bytes = b"x",
) -> PushTelemetryRequest:
    return PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id if subscription_id is None else subscription_id,
        terminating=terminating,
        compression_type=codec,
        metrics=metrics,
    )


def refused(made: ClientInstances, request: PushTelemetryRequest, now_ms: int) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        made.admit(request, JAVA, "c", now_ms)
    return error.value.code


def test_a_client_learns_what_all_subscriptions_that_select_it_want() -> None:
    made = broker(
        one={"interval.ms": "60000", "metrics": "b.,a."},
        two={"interval.ms": "30000", "metrics": "b.,c.", "match": "client_software_name=.*java"},
        three={"interval.ms": "100", "metrics": "*", "match": "client_software_name=librdkafka"},
    )
    java, rust = told(made, 0), told(made, 0, RUST)
    assert (java.requested_metrics, java.push_interval_ms) == (["a.", "b.", "c."], 30_000)
    assert (rust.requested_metrics, rust.push_interval_ms) == (["*"], 100)
    assert java.client_instance_id != rust.client_instance_id
    assert (java.telemetry_max_bytes, java.delta_temporality) == (MAX_BYTES, True)
    assert java.accepted_compression_types == [4, 3, 1, 2]


def test_without_a_subscription_a_client_is_to_push_nothing_every_five_minutes() -> None:
    answer = told(broker(), 0)
    assert (answer.requested_metrics, answer.push_interval_ms) == ([], 300_000)


def test_a_long_interval_does_not_make_clients_ask_less_often_than_usual() -> None:
    assert told(broker(one={"interval.ms": "3600000"}), 0).push_interval_ms == 300_000


def test_a_client_asks_and_pushes_once_in_an_interval() -> None:
    made = broker(one=EVERY_SECOND)
    mine = told(made, 5)
    made.admit(push(mine), JAVA, "c", 6)  # at once after it has asked
    assert refused(made, push(mine), 1_005) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert made.admit(push(mine), JAVA, "c", 1_006).pushes.throttled == 1
    with pytest.raises(ApiError) as error:
        made.subscription_of(mine.client_instance_id, JAVA, "c", 1_007)
    assert error.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert made.subscription_of(mine.client_instance_id, JAVA, "c", 2_006) == mine


def test_a_client_that_another_broker_has_told_may_push_here_at_once() -> None:
    mine = told(broker(one=EVERY_SECOND), 0)
    assert broker(one=EVERY_SECOND).admit(push(mine), JAVA, "c", 0).id == mine.client_instance_id


def test_a_push_for_a_subscription_that_has_changed_is_refused_and_the_client_may_ask_at_once() -> None:
    made = broker(one=EVERY_SECOND)
    mine = told(made, 0)
    made.admit(push(mine), JAVA, "c", 0)
    made.subscribe("one", Subscription.of({**EVERY_SECOND, "metrics": "b."}))
    assert refused(made, push(mine), 1_000) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert made.unknown_subscriptions == 1
    again = made.subscription_of(mine.client_instance_id, JAVA, "c", 1_001)
    assert again.requested_metrics == ["b."]
    assert again.subscription_id != mine.subscription_id
    made.admit(push(again), JAVA, "c", 2_000)
    made.subscribe("one", None)
    assert made.subscription_of(mine.client_instance_id, JAVA, "c", 2_001).requested_metrics == []


def test_the_end_of_a_subscription_that_is_not_there_changes_nothing() -> None:
    made = broker(one=EVERY_SECOND)
    mine = told(made, 0)
    made.subscribe("two", None)
    with pytest.raises(ApiError):
        made.subscription_of(mine.client_instance_id, JAVA, "c", 1)


def test_the_last_push_may_come_early_and_is_the_last() -> None:
    made = broker(one=EVERY_SECOND)
    mine = told(made, 0)
    made.admit(push(mine), JAVA, "c", 0)
    made.admit(push(mine, terminating=True), JAVA, "c", 1)
    assert refused(made, push(mine), 5_000) is ErrorCode.INVALID_REQUEST


def test_pushes_that_cannot_be_taken() -> None:
    made = broker(one=EVERY_SECOND)
    mine = told(made, 0)
    assert refused(made, push(mine, codec=9), 0) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert made.subscription_of(mine.client_instance_id, JAVA, "c", 1) == mine  # to choose another codec
    assert refused(made, push(mine, metrics=bytes(MAX_BYTES + 1)), 1_000) is ErrorCode.TELEMETRY_TOO_LARGE
    made.admit(push(mine, metrics=bytes(MAX_BYTES)), JAVA, "c", 2_000)
    nobody = PushTelemetryRequest(client_instance_id=ZERO_UUID)
    assert refused(made, nobody, 0) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("interval_ms", "remembered_ms"), [(1_000, 60_000), (30_000, 90_000)])
def test_who_is_not_heard_of_is_forgotten(interval_ms: int, remembered_ms: int) -> None:
    made = broker(one={"interval.ms": str(interval_ms), "metrics": "a."})
    mine = told(made, 0)
    assert made.known(remembered_ms - 1).keys() == {mine.client_instance_id}
    assert not made.known(remembered_ms + 6_000)


def test_who_was_heard_of_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "MAX_INSTANCES", 2)
    made = broker(one=EVERY_SECOND)
    first, second = told(made, 0), told(made, 1)
    made.admit(push(first), JAVA, "c", 2)
    third = told(made, 3)
    assert made.known(4).keys() == {first.client_instance_id, third.client_instance_id}
    assert second.client_instance_id not in made.known(4)


def test_a_client_is_forgotten_with_the_connection_that_it_first_came_by() -> None:
    made = broker(one=EVERY_SECOND)
    mine = made.subscription_of(ZERO_UUID, JAVA, "first", 0)
    made.admit(push(mine), JAVA, "second", 0)
    made.connection_ended("second")
    assert made.known(1).keys() == {mine.client_instance_id}
    made.connection_ended("first")
    assert not made.known(1)
    made.connection_ended("first")
