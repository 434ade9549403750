"""Who a peer is, by `principal.builder.class`, and the bytes in which brokers tell controllers (KIP-189, KIP-590).

The key names Kafka's default builder or a Python class (see `model.principal_builder`), as `package.module:Class` or
by an entry point in the group `barnabas.principal_builders`::

    from dataclasses import dataclass, replace
    from barnabas.model.principal import KafkaPrincipal

    @dataclass(frozen=True, slots=True)
    class TenantPrincipal(KafkaPrincipal):
        tenant: str = ""

    class TenantBuilder:
        def build(self, context):
            who = context.default()
            return TenantPrincipal(who.principal_type, who.name, who.token_authenticated, context.listener_name)

        def serialize(self, principal): ...
        def deserialize(self, data): ...

It is made once a node, for all listeners; `configure`, when it has one, is given the node's properties.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.core.sasl.exchange import AuthenticationError, Verified
from barnabas.model.config import ConfigError
from barnabas.model.principal import USER_TYPE, KafkaPrincipal
from barnabas.model.principal_builder import (
    AuthenticationContext,
    KafkaPrincipalSerde,
    PrincipalBuilder,
    PrincipalError,
)
from barnabas.server.plugins import load

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig
    from barnabas.server.context import ClientConnection

log = structlog.get_logger("kafka.security.principals")

KEY: Final = "principal.builder.class"
DEFAULT_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
ENTRY_POINTS: Final = "barnabas.principal_builders"


class DefaultBuilder(DefaultPrincipalSerde):
    """Kafka's default: the user of SASL, the mapped name of the certificate, else ANONYMOUS."""

    def build(self, context: AuthenticationContext) -> KafkaPrincipal:
        """Give who the peer is."""
        return context.default()


class Principals:
    """The principal builder of a node. serde: how principals travel inside Envelopes."""

    __slots__ = ("_builder", "serde")

    def __init__(self, builder: PrincipalBuilder, serde: KafkaPrincipalSerde) -> None:
        self._builder = builder
        self.serde = serde

    @classmethod
    def load(cls, config: NodeConfig) -> Principals:
        """Make the builder that the node's file names; ConfigError when it cannot be had, or cannot serialize.

        In ZooKeeper mode among brokers of before 3.0, which forward nothing, one that cannot serialize is only warned
        of (F-32).
        """
        prefixed = next((n for n in config.originals if n.startswith("listener.name.") and n.endswith(f".{KEY}")), None)
        if prefixed is not None:
            raise ConfigError(f"{prefixed}: one builder serves all listeners of a node; set {KEY} instead")
        name = config[KEY]
        if name == DEFAULT_BUILDER:
            return cls(default := DefaultBuilder(), default)
        found = load(KEY, name, ENTRY_POINTS)
        builder = found() if isinstance(found, type) else None
        if not callable(getattr(builder, "build", None)):
            raise ConfigError(f"{KEY}: {name} is not a class with a method build (barnabas.model.principal_builder)")
        serializes = callable(getattr(builder, "serialize", None)) and callable(getattr(builder, "deserialize", None))
        if not serializes:
            _without_serde(config, name)
        configure = getattr(builder, "configure", None)
        if configure is not None:
            configure(config.originals)
        serde = _Guarded(cast(KafkaPrincipalSerde, builder))
        return cls(cast(PrincipalBuilder, builder), serde)

    def of_sasl(self, client: ClientConnection, mechanism: str, verified: Verified) -> KafkaPrincipal:
        """Give who has logged in by SASL; AuthenticationError when the builder refuses."""
        default = partial(KafkaPrincipal, USER_TYPE, verified.user, verified.token_authenticated)
        context = AuthenticationContext(
            security_protocol=client.security_protocol,
            listener_name=client.listener_name,
            client_address=client.host,
            default=default,
            mechanism=mechanism,
            user=verified.user,
            token_authenticated=verified.token_authenticated,
            attributes=verified.attributes,
        )
        try:
            return self._built(context)
        except Exception as e:
            raise AuthenticationError(f"{KEY} refuses {verified.user!r}: {e}") from e

    def of_peer(
        self,
        security_protocol: str,
        listener_name: str,
        host: str,
        certificate: bytes | None,
        default: Callable[[], KafkaPrincipal],
    ) -> KafkaPrincipal:
        """Give who is at the other end of a connection without SASL; ValueError when the builder refuses.

        default: gives what the certificate says, and may raise.
        """
        context = AuthenticationContext(
            security_protocol=security_protocol,
            listener_name=listener_name,
            client_address=host,
            default=default,
            certificate=certificate,
        )
        try:
            return self._built(context)
        except ValueError:
            raise
        except Exception as e:
            raise ValueError(f"{KEY} refuses it: {e}") from e

    def _built(self, context: AuthenticationContext) -> KafkaPrincipal:
        principal: Any = self._builder.build(context)
        if not isinstance(principal, KafkaPrincipal):
            raise TypeError(f"it gave {type(principal).__name__}, which is not a KafkaPrincipal")
        return principal


def _without_serde(config: NodeConfig, name: str) -> None:
    what = f"{KEY}: {name} has no serialize and deserialize (KafkaPrincipalSerde), and without them no request"
    if not config.is_zookeeper_mode or config.protocol_version.forwards:
        raise ConfigError(f"{what} can be forwarded to the controller in a client's name; give it both")
    log.warning(
        f"{what} is forwarded to the controller: this broker changes the cluster itself. Give it both before "
        f"inter.broker.protocol.version is raised from {config.protocol_version} to 3.0 or later"
    )


class _Guarded:
    """A serializer of somebody else's, whose mistakes are answered and logged like any other."""

    __slots__ = ("_serde",)

    def __init__(self, serde: KafkaPrincipalSerde) -> None:
        self._serde = serde

    def serialize(self, principal: KafkaPrincipal) -> bytes:
        """Give the bytes of a principal."""
        return self._serde.serialize(principal)

    def deserialize(self, data: bytes) -> KafkaPrincipal:
        """Give the principal; PrincipalError for whatever goes wrong."""
        try:
            principal: Any = self._serde.deserialize(data)
        except Exception as e:
            raise PrincipalError(f"{KEY} cannot read the principal: {e}") from e
        if not isinstance(principal, KafkaPrincipal):
            raise PrincipalError(f"{KEY} gave {type(principal).__name__} for a principal")
        return principal
