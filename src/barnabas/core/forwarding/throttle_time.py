"""The throttle time inside an encoded response: the only part that a relaying broker may change (KIP-590).

Broker and controller both know how long a client must wait; it waits once, for the longer of the two.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from barnabas.wire.api_keys import ApiRow
from barnabas.wire.declaration import field_specs
from barnabas.wire.header import decode_response_header
from barnabas.wire.message import decode, encode
from barnabas.wire.primitives import Buffer

_INT32: Final = struct.Struct(">i")
_FIELD: Final = "throttle_time_ms"


def throttle_time(row: ApiRow, version: int, frame: Buffer) -> int:
    """Give the milliseconds that a response tells the client to wait; 0 where it cannot say. frame: with header."""
    _, body_at = decode_response_header(int(row.key), version, frame)
    first = _first_field(row, version)
    if first == _FIELD:
        return int(_INT32.unpack_from(frame, body_at)[0])
    if not _has_field(row, version):
        return 0
    response: Any = decode(row.response, version, frame, body_at)
    return int(response.throttle_time_ms)


def with_throttle_time(row: ApiRow, version: int, frame: bytes, throttle_ms: int) -> bytes:
    """Give the response with another throttle time, everything else as it was."""
    _, body_at = decode_response_header(int(row.key), version, frame)
    if _first_field(row, version) == _FIELD:
        return frame[:body_at] + _INT32.pack(throttle_ms) + frame[body_at + _INT32.size :]
    if not _has_field(row, version):
        return frame
    response: Any = decode(row.response, version, frame, body_at)
    response.throttle_time_ms = throttle_ms
    return frame[:body_at] + encode(response, version)


def _first_field(row: ApiRow, version: int) -> str:
    return next((spec.name for spec in field_specs(row.response) if version in spec.on.versions), "")


def _has_field(row: ApiRow, version: int) -> bool:
    return any(spec.name == _FIELD and version in spec.on.versions for spec in field_specs(row.response))
