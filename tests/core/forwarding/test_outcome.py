"""What a controller's answer means, what may be offered, and the throttle time in an encoded answer (KIP-590)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.forwarding.api_versions import offered
from barnabas.core.forwarding.outcome import Verdict, from_wrong_node, remedy, verdict_on
from barnabas.core.forwarding.throttle_time import throttle_time, with_throttle_time
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import decode_response_header, encode_response_header
from barnabas.wire.message import decode, encode
from barnabas.wire.refusals import refuse

FORWARDABLE = [row for row in API_KEYS.values() if row.forwardable]


@pytest.mark.parametrize("error", list(ErrorCode))
def test_every_error_of_an_envelope_has_a_meaning(error: ErrorCode) -> None:
    wanted = {
        ErrorCode.NONE: Verdict.RELAY,
        ErrorCode.NOT_CONTROLLER: Verdict.SEND_AGAIN,
        ErrorCode.AUTHORIZER_NOT_READY: Verdict.SEND_AGAIN,
        ErrorCode.UNSUPPORTED_VERSION: Verdict.CLOSE_CLIENT,
    }
    assert verdict_on(error) is wanted.get(error, Verdict.FAIL)
    assert remedy(error)


@pytest.mark.requirement("F-22")
@pytest.mark.parametrize("row", FORWARDABLE, ids=lambda row: row.name)
def test_not_controller_is_seen_wherever_it_stands(row: Any) -> None:
    for version in range(row.min_version, row.max_version + 1):
        asked = request(row)
        assert from_wrong_node(row.key, refuse(asked, version, ErrorCode.NOT_CONTROLLER))  # type: ignore[arg-type]
        assert not from_wrong_node(row.key, refuse(asked, version, ErrorCode.REQUEST_TIMED_OUT))  # type: ignore[arg-type]
        about_leaders = row.key in (ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
        other = refuse(asked, version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert from_wrong_node(row.key, other) is about_leaders  # type: ignore[arg-type]


@pytest.mark.requirement("H-02")
@pytest.mark.parametrize("row", FORWARDABLE, ids=lambda row: row.name)
def test_the_throttle_time_changes_and_nothing_else(row: Any) -> None:
    for version in range(row.min_version, row.max_version + 1):
        response = refuse(request(row), version, ErrorCode.REQUEST_TIMED_OUT, "why", 11)
        assert response is not None
        frame = encode_response_header(row.key, version, 5) + encode(response, version)
        if not hasattr(response, "throttle_time_ms"):
            assert (throttle_time(row, version, frame), with_throttle_time(row, version, frame, 9)) == (0, frame)
            continue
        assert throttle_time(row, version, frame) == 11
        changed = with_throttle_time(row, version, frame, 70_000)
        response.throttle_time_ms = 70_000
        header, body_at = decode_response_header(row.key, version, changed)
        assert (header.correlation_id, decode(row.response, version, changed, body_at)) == (5, response)


@pytest.mark.requirement("F-35")
def test_what_is_forwarded_is_offered_as_far_as_the_controller_goes() -> None:
    rows = [API_KEYS[k] for k in (ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.CREATE_ACLS, ApiKey.DELETE_TOPICS)]
    forwarded = [row for row in rows if row.forwardable]
    older: dict[int, tuple[int, int]] = {
        ApiKey.CREATE_TOPICS: (0, 4),
        ApiKey.METADATA: (0, 1),
        ApiKey.DELETE_TOPICS: (7, 9),
    }
    found = {row.key: tuple(versions) for row, versions in offered(rows, forwarded, older)}
    metadata = API_KEYS[ApiKey.METADATA]
    assert found == {
        ApiKey.CREATE_TOPICS: (2, 4),
        ApiKey.METADATA: (metadata.min_version, metadata.max_version),
    }


def test_without_a_controller_our_own_ranges_are_offered() -> None:
    rows = [API_KEYS[ApiKey.CREATE_TOPICS]]
    assert [tuple(versions) for _, versions in offered(rows, rows, None)] == [(2, 7)]


def request(row: Any) -> Any:
    """Give a request with one element in each list, so that there is a place for every error."""
    return _filled(row.request())


def _filled(struct: Any) -> Any:
    from barnabas.wire.declaration import field_specs

    for spec in field_specs(type(struct)):
        if spec.kind == "array":
            samples = {"string": "x", "int32": 0, "int16": 0, "int8": 0, "bytes": b"", "uuid": None}
            one = _filled(spec.struct()) if spec.struct is not None else samples[spec.element]
            setattr(struct, spec.name, [one])
    return struct
