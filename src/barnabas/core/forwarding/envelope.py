"""The Envelope: a client's request as it came, who sent it, and from where (KIP-590).

What is inside is never changed on the way: neither version nor header. The errors that a controller finds in an
Envelope stand at its top; they concern the two nodes and are not for the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from barnabas.core.forwarding.principal import KafkaPrincipalSerde, PrincipalError
from barnabas.model.principal import KafkaPrincipal
from barnabas.wire.api_keys import ApiRow
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.header import RequestHeader, decode_request_header
from barnabas.wire.message import decode_from
from barnabas.wire.messages.envelope import EnvelopeRequest
from barnabas.wire.primitives import Buffer

_IPV4_BYTES: Final = 4
_IPV6_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Inner:
    """What an Envelope holds. host: the client's address, for `model.addresses.host_text` to spell."""

    row: ApiRow
    header: RequestHeader
    request: object
    principal: KafkaPrincipal
    host: str


def wrap(frame: Buffer, principal: KafkaPrincipal, host: str, serde: KafkaPrincipalSerde) -> EnvelopeRequest:
    """Give the Envelope of a request. frame: its header and body; host: the client's IP address as text."""
    return EnvelopeRequest(
        request_data=bytes(frame),
        request_principal=serde.serialize(principal),
        client_host_address=packed_address(host),
    )


def unwrap(envelope: EnvelopeRequest, serde: KafkaPrincipalSerde) -> Inner:
    """Give what is inside; ApiError holds the error for the top of the answer.

    PRINCIPAL_DESERIALIZATION_FAILURE: nobody can say who asks. INVALID_REQUEST: the address is none, or the API may
    not be forwarded. UNSUPPORTED_VERSION: the request inside cannot be read.
    """
    principal = _principal(envelope.request_principal, serde)
    host = unpacked_address(bytes(envelope.client_host_address))
    try:
        header, body_at, row = decode_request_header(envelope.request_data)
    except ProtocolError as e:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"the header inside the Envelope cannot be read: {e}") from None
    if row is None:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"the API {header.request_api_key} inside is unknown")
    if not row.forwardable:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{row.key.name} cannot be forwarded")
    version = header.request_api_version
    if not row.supports(version):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{row.key.name} version {version} inside; {row.min_version} to {row.max_version} are known",
        )
    try:
        request, _ = decode_from(row.request, version, envelope.request_data, body_at)
    except ProtocolError as e:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"the request inside cannot be read: {e}") from None
    return Inner(row, header, request, principal, host)


def packed_address(host: str) -> bytes:
    """Give the 4 or 16 bytes of an address; ValueError for a text that is none."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.packed
    return address.packed


def unpacked_address(data: bytes) -> str:
    """Give the address as text; ApiError with INVALID_REQUEST unless there are 4 or 16 bytes."""
    if len(data) == _IPV4_BYTES:
        return str(IPv4Address(data))
    if len(data) == _IPV6_BYTES:
        return str(IPv6Address(data))
    raise ApiError(ErrorCode.INVALID_REQUEST, f"the client's address has {len(data)} bytes: want 4 or 16")


def _principal(data: bytes | None, serde: KafkaPrincipalSerde) -> KafkaPrincipal:
    if data is None:
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, "the Envelope names no principal")
    try:
        return serde.deserialize(bytes(data))
    except PrincipalError as e:
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(e)) from None
