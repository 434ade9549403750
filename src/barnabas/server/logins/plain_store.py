"""What user names and passwords of PLAIN are checked against: the listener's JAAS entry, or a class of one's own.

`listener.name.<name>.plain.sasl.server.callback.handler.class` names it as `package.module:Class`, or by an entry
point in the group `barnabas.credential_stores`::

    class FromTheVault:
        def configure(self, configs, options):
            self._vault = open_vault(options["vault"])  # options: of the listener's JAAS entry

        def authenticate(self, user, password):
            return self._vault.knows(user, password)

It is made once a listener and asked in the node's own loop, so that it must answer at once: what is far away is to be
fetched beforehand. It should take as long for a user that does not exist (`hmac.compare_digest`). What it raises
refuses the login; the log says why and the client does not hear it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.core.sasl.exchange import AuthenticationError, shown
from barnabas.core.sasl.jaas import JaasError, parse_jaas
from barnabas.core.sasl.mechanisms import plain
from barnabas.core.sasl.mechanisms.plain import VerifyPassword, verify_in
from barnabas.model.config import ConfigError
from barnabas.server.plugins import load

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

log = structlog.get_logger("kafka.security.plain")

HANDLER: Final = "sasl.server.callback.handler.class"
KAFKAS_OWN: Final = "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"
ENTRY_POINTS: Final = "barnabas.credential_stores"
_JAAS: Final = "sasl.jaas.config"


def password_check(config: NodeConfig, listener: str) -> VerifyPassword:
    """Give what passwords on a listener are checked by; ConfigError names the key that is missing or wrong."""
    prefix = f"listener.name.{listener.lower()}.plain."
    text = config.on_mechanism(listener, plain.NAME, _JAAS)
    name = config.handler_of(listener, plain.NAME)
    try:
        module = None if text is None else parse_jaas(text.secret)
    except JaasError as e:
        raise ConfigError(f"{prefix}{_JAAS}: {e}") from None
    if name is not None and name != KAFKAS_OWN:
        return _from_plugin(f"{prefix}{HANDLER}", name, config, {} if module is None else dict(module.options))
    if module is None:
        raise ConfigError(f'{prefix}{_JAAS} is missing: want "...PlainLoginModule required user_alice=\\"password\\";"')
    return verify_in(module.user_passwords())


def _from_plugin(key: str, name: str, config: NodeConfig, options: dict[str, str]) -> VerifyPassword:
    found = load(key, name, ENTRY_POINTS)
    store = found() if isinstance(found, type) else None
    authenticate: Any = getattr(store, "authenticate", None)
    if not callable(authenticate):
        raise ConfigError(f"{key}: {name} is not a class with a method authenticate(user, password)")
    configure = getattr(store, "configure", None)
    if configure is not None:
        configure(config.originals, options)

    def verify(user: str, password: str) -> bool:
        try:
            # Nothing but True opens: a coroutine, say, would be true as well.
            return authenticate(user, password) is True
        except Exception as e:
            log.exception("a store of credentials failed", key=key)
            raise AuthenticationError(f"{key} failed for {shown(user)}: {e}") from e

    return verify
