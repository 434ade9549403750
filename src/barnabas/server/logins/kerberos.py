"""How a listener takes tickets of Kerberos: the node's keys, and the users that Kerberos names stand for.

The keys are those of the principal that `sasl.jaas.config` names for Krb5LoginModule. Whoever a ticket belongs to
becomes a user by `sasl.kerberos.principal.to.local.rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.core.sasl.jaas import JaasError, parse_jaas
from barnabas.core.sasl.kerberos_names import KEY as RULES
from barnabas.core.sasl.kerberos_names import KerberosName, KerberosRuleError, ShortNamer
from barnabas.core.sasl.mechanisms.gssapi import NAME, GssapiServer
from barnabas.model.config import ConfigError
from barnabas.net.kerberos_logins import MISSING, SERVICE, service_name, source

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

log = structlog.get_logger("kafka.security.kerberos")

_JAAS: Final = "sasl.jaas.config"
_OFFERED: Final = "sasl.enabled.mechanisms"


def acceptor(config: NodeConfig, listener: str) -> Callable[[], GssapiServer]:
    """Give what begins an exchange on a listener; ConfigError names the key that is missing or wrong."""
    try:
        return _acceptor(config, listener)
    except ConfigError as e:
        if not {_OFFERED, f"listener.name.{listener.lower()}.{_OFFERED}"}.isdisjoint(config.originals):
            raise
        raise ConfigError(
            f"{_OFFERED} is not set, which stands for {NAME} (Kerberos), as in Kafka: set it. {e}"
        ) from None


def _acceptor(config: NodeConfig, listener: str) -> Callable[[], GssapiServer]:
    key = f"listener.name.{listener.lower()}.gssapi.{_JAAS}"
    try:
        from barnabas.net.kerberos import Acceptor
    except ImportError as e:
        raise ConfigError(f"listener {listener} offers {NAME}, which {MISSING.removeprefix(NAME)[1:]} ({e})") from None
    options = _options(config, listener, key)
    service = service_name(config.on_mechanism(listener, NAME, SERVICE), options)
    try:
        found = source(options)
        if found.key_table is None or found.principal is None:
            raise ConfigError(f"{_JAAS}: a node wants useKeyTab=true with keyTab and principal")
    except ConfigError as e:
        raise ConfigError(f"{str(e).replace(_JAAS, key, 1)}") from None
    namer = short_namer(config, listener)
    try:
        accepting = Acceptor(found.key_table, found.principal)
    except ValueError as e:
        raise ConfigError(f"{key}: {e}") from None
    if KerberosName.parse(found.principal).service != service:
        log.warning(
            "clients ask for another service than this node has keys of",
            listener=listener, principal=found.principal, service=service,
        )  # fmt: skip
    return lambda: GssapiServer(accepting.context(), namer.short_name)


def short_namer(config: NodeConfig, listener: str) -> ShortNamer:
    """Give the rules of a listener; ConfigError for one that cannot be read, or can only fail."""
    from barnabas.net.kerberos import default_realm

    try:
        namer = ShortNamer.parse(default_realm(), config.on_mechanism(listener, NAME, RULES))
    except KerberosRuleError as e:
        raise ConfigError(str(e)) from None
    for problem in namer.problems:
        raise ConfigError(problem)
    return namer


def own_user(config: NodeConfig, listener: str, principal: str) -> str | None:
    """Give the user that the node itself is to its fellows, None where no rule says it."""
    try:
        namer = short_namer(config, listener)
        name = principal if "@" in principal else f"{principal}@{namer.default_realm}"
        return namer.short_name(name)
    except (ImportError, ValueError):
        return None  # whoever connects by it says what is wrong


def _options(config: NodeConfig, listener: str, key: str) -> dict[str, str]:
    text = config.on_mechanism(listener, NAME, _JAAS)
    if text is None:
        raise ConfigError(
            f'{key} is missing: want "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true '
            'storeKey=true keyTab=\\"FILE\\" principal=\\"kafka/HOST@REALM\\";"'
        )
    try:
        return dict(parse_jaas(text.secret).options)
    except JaasError as e:
        raise ConfigError(f"{key}: {e}") from None
