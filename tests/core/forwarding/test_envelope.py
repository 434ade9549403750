"""The Envelope and the principal in it: what goes in comes out, and what cannot be served is named (KIP-590)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.forwarding.envelope import packed_address, unpacked_address, unwrap, wrap
from barnabas.core.forwarding.principal import DefaultPrincipalSerde, PrincipalError
from barnabas.model.principal import KafkaPrincipal
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.header import encode_request_header
from barnabas.wire.message import encode
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.envelope import EnvelopeRequest
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.primitives import Records

SERDE = DefaultPrincipalSerde()
ALICE = KafkaPrincipal("User", "alice")
NAMES = st.text(max_size=300)


def request_frame(key: int = ApiKey.CREATE_ACLS, version: int = 3, client_id: str | None = "tool") -> bytes:
    """Give header and body of a request that names one ACL."""
    row = API_KEYS[key]
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7, client_id=client_id)
    parts: list[Records] = []
    encode_request_header(header, parts)
    body = CreateAclsRequest(creations=[AclCreation(resource_name="t")]) if key == ApiKey.CREATE_ACLS else row.request()
    return b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray)) + encode(
        body, min(max(version, row.min_version), row.max_version)
    )


def refusal(envelope: EnvelopeRequest) -> ErrorCode:
    """Give the error that stands at the top of the answer."""
    with pytest.raises(ApiError) as found:
        unwrap(envelope, SERDE)
    return found.value.code


@settings(max_examples=30)
@given(NAMES, NAMES, st.booleans())
def test_a_principal_survives_the_trip(kind: str, name: str, by_token: bool) -> None:
    principal = KafkaPrincipal(kind, name, by_token)
    assert SERDE.deserialize(SERDE.serialize(principal)) == principal


def test_a_principal_is_a_version_and_a_flexible_struct() -> None:
    # Version 0; compact strings, length + 1 first; the flag; no tagged fields.
    assert SERDE.serialize(KafkaPrincipal("User", "alice", True)) == b"\0\0\x05User\x06alice\x01\0"


@pytest.mark.requirement("F-31")
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0", b"\0\x01\x05User\x06alice\0\0", b"\xff\xff", b"\0\0\x05User\x06alice\0\0more"]
)
def test_bytes_that_are_no_principal(data: bytes) -> None:
    with pytest.raises(PrincipalError):
        SERDE.deserialize(data)
    assert refusal(EnvelopeRequest(request_principal=data)) == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.requirement("F-31")
def test_no_principal_at_all() -> None:
    assert refusal(EnvelopeRequest(request_principal=None)) == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.requirement("F-18")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("client_id", ["tool", "", None])
def test_the_request_travels_as_it_came(version: int, client_id: str | None) -> None:
    frame = request_frame(version=version, client_id=client_id)
    envelope = wrap(memoryview(frame), ALICE, "192.0.2.7", SERDE)
    assert envelope.request_data == frame
    inner = unwrap(envelope, SERDE)
    assert (inner.row.key, inner.header.request_api_version, inner.header.correlation_id) == (
        ApiKey.CREATE_ACLS,
        version,
        7,
    )
    assert inner.header.client_id == client_id or (client_id is None and inner.header.client_id == "")
    assert (inner.principal, inner.host) == (ALICE, "192.0.2.7")
    assert isinstance(inner.request, CreateAclsRequest)
    assert inner.request.creations[0].resource_name == "t"


@pytest.mark.parametrize(
    ("host", "packed"),
    [
        ("192.0.2.7", bytes([192, 0, 2, 7])),
        ("::1", b"\0" * 15 + b"\x01"),
        ("0:0:0:0:0:0:0:1", b"\0" * 15 + b"\x01"),
        ("fe80:0:0:0:0:0:0:1%eth0", b"\xfe\x80" + b"\0" * 13 + b"\x01"),
        ("::ffff:192.0.2.7", bytes([192, 0, 2, 7])),
    ],
)
def test_addresses(host: str, packed: bytes) -> None:
    assert packed_address(host) == packed
    assert packed_address(unpacked_address(packed)) == packed


@pytest.mark.requirement("F-38")
@pytest.mark.parametrize("size", [0, 3, 5, 15, 17])
def test_an_address_has_4_or_16_bytes(size: int) -> None:
    envelope = wrap(request_frame(), ALICE, "192.0.2.7", SERDE)
    envelope.client_host_address = bytes(size)
    assert refusal(envelope) == ErrorCode.INVALID_REQUEST


@pytest.mark.requirement("F-38")
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.ENVELOPE, ApiKey.BROKER_HEARTBEAT])
def test_only_forwardable_apis_are_served(key: int) -> None:
    row = API_KEYS[key]
    assert refusal(wrap(request_frame(key, row.max_version), ALICE, "192.0.2.7", SERDE)) == ErrorCode.INVALID_REQUEST


@pytest.mark.requirement("F-37")
@pytest.mark.parametrize(
    "inner",
    [
        b"",
        b"\0",
        b"\x7f\xff\0\0\0\0\0\x01\0\0",
        request_frame(version=0),
        request_frame(version=4),
        request_frame()[:-1],
    ],
    ids=["nothing", "half a header", "unknown API", "too old", "too new", "cut off"],
)
def test_a_request_that_cannot_be_read(inner: bytes) -> None:
    assert refusal(wrap(inner, ALICE, "192.0.2.7", SERDE)) == ErrorCode.UNSUPPORTED_VERSION
