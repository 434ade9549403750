"""From a client's settings to what its connections need: TLS, SASL, time-outs."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from barnabas.client.config import ClientConfig
from barnabas.core.sasl.client import SaslClient, client_mechanism
from barnabas.model.config import ConfigError
from barnabas.net.bearer_tokens import bearer_tokens
from barnabas.net.client import ChannelSettings
from barnabas.net.kerberos_logins import KerberosLogins, kerberos_logins
from barnabas.net.tls import ClientTls, TlsConfig


def channel_settings(config: ClientConfig) -> ChannelSettings:
    """Give what all connections of this configuration share; ConfigError when its security cannot be set up."""
    return ChannelSettings(
        client_id=config["client.id"],
        tls=_tls(config),
        sasl=_sasl(config),
        connect_timeout_ms=config.integer("socket.connection.setup.timeout.ms"),
        request_timeout_ms=config.integer("request.timeout.ms"),
        send_buffer_bytes=config.integer("send.buffer.bytes"),
        receive_buffer_bytes=config.integer("receive.buffer.bytes"),
    )


def _tls(config: ClientConfig) -> ClientTls | None:
    return ClientTls(TlsConfig.parse(config.java_properties)) if config.uses_tls else None


def _sasl(config: ClientConfig) -> Callable[[str], SaslClient | Awaitable[SaslClient]] | None:
    if config.by_bearer_token:
        tokens = bearer_tokens(config.java_properties, config.jaas_options)
        return lambda host: tokens.exchange()
    if config.by_ticket:
        return _by_ticket(config).exchange
    credentials = config.sasl
    if credentials is None:
        return None
    mechanism, user, password, by_token = credentials

    def exchange() -> SaslClient:
        made = client_mechanism(mechanism, user, password.secret, lambda: secrets.token_urlsafe(24), by_token=by_token)
        return SaslClient(mechanism, made)

    try:
        exchange()
    except ValueError as e:
        raise ConfigError(str(e)) from None
    return lambda host: exchange()


def _by_ticket(config: ClientConfig) -> KerberosLogins:
    try:
        return kerberos_logins(config.java_properties, config.jaas_options)
    except ConfigError as e:
        if "sasl.mechanism" in config.java_properties:
            raise
        raise ConfigError(
            f"sasl.mechanism is not set, which stands for GSSAPI (Kerberos), as in Kafka: set it. {e}"
        ) from None
