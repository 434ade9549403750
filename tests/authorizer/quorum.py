"""Controllers that log in to each other by PLAIN, some of which stay down: a cluster that does not know its rules."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from barnabas.core.forwarding.envelope import wrap
from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.config import AUTHORIZERS, NodeConfig
from barnabas.server.node import Node
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.envelope import EnvelopeRequest
from tests.forwarding.scripted import client_request
from tests.server.frames import FramePeer
from tests.server.raft.quorums import WAIT_S, Quorum
from tests.server.requests import build

T = TypeVar("T")
USERS: Final = ("ctl", "root", "broker", "alice")
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def secured(user: str = "ctl", **settings: str) -> dict[str, str]:
    """Give the settings of nodes with StandardAuthorizer, denying by default; user: as whom a node logs in to others.

    settings: further keys, with `__` for a dot.
    """
    accepted = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    jaas = f'{_PLAIN} required username="{user}" password="{user}-secret" {accepted};'
    return {
        "authorizer.class.name": AUTHORIZERS[1],
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "listener.name.clients.plain.sasl.jaas.config": jaas,
        "super.users": "User:ctl;User:root;User:broker",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


def broker(port: int) -> dict[str, str]:
    """Give the keys that make a node of a quorum a broker."""
    return {
        "process.roles": "broker",
        "listeners": f"CLIENTS://localhost:{port}",
        "inter.broker.listener.name": "CLIENTS",
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "60000",
    }


@contextlib.asynccontextmanager
async def brief(quorum: Quorum, *node_ids: int) -> AsyncIterator[Quorum]:
    """Run nodes, all of the voters unless some are named; at the end they take leave of nobody, which is quicker."""
    try:
        await quorum.start(*(node_ids or quorum.voters))
        yield quorum
    finally:
        await asyncio.gather(*(node.stop(clean=False) for node in quorum.nodes.values()))
        quorum.nodes.clear()


@contextlib.asynccontextmanager
async def starting(quorum: Quorum, node_id: int) -> AsyncIterator[Node]:
    """Start a node that cannot come to know the metadata yet; its early listeners are open when the block begins."""
    if not quorum.directory_of(node_id).exists():
        quorum.format(node_id)
    node = Node(NodeConfig.parse(quorum.properties(node_id)))
    task = asyncio.create_task(node.start())
    try:
        await opened(quorum.ports[node_id], task)
        yield node
    finally:
        if task.done() and task.exception() is None:
            await node.stop(clean=False)
        else:
            task.cancel()  # stops what it had begun
            await asyncio.wait([task])


async def opened(port: int, task: asyncio.Task[None]) -> None:
    """Wait until somebody listens at a port, as long as `task` goes on."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection("localhost", port)
                writer.close()
                return
            if task.done():
                task.result()
            await asyncio.sleep(0.01)


async def spoken(port: int, user: str, talk: Callable[[FramePeer], T]) -> T:
    """Give what `talk` gives, over a connection of `user`'s; it may block."""

    def session() -> T:
        with FramePeer(port) as peer:
            assert peer.login(user).error_code == 0
            return talk(peer)

    return await asyncio.to_thread(session)


async def asked(port: int, user: str, key: ApiKey, **fields: Any) -> Any:
    """Ask one question over a connection of its own."""
    return await spoken(port, user, lambda peer: peer.call(build(key, **fields)))


def enveloped(user: str, key: ApiKey, **fields: Any) -> EnvelopeRequest:
    """Give the Envelope of a request that `user` is to have made."""
    _, frame = client_request(build(key, **fields))
    return wrap(frame, KafkaPrincipal("User", user), "192.0.2.9", DefaultPrincipalSerde())


def quorum_of(directory: Path, **shape: Any) -> Quorum:
    """Give a quorum of three with static voters."""
    return Quorum(directory, static=True, **shape)


async def knocked(port: int) -> None:
    """Try a few times to be let in; nobody may answer."""
    for _ in range(5):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            continue
        writer.write(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")  # ApiVersions v0
        with pytest.raises((TimeoutError, OSError, asyncio.IncompleteReadError)):
            async with asyncio.timeout(0.05):
                await reader.readexactly(4)
        writer.close()
