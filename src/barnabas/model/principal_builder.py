"""Who a peer is, and how that travels from broker to controller: the plug-in of `principal.builder.class`.

A builder is a class without arguments. It makes a principal of what a connection has proven, and turns principals into
bytes and back (KIP-590), so that a controller sees the same principal as the broker that its client talked to. A
principal with more to it is a frozen dataclass derived from `KafkaPrincipal`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from barnabas.model.principal import KafkaPrincipal


class PrincipalError(ValueError):
    """The bytes are no principal that this node can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationContext:
    """What a connection has proven.

    security_protocol: of its listener, as `SASL_SSL`. client_address: its IP as text. mechanism, user: of SASL.
    token_authenticated: the user showed a delegation token. attributes: what a mechanism found out beside the user,
    such as the claims of an OAUTHBEARER token. certificate: the peer's, as DER, of listeners with TLS but no SASL.
    default: gives what Kafka's own builder makes of all this.
    """

    security_protocol: str
    listener_name: str
    client_address: str
    default: Callable[[], KafkaPrincipal]
    mechanism: str | None = None
    user: str | None = None
    token_authenticated: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    certificate: bytes | None = None


class KafkaPrincipalSerde(Protocol):
    """Turns principals into bytes and back; what a principal builder of one's own brings with it."""

    def serialize(self, principal: KafkaPrincipal) -> bytes:
        """Give the bytes of a principal."""
        ...

    def deserialize(self, data: bytes) -> KafkaPrincipal:
        """Give the principal; PrincipalError when the bytes are none."""
        ...


class PrincipalBuilder(Protocol):
    """Makes principals; must answer at once. One that is also a `KafkaPrincipalSerde` can be used on a node."""

    def build(self, context: AuthenticationContext) -> KafkaPrincipal:
        """Give who the peer is; any exception refuses it."""
        ...
