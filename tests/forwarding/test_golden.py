"""Envelopes of a real Apache Kafka node, as `record` wrote them down, byte for byte (KIP-590)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.forwarding.envelope import unwrap, wrap
from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.model.principal import ANONYMOUS, KafkaPrincipal
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.header import decode_request_header, decode_response_header, encode_response_header
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tests.server.requests import error_codes

from .in_process import InProcess

SERDE = DefaultPrincipalSerde()
PAIRS = [
    (bytes.fromhex(pair["request"]), bytes.fromhex(pair["response"]))
    for line in (Path(__file__).parent / "golden" / "envelopes.jsonl").read_text().splitlines()
    for pair in [json.loads(line)]
]


def envelope_in(frame: bytes) -> EnvelopeRequest:
    """Give the Envelope in a request's frame."""
    header, body_at, row = decode_request_header(frame)
    assert row is not None
    assert (row.key, header.request_api_version) == (ApiKey.ENVELOPE, 0)
    return decode(EnvelopeRequest, 0, frame, body_at)


def inner_answer(asked: bytes, frame: bytes) -> Any:
    """Give the response inside the answer to an Envelope."""
    _, body_at = decode_response_header(ApiKey.ENVELOPE, 0, frame)
    answer = decode(EnvelopeResponse, 0, frame, body_at)
    assert answer.error_code == 0
    assert answer.response_data is not None
    inner, _, row = decode_request_header(envelope_in(asked).request_data)
    assert row is not None
    data = bytes(answer.response_data)
    header, at = decode_response_header(row.key, inner.request_api_version, data)
    assert header.correlation_id == inner.correlation_id
    return decode(row.response, inner.request_api_version, data, at)


@pytest.mark.requirement("F-16", "F-18", "F-29")
def test_we_make_the_envelopes_that_kafka_makes() -> None:
    principals = set()
    for frame, _ in PAIRS:
        envelope = envelope_in(frame)
        inner = unwrap(envelope, SERDE)
        principals.add(inner.principal)
        assert inner.host == "127.0.0.1"
        again = wrap(envelope.request_data, inner.principal, inner.host, SERDE)
        assert frame.endswith(encode(again, 0))
        assert again == envelope
    assert principals == {ANONYMOUS, KafkaPrincipal("User", "alice")}


@pytest.mark.requirement("F-17")
def test_we_make_the_answers_that_kafka_makes() -> None:
    for _, frame in PAIRS:
        header, body_at = decode_response_header(ApiKey.ENVELOPE, 0, frame)
        answer = decode(EnvelopeResponse, 0, frame, body_at)
        assert encode_response_header(ApiKey.ENVELOPE, 0, header.correlation_id) + encode(answer, 0) == frame


@pytest.mark.slow
@pytest.mark.requirement("F-16", "F-17", "F-27")
def test_our_controller_answers_what_kafkas_did(tmp_path: Path) -> None:
    supers = "User:root;User:controller;User:broker-1;User:ANONYMOUS"
    with InProcess(tmp_path, controllers=(101,), brokers=(1,), super__users=supers) as cluster:
        cluster.active()
        with cluster.frames(101) as peer:
            for asked, answered in PAIRS:
                peer.send_raw(asked)
                ours, theirs = inner_answer(asked, peer.receive_raw()), inner_answer(asked, answered)
                assert list(error_codes(ours)) == list(error_codes(theirs)), (ours, theirs)
