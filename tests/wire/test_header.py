from __future__ import annotations

import pytest

from barnabas.wire.api_keys import API_KEYS, ApiKey, ApiRow
from barnabas.wire.errors import ProtocolError
from barnabas.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    request_header_version,
    response_header_version,
)
from barnabas.wire.primitives import Records


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 4, 2, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 2, 1),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
    ],
)
def test_header_versions(key: ApiKey, version: int, request_header: int, response_header: int) -> None:
    assert request_header_version(key, version) == request_header
    assert response_header_version(key, version) == response_header


@pytest.mark.parametrize("row", API_KEYS.values(), ids=lambda r: r.name)
def test_headers_survive(row: ApiRow) -> None:
    for version in range(row.min_version, row.latest_version + 1):
        client_id = None if row.request_header_version(version) == 0 else "me"
        header = RequestHeader(
            request_api_key=row.key, request_api_version=version, correlation_id=7, client_id=client_id or ""
        )
        parts: list[Records] = []
        encode_request_header(header, parts)
        data = b"".join(bytes(p) for p in parts if isinstance(p, bytes | bytearray)) + b"body"
        decoded, body_at, found = decode_request_header(data)
        assert (decoded, data[body_at:], found) == (header, b"body", row)

        reply = encode_response_header(row.key, version, 7) + b"body"
        response, body_at = decode_response_header(row.key, version, reply)
        assert (response.correlation_id, reply[body_at:]) == (7, b"body")


def test_an_api_we_do_not_know_has_no_row() -> None:
    header, body_at, row = decode_request_header(b"\x03\xe7\0\x05\0\0\0\x09rest")
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (999, 5, 9)
    assert (body_at, row) == (8, None)


def test_a_version_we_do_not_speak_still_has_a_header() -> None:
    header, _, row = decode_request_header(b"\0\x12\x27\x0f\0\0\0\x01\0\x02me\0")
    assert (header.request_api_version, header.client_id) == (9999, "me")
    assert row is API_KEYS[ApiKey.API_VERSIONS]


def test_no_client_id_is_an_empty_one() -> None:
    assert decode_request_header(b"\0\x12\0\x03\0\0\0\x01\xff\xff\0body")[:2] == (
        RequestHeader(request_api_key=18, request_api_version=3, correlation_id=1, client_id=""),
        11,
    )


def test_tagged_fields_of_a_header_are_skipped() -> None:
    header, body_at, _ = decode_request_header(b"\0\x12\0\x03\0\0\0\x01\0\x02me\x01\x09\x02xybody")
    assert (header.client_id, body_at) == ("me", 17)


@pytest.mark.parametrize("data", [b"", b"\0\x12\0\x03", b"\0\x12\0\x03\0\0\0\x01", b"\0\x12\0\x03\0\0\0\x01\0\x05ab"])
def test_a_header_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(data)
