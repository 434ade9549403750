"""Nodes that start while strangers knock: nothing is answered before the rules are known, and nothing against them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.server.config import NodeConfig
from barnabas.server.node import Node
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import ApiKey
from tests.server.frames import FramePeer
from tests.server.raft.quorums import WAIT_S, Quorum, running

from .hammer import NOTHING, SECRET, Hammer, rule
from .quorum import asked, broker, knocked, secured

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
BROKER = 4
OPEN_TOPIC = "open"
"""A topic that no rule is about."""


@pytest.mark.requirement("A-16", "A-17")
async def test_a_stranger_never_gets_in_while_nodes_come_and_go(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    settings = secured(super__users="User:ctl;User:root", allow__everyone__if__no__acl__found="true")
    quorum = Quorum(tmp_path, static=True, voters=(1,), others=(BROKER,), settings=settings, own={BROKER: broker(port)})
    quorum.format(BROKER)

    def node() -> Node:
        return Node(NodeConfig.parse(quorum.properties(BROKER)))

    def connect() -> FramePeer:
        peer = FramePeer(port)
        peer.socket.settimeout(1)
        assert peer.login("alice").error_code == 0
        return peer

    async with running(quorum):
        first = node()
        await first.start()
        try:
            made = await asked(port, "root", ApiKey.CREATE_ACLS, creations=[rule(SECRET)])
            assert [r.error_code for r in made.results] == [0]
            while not len(first.image().acls.by_id):
                await first.next_image()
        finally:
            await first.stop()
    shown = frozenset({OPEN_TOPIC})
    with Hammer(connect, (SECRET, OPEN_TOPIC)) as alice:
        for _ in range(3):
            answers = alice.answers
            alone = node()
            starting = asyncio.create_task(alone.start())
            await alone.metadata.opened()
            await knocked(port)
            assert alice.answers == answers  # no controller can be reached: the clients' port answers nothing
            async with running(quorum), asyncio.timeout(WAIT_S):
                await starting
                try:
                    await asyncio.to_thread(alice.wait_for, shown, 5)
                finally:
                    await alone.stop(clean=False)
    assert set(alice.seen) == {shown}
    assert NOTHING not in alice.seen
