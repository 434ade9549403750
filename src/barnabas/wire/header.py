"""What stands before every request and response: API, version, correlation id, client id."""

from __future__ import annotations

import struct
from typing import Final

from barnabas.wire.api_keys import API_KEYS, ApiRow
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import decode_from, encode_into
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.messages.response_header import ResponseHeader
from barnabas.wire.primitives import Buffer, Records

__all__ = [
    "RequestHeader",
    "ResponseHeader",
    "decode_request_header",
    "decode_response_header",
    "encode_request_header",
    "encode_response_header",
    "request_header_version",
    "response_header",
    "response_header_version",
]

_FIXED: Final = struct.Struct(">hhi")
_WITH_CLIENT_ID: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AND_NO_TAGS: Final = struct.Struct(">ix")


def request_header_version(api_key: int, version: int) -> int:
    """Give the header version of a request; ProtocolError for an API that does not exist."""
    return _row(api_key).request_header_version(version)


def response_header_version(api_key: int, version: int) -> int:
    """Give the header version of a response; ProtocolError for an API that does not exist."""
    return _row(api_key).response_header_version(version)


def decode_request_header(buf: Buffer, offset: int = 0) -> tuple[RequestHeader, int, ApiRow | None]:
    """Give the header of a request, where its body begins, and its row.

    The version may be one we do not speak. For an API we do not know the row is None and the client id is
    left out, because nobody can tell where it would stand.
    """
    if len(buf) - offset < _FIXED.size:
        raise ProtocolError("a request is shorter than its header")
    api_key, version, correlation_id = _FIXED.unpack_from(buf, offset)
    row = API_KEYS.get(api_key)
    if row is None:
        header = RequestHeader(request_api_key=api_key, request_api_version=version, correlation_id=correlation_id)
        return header, offset + _FIXED.size, None
    header_version = row.request_header_version(version)
    if header_version:
        # Every request passes here, so the ordinary header is read by hand; what is odd about it goes below.
        start = offset + _WITH_CLIENT_ID.size
        size = _WITH_CLIENT_ID.unpack_from(buf, offset)[3] if start <= len(buf) else -1
        end = start + size
        if size >= 0 and (end <= len(buf) if header_version == 1 else end < len(buf) and not buf[end]):
            client_id = str(buf[start:end], "utf-8", "replace")
            return (
                RequestHeader(
                    request_api_key=api_key,
                    request_api_version=version,
                    correlation_id=correlation_id,
                    client_id=client_id,
                ),
                end + header_version - 1,
                row,
            )
    # The body may be large and decode_from copies what is no view, so the header is cut out first.
    header_buf = memoryview(buf)[offset : offset + _MAX_HEADER_BYTES]
    header, size = decode_from(RequestHeader, header_version, header_buf)
    if header.client_id is None:
        header.client_id = ""  # Kafka makes no difference between the two
    return header, offset + size, row


_MAX_HEADER_BYTES: Final = 40_000
"""More than the longest client id; only a header with absurd unknown tagged fields would be longer."""


def encode_request_header(header: RequestHeader, parts: list[Records]) -> None:
    """Append the header, in the version that its API and version ask for."""
    version = request_header_version(header.request_api_key, header.request_api_version)
    encode_into(header, version, parts)


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Give the header of the response to a request of that version."""
    return response_header(_row(api_key), version, correlation_id)


def response_header(row: ApiRow, version: int, correlation_id: int) -> bytes:
    """The same by the API's row."""
    if row.response_header_version(version):
        return _CORRELATION_ID_AND_NO_TAGS.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id)


def decode_response_header(api_key: int, version: int, buf: Buffer, offset: int = 0) -> tuple[ResponseHeader, int]:
    """Give the header of a response and where its body begins."""
    header_buf = memoryview(buf)[offset : offset + _MAX_HEADER_BYTES]
    header, size = decode_from(ResponseHeader, response_header_version(api_key, version), header_buf)
    return header, offset + size


def _row(api_key: int) -> ApiRow:
    row = API_KEYS.get(api_key)
    if row is None:
        raise ProtocolError(f"there is no API {api_key}")
    return row
