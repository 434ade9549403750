"""Configs of subscriptions to clients' metrics: which are taken, and which clients they select."""

from __future__ import annotations

import pytest

from barnabas.core.telemetry.subscriptions import ClientAttributes, Subscription, check_subscription
from barnabas.model.config import ConfigError
from barnabas.wire.errors import ApiError, ErrorCode

CLIENT = ClientAttributes("AAAAAAAAAAAAAAAAAAAAAg", "billing-1", "apache-kafka-java", "4.3.1", "10.0.0.7", "50211")


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"interval.ms": "100"},
        {"interval.ms": "3600000", "metrics": "*"},
        {"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.", "match": "client_id=b.*"},
        {"match": "client_software_name = apache-kafka-java , client_software_version=4[.].*"},
        {"metrics": ""},
        {"metrics": "a,a"},
    ],
)
def test_what_is_taken(configs: dict[str, str]) -> None:
    check_subscription("s", configs)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"interval": "1000"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id="}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG),
        ({"match": "color=red"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_is_refused(configs: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        check_subscription("s", configs)
    assert refused.value.code is code


@pytest.mark.parametrize("configs", [{"interval.ms": "often"}, {"metrics": "a,,b"}])
def test_what_is_no_value_at_all(configs: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_subscription("s", configs)


def test_a_subscription_has_a_name() -> None:
    with pytest.raises(ApiError) as refused:
        check_subscription("", {})
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("match", "selected"),
    [
        ("", True),
        ("client_id=billing-.*", True),
        ("client_id=billing", False),  # the whole text
        ("client_id=billing-1,client_source_address=10[.].*", True),
        ("client_id=billing-1,client_source_address=11[.].*", False),
        ("client_instance_id=AAAAAAAAAAAAAAAAAAAAAg", True),
        ("client_software_version=4[.]\\d[.]\\d", True),
        ("client_source_port=5\\d+", True),
    ],
)
def test_which_clients_are_selected(match: str, selected: bool) -> None:
    assert Subscription.of({"match": match}).applies_to(CLIENT) is selected


def test_what_is_not_known_of_a_client_does_not_match() -> None:
    nameless = CLIENT._replace(client_software_name=None)
    assert not Subscription.of({"match": "client_software_name=.*"}).applies_to(nameless)
