"""What each listener's SASL mechanisms check against.

Credentials and delegation tokens for SCRAM come from the metadata image of the moment, so that a change of them counts
from the next login on; PLAIN, OAUTHBEARER and GSSAPI have a module each.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.core.metadata.scram import ScramMechanism
from barnabas.core.sasl.exchange import ServerMechanism
from barnabas.core.sasl.mechanisms import MECHANISMS, gssapi, oauthbearer, plain
from barnabas.core.sasl.mechanisms.oauthbearer import OAuthBearerServer
from barnabas.core.sasl.mechanisms.plain import PlainServer
from barnabas.core.sasl.mechanisms.scram import (
    ALGORITHMS,
    ScramAlgorithm,
    ScramServer,
    StoredCredential,
    TokenCredential,
)
from barnabas.model.config import ConfigError
from barnabas.model.ports import Clock
from barnabas.server.logins.kerberos import acceptor
from barnabas.server.logins.oauth import validator
from barnabas.server.logins.plain_store import password_check

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.core.metadata.token_secrets import TokenSecrets
    from barnabas.server.config import NodeConfig
    from barnabas.server.logins.jwks import KeySource

log = structlog.get_logger("kafka.security.logins")

NewExchange = Callable[[], ServerMechanism]
_NONCE_BYTES: Final = 24
_DECOY_BYTES: Final = 32
_MAX_REAUTH: Final = "connections.max.reauth.ms"


class Mechanisms:
    """The mechanisms of a node's listeners. image: gives the metadata of the moment."""

    def __init__(
        self, config: NodeConfig, image: Callable[[], MetadataImage], token_secrets: TokenSecrets | None, clock: Clock
    ) -> None:
        self._config = config
        self._image = image
        self._token_secrets = token_secrets
        self._clock = clock
        # Of this process only: after a restart a decoy's salt differs, which tells a stranger no more than a
        # changed password would.
        self._decoy_secret = secrets.token_bytes(_DECOY_BYTES)
        self._sources: list[KeySource] = []

    def of_listener(self, listener: str) -> Mapping[str, NewExchange]:
        """Give what begins an exchange, by mechanism offered; ConfigError when one is set up wrongly."""
        enabled = self._config.on_listener(listener, "sasl.enabled.mechanisms")
        if not enabled:
            raise ConfigError(f"sasl.enabled.mechanisms is empty, and listener {listener} logs in by SASL")
        found = {name: self._exchanges(listener, name) for name in enabled}
        self._warn_of_endless_sessions(listener, enabled)
        return found

    def _warn_of_endless_sessions(self, listener: str, enabled: Sequence[str]) -> None:
        ending = [n for n in enabled if n == oauthbearer.NAME or (n in ALGORITHMS and self._token_secrets is not None)]
        endless = [n for n in ending if self._config.on_mechanism(listener, n, _MAX_REAUTH) <= 0]
        if endless:
            log.warning(
                f"sessions go on after the token that began them has ended: set {_MAX_REAUTH}",
                listener=listener,
                mechanisms=endless,
            )

    async def start(self) -> None:
        """Have the keys that tokens are signed with; ConfigError when they are not to be had."""
        for source in self._sources:
            await source.start()

    async def run(self) -> None:
        """Keep those keys fresh."""
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(source.run(), name="keys of tokens")

    def _exchanges(self, listener: str, name: str) -> NewExchange:
        if name == plain.NAME:
            return partial(PlainServer, password_check(self._config, listener))
        if name in ALGORITHMS:
            look_up = partial(self._credential, ALGORITHMS[name])
            look_up_token = None if self._token_secrets is None else partial(self._token, ALGORITHMS[name])
            return partial(ScramServer, ALGORITHMS[name], look_up, new_nonce, self._decoy_secret, look_up_token)
        if name == oauthbearer.NAME:
            validate, source = validator(self._config, listener, self._clock)
            if source is not None:
                self._sources.append(source)
            return partial(OAuthBearerServer, validate)
        if name == gssapi.NAME:
            return acceptor(self._config, listener)
        raise ConfigError(f"sasl.enabled.mechanisms={name}: want some of {', '.join(MECHANISMS)}")

    def _credential(self, algorithm: ScramAlgorithm, user: str) -> StoredCredential | None:
        return self._image().scram.get(ScramMechanism.of(algorithm.code), user)

    def _token(self, algorithm: ScramAlgorithm, token_id: str) -> TokenCredential | None:
        tokens = self._image().tokens
        token = tokens.by_id.get(token_id)
        if self._token_secrets is None or token is None or token.expired(self._clock.now_ms()):
            return None
        credential = self._token_secrets.credential(algorithm, tokens, token_id)
        return None if credential is None else TokenCredential(credential, token.owner.name, token.expiry_timestamp)


def new_nonce() -> str:
    """Give the server's part of a SCRAM nonce: 192 bits, printable, without a comma."""
    return secrets.token_urlsafe(_NONCE_BYTES)
