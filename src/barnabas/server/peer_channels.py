"""How this node connects to other nodes of its cluster: the security of its own, outgoing connections.

A node is a client of its fellows, by the settings of the listener that it connects to: that listener's protocol, its
`ssl.*` keys (as trust and as own certificate), and the mechanism and credentials of inter-broker or controller SASL.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.core.sasl.client import SaslClient, client_mechanism
from barnabas.core.sasl.jaas import JaasError, LoginModule, parse_jaas
from barnabas.core.sasl.mechanisms import MECHANISMS, gssapi, oauthbearer
from barnabas.model.config import ConfigError, Password
from barnabas.net import bearer_tokens, kerberos_logins
from barnabas.net.bearer_tokens import BearerTokens
from barnabas.net.client import ChannelSettings
from barnabas.net.kerberos_logins import KerberosLogins
from barnabas.net.tls import ClientTls, TlsConfig
from barnabas.server.config import TABLE

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

_NONCE_BYTES: Final = 24


def peer_settings(config: NodeConfig, listener_name: str, client_id: str) -> ChannelSettings:
    """Give what connections of this node to the listener `listener_name` of other nodes share.

    client_id: what they log us as. Certificate files are looked at anew for each connection that is made. ConfigError
    names the key when credentials are missing or cannot be used. `dataclasses.replace` changes the timeouts.
    """
    protocol = config.security_protocol(listener_name)
    tls = ClientTls(TlsConfig.parse(config.tls_settings(listener_name))) if protocol in ("SSL", "SASL_SSL") else None
    return ChannelSettings(
        client_id=client_id,
        tls=tls,
        sasl=_sasl(config, listener_name) if protocol.startswith("SASL_") else None,
        connect_timeout_ms=config["socket.connection.setup.timeout.ms"],
        request_timeout_ms=config["request.timeout.ms"],
    )


def _sasl(config: NodeConfig, listener_name: str) -> Callable[[str], SaslClient | Awaitable[SaslClient]]:
    to_controllers = listener_name.upper() in config.controller_listener_names
    mechanism_key = f"sasl.mechanism.{'controller' if to_controllers else 'inter.broker'}.protocol"
    mechanism: str = config.on_listener(listener_name, mechanism_key)
    key = f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if mechanism == oauthbearer.NAME:
        tokens = _bearer_tokens(config, listener_name, key)
        return lambda host: tokens.exchange()
    if mechanism == gssapi.NAME:
        try:
            return _kerberos_logins(config, listener_name, key).exchange
        except ConfigError as e:
            raise ConfigError(f"{mechanism_key}={mechanism}: {e}") from None
    user, password = _credentials(key, config.on_mechanism(listener_name, mechanism, "sasl.jaas.config"))
    made = partial(client_mechanism, mechanism, user, password.secret, _new_nonce)
    try:
        made()
    except ValueError:
        raise ConfigError(
            f"{mechanism_key}={mechanism}: this node cannot log in so; want one of {', '.join(MECHANISMS)}"
        ) from None
    return lambda host: SaslClient(mechanism, made())


def _bearer_tokens(config: NodeConfig, listener_name: str, key: str) -> BearerTokens:
    settings = _texts(config, listener_name, oauthbearer.NAME, bearer_tokens.KEYS)
    return bearer_tokens.bearer_tokens(settings, _options(config, listener_name, oauthbearer.NAME, key))


def _kerberos_logins(config: NodeConfig, listener_name: str, key: str) -> KerberosLogins:
    settings = _texts(config, listener_name, gssapi.NAME, kerberos_logins.KEYS)
    return kerberos_logins.kerberos_logins(settings, _options(config, listener_name, gssapi.NAME, key))


def _texts(config: NodeConfig, listener_name: str, mechanism: str, keys: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in keys:
        value = config.on_mechanism(listener_name, mechanism, name) if name in TABLE else None
        if value is not None:
            found[name] = value.secret if isinstance(value, Password) else str(value)
    return found


def _options(config: NodeConfig, listener_name: str, mechanism: str, key: str) -> Mapping[str, str]:
    jaas = config.on_mechanism(listener_name, mechanism, "sasl.jaas.config")
    return {} if jaas is None else _login_module(key, jaas).options


def _login_module(key: str, jaas: Password) -> LoginModule:
    try:
        return parse_jaas(jaas.secret)
    except JaasError as e:
        raise ConfigError(f"{key}: {e}") from None


def _credentials(key: str, jaas: Password | None) -> tuple[str, Password]:
    if jaas is None:
        raise ConfigError(f'{key} is missing: want "...LoginModule required username=\\"...\\" password=\\"...\\";"')
    module = _login_module(key, jaas)
    if module.username is None or module.password is None:
        raise ConfigError(f"{key} has no username and password: this node logs in to others by them")
    return module.username, Password(module.password)


def _new_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)
