"""How a principal travels inside an Envelope: a pluggable serializer, and Kafka's default one (KIP-590).

The default: an int16 version, 0, then DefaultPrincipalData in that version, which is flexible.
"""

from __future__ import annotations

import struct
from typing import Final

from barnabas.model.principal import KafkaPrincipal
from barnabas.model.principal_builder import KafkaPrincipalSerde as KafkaPrincipalSerde
from barnabas.model.principal_builder import PrincipalError as PrincipalError
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import decode, encode
from barnabas.wire.records.default_principal_data import DefaultPrincipalData

_VERSION: Final = struct.Struct(">h")


class DefaultPrincipalSerde:
    """Kafka's default: type, name, and whether a delegation token proved it."""

    def serialize(self, principal: KafkaPrincipal) -> bytes:
        """Give the bytes of a principal."""
        data = DefaultPrincipalData(
            type=principal.principal_type, name=principal.name, token_authenticated=principal.token_authenticated
        )
        return _VERSION.pack(DefaultPrincipalData.MAX_VERSION) + encode(data, DefaultPrincipalData.MAX_VERSION)

    def deserialize(self, data: bytes) -> KafkaPrincipal:
        """Give the principal; PrincipalError when the bytes are none, or of a newer version."""
        if len(data) < _VERSION.size:
            raise PrincipalError("a principal is shorter than its version")
        (version,) = _VERSION.unpack_from(data)
        if not DefaultPrincipalData.MIN_VERSION <= version <= DefaultPrincipalData.MAX_VERSION:
            raise PrincipalError(f"version {version} of a principal is unknown")
        try:
            found = decode(DefaultPrincipalData, version, data, _VERSION.size)
        except ProtocolError as e:
            raise PrincipalError(str(e)) from None
        return KafkaPrincipal(found.type, found.name, found.token_authenticated)
