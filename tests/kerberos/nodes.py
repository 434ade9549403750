"""Nodes of ours that know each other by Kerberos alone, and clients of theirs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from barnabas.client.config import ClientConfig
from barnabas.client.security import channel_settings
from barnabas.net.client import Channel
from tests.forwarding.in_process import InProcess
from tests.sessions.nodes import WorkingClock

from .kdc import REALM, SERVICE, Kdc, by_key_table

LIFE_MS: Final = 3000
"""Clients renew a session 150 ms before its end at the latest, on a clock that goes while they are at work."""
OTHER_REALM_RULE: Final = f"RULE:[2:$1-$2@$0](admin-.*@{REALM})s/@.*//U"


class KerberosNodes(InProcess):
    """A controller and two brokers. Between them everything is GSSAPI; PLAIN is there for tests that ask by frames."""

    def __init__(self, folder: Path, kdc: Kdc, **settings: str) -> None:
        self._kdc = kdc
        self.conduct = self._clock = WorkingClock()
        super().__init__(folder, controllers=(101,), brokers=(1, 2), **settings)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._clock)
            super().__enter__()
            self._running = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._running:
            super().__exit__(*exc)

    def config(self, node_id: int) -> dict[str, str]:
        """Give a node's properties."""
        found = super().config(node_id)
        jaas = by_key_table(self._kdc.service(), SERVICE)
        broker = {"advertised.listeners": f"CLIENTS://localhost:{self.ports[node_id]}"}
        return {
            **found,
            **({} if node_id in self.controllers else broker),
            "sasl.enabled.mechanisms": "PLAIN,GSSAPI",
            "sasl.mechanism.controller.protocol": "GSSAPI",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.controller.gssapi.sasl.jaas.config": jaas,
            "listener.name.clients.gssapi.sasl.jaas.config": jaas,
            "sasl.kerberos.principal.to.local.rules": f"{OTHER_REALM_RULE},DEFAULT",
            "super.users": "User:root;User:kafka;User:alice",
            "connections.max.reauth.ms": str(LIFE_MS),
            **self._settings,
        }

    @property
    def bootstrap(self) -> str:
        """Where broker 1 is."""
        return f"localhost:{self.ports[1]}"


def settings_of(bootstrap: str, jaas: str, **more: Any) -> dict[str, str]:
    """Give a client's settings."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": jaas,
        **{key.replace("__", "."): str(value) for key, value in more.items()},
    }


def client(bootstrap: str, jaas: str, **more: Any) -> ClientConfig:
    """Give a client of ours."""
    return ClientConfig.from_properties(settings_of(bootstrap, jaas, **more))


def same_client(config: ClientConfig) -> Callable[[], Coroutine[Any, Any, None]]:
    """Give what logs in at a node, over a connection of its own each time, as one client does."""
    settings, (host, port) = channel_settings(config), config.bootstrap[0]

    async def once() -> None:
        await (await Channel.open(host, port, settings)).close()

    return once


async def open_channel(config: ClientConfig) -> None:
    """Log in once."""
    await same_client(config)()
