"""As whom a node knows itself where it is broker and controller in one, so that no login says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.sasl.jaas import JaasError, parse_jaas
from barnabas.core.sasl.mechanisms import gssapi
from barnabas.model.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from barnabas.server.logins.kerberos import own_user

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig


def own_principal(config: NodeConfig) -> KafkaPrincipal:
    """Give the user by which the node would log in to the controller; ANONYMOUS where it has none."""
    listener, mechanism = config.controller_channel_listener, config.controller_channel_mechanism
    jaas = config.on_mechanism(listener, mechanism, "sasl.jaas.config")
    if jaas is None or not config.security_protocol(listener).startswith("SASL_"):
        return ANONYMOUS
    try:
        module = parse_jaas(jaas.secret)
    except JaasError:
        return ANONYMOUS  # whoever connects by it says what is wrong
    user = module.username
    if mechanism == gssapi.NAME:
        user = own_user(config, listener, module.options.get("principal", ""))
    return KafkaPrincipal(USER_TYPE, user) if user else ANONYMOUS
