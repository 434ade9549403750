"""Delegation tokens on a node: over which connections they may be asked for, and by which settings (KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.token_changes import TokenRules
from barnabas.core.metadata.token_secrets import TokenSecrets
from barnabas.model.config import Password
from barnabas.model.principal import ANONYMOUS
from barnabas.server.format import random_uuid

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig
    from barnabas.server.context import RequestContext


def token_secrets(config: NodeConfig) -> TokenSecrets | None:
    """Give what tokens are proven by; None where `delegation.token.secret.key` is not set and there are none."""
    key: Password | None = config["delegation.token.secret.key"]
    return None if key is None or not key.secret else TokenSecrets(key.secret)


def token_rules(config: NodeConfig, secrets: TokenSecrets | None) -> TokenRules:
    """Give what the controller decides by."""
    return TokenRules(
        secrets=secrets,
        max_lifetime_ms=config["delegation.token.max.lifetime.ms"],
        expiry_time_ms=config["delegation.token.expiry.time.ms"],
        new_id=lambda: str(random_uuid()),
    )


def may_ask_for_tokens(ctx: RequestContext) -> bool:
    """Say whether tokens may be asked for and shown over this connection (H-10).

    Never by somebody who has come with a token, and only where it is known who asks. What is forwarded passes both
    nodes' check, the controller's with its own listener's protocol.
    """
    protocol = ctx.connection.security_protocol
    if ctx.principal.token_authenticated or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or str(ctx.principal) != str(ANONYMOUS)  # a builder's own kind of nobody is nobody too


def at_controller(ctx: RequestContext) -> bool:
    """Say whether a request is where it is decided: it came by a listener of the quorum, or from this process."""
    return ctx.privileged or ctx.forwarded_by is not None
