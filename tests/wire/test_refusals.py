"""Shapes of refusals; `tests/conformance/test_java_broker.py` compares all of them with Kafka's."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.wire.api_keys import API_KEYS, ApiRow
from barnabas.wire.declaration import Struct, field_specs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.refusals import refuse
from tests.wire.instances import Maker

TOPICS = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")])


def codes(value: object) -> list[int]:
    """Give every error code in a response."""
    if isinstance(value, list):
        return [code for item in value for code in codes(item)]
    if not isinstance(value, Struct):
        return []
    own = [getattr(value, f.name) for f in field_specs(type(value)) if f.name.endswith("error_code")]
    return own + [code for f in field_specs(type(value)) for code in codes(getattr(value, f.name))]


@pytest.mark.parametrize("row", API_KEYS.values(), ids=lambda r: r.name)
def test_a_refusal_can_be_sent_in_every_version(row: ApiRow) -> None:
    for version in range(row.min_version, row.latest_version + 1):
        request = Maker(version, Random(version)).make(row.request)
        response = refuse(request, version, ErrorCode.NOT_CONTROLLER, "why", 5)
        if response is None:
            assert isinstance(request, ProduceRequest)
            continue
        again = decode(row.response, version, encode(response, version))
        assert set(codes(again)) <= {0, ErrorCode.NOT_CONTROLLER}


def test_each_element_says_the_error() -> None:
    response = refuse(TOPICS, 7, ErrorCode.POLICY_VIOLATION, "too many", throttle_ms=9)
    assert isinstance(response, CreateTopicsResponse)
    assert [(t.name, t.error_code, t.error_message) for t in response.topics] == [
        ("a", ErrorCode.POLICY_VIOLATION, "too many"),
        ("b", ErrorCode.POLICY_VIOLATION, "too many"),
    ]
    assert response.throttle_time_ms == 9


def test_a_defect_of_ours_is_not_explained_to_clients() -> None:
    response = refuse(TOPICS, 7, ErrorCode.UNKNOWN_SERVER_ERROR, "KeyError: password")
    assert isinstance(response, CreateTopicsResponse)
    assert [t.error_message for t in response.topics] == [None, None]


def test_a_producer_that_waits_for_nothing_gets_nothing() -> None:
    assert refuse(ProduceRequest(acks=0), 9, ErrorCode.REQUEST_TIMED_OUT) is None
    assert refuse(ProduceRequest(acks=1), 9, ErrorCode.REQUEST_TIMED_OUT) is not None


def test_topics_known_by_id_alone_have_an_empty_name() -> None:
    response = refuse(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 12, ErrorCode.REQUEST_TIMED_OUT)
    assert isinstance(response, MetadataResponse)
    assert response.topics[0].name == ""
