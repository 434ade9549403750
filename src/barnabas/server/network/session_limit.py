"""How long the sessions of clients may last, as it is configured (KIP-368)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

_MAX_REAUTH: Final = "connections.max.reauth.ms"


@dataclass(frozen=True, slots=True)
class SessionLimit:
    """How long sessions of a mechanism on a listener may last, 0 for without end, and by which key that was said."""

    key: str
    ms: int


def session_limit(config: NodeConfig, listener: str, mechanism: str) -> SessionLimit:
    """Give how long a mechanism's sessions on a listener may last (KIP-368); the most specific key counts."""
    on_listener = f"listener.name.{listener.lower()}."
    keys = (f"{on_listener}{mechanism.lower()}.{_MAX_REAUTH}", f"{on_listener}{_MAX_REAUTH}")
    key = next((key for key in keys if key in config.originals), _MAX_REAUTH)
    return SessionLimit(key, config.on_mechanism(listener, mechanism, _MAX_REAUTH))
