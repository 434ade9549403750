"""What each listener's SASL mechanisms check against.

Passwords for PLAIN come from `listener.name.<name>.plain.sasl.jaas.config`, credentials and delegation tokens for SCRAM
from the metadata image of the moment, so that a change of them counts from the next login on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.scram import ScramMechanism
from barnabas.core.sasl.exchange import ServerMechanism
from barnabas.core.sasl.jaas import JaasError, parse_jaas
from barnabas.core.sasl.mechanisms import MECHANISMS, plain
from barnabas.core.sasl.mechanisms.plain import PlainServer, VerifyPassword, verify_in
from barnabas.core.sasl.mechanisms.scram import (
    ALGORITHMS,
    ScramAlgorithm,
    ScramServer,
    StoredCredential,
    TokenCredential,
)
from barnabas.model.config import ConfigError, Password
from barnabas.model.ports import Clock

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.core.metadata.token_secrets import TokenSecrets
    from barnabas.server.config import NodeConfig

NewExchange = Callable[[], ServerMechanism]
_NONCE_BYTES: Final = 24
_DECOY_BYTES: Final = 32
_JAAS: Final = "sasl.jaas.config"


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

    def of_listener(self, listener: str) -> Mapping[str, NewExchange]:
        """Give what begins an exchange, by mechanism offered; ConfigError when one is set up wrongly."""
        enabled = self._config.on_listener(listener, "sasl.enabled.mechanisms")
        if not enabled:
            raise ConfigError(f"sasl.enabled.mechanisms is empty, and listener {listener} logs in by SASL")
        return {name: self._exchanges(listener, name) for name in enabled}

    def _exchanges(self, listener: str, name: str) -> NewExchange:
        if name == plain.NAME:
            return partial(PlainServer, _plain_users(self._config, listener))
        if name in ALGORITHMS:
            look_up = partial(self._credential, ALGORITHMS[name])
            look_up_token = None if self._token_secrets is None else partial(self._token, ALGORITHMS[name])
            return partial(ScramServer, ALGORITHMS[name], look_up, new_nonce, self._decoy_secret, look_up_token)
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


def _plain_users(config: NodeConfig, listener: str) -> VerifyPassword:
    text = config.on_mechanism(listener, plain.NAME, _JAAS)
    key = f"listener.name.{listener.lower()}.plain.{_JAAS}"
    if text is None:
        raise ConfigError(f'{key} is missing: want "...PlainLoginModule required user_alice=\\"password\\";"')
    try:
        return verify_in(parse_jaas(text.secret if isinstance(text, Password) else text).user_passwords())
    except JaasError as e:
        raise ConfigError(f"{key}: {e}") from None
