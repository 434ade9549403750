"""Nodes that start while strangers knock: nothing is answered before the rules are known, and nothing against them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.server.config import NodeConfig
from barnabas.server.format import random_uuid
from barnabas.server.node import Node
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from tests.server.frames import FramePeer
from tests.server.raft.quorums import WAIT_S, Quorum

from .hammer import NOTHING, SECRET, Hammer, rule
from .quorum import asked, brief, broker, knocked, quorum_of, secured

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
BROKER = 4
RULES = 100
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

    async with brief(quorum):
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
            await alone.kraft.metadata.opened()
            await knocked(port)
            assert alice.answers == answers  # no controller can be reached: the clients' port answers nothing
            async with brief(quorum), asyncio.timeout(WAIT_S):
                await starting
                try:
                    await asyncio.to_thread(alice.wait_for, shown, 5)
                finally:
                    await alone.stop(clean=False)
    assert set(alice.seen) == {shown}
    assert NOTHING not in alice.seen


@pytest.mark.requirement("A-16")
async def test_a_node_is_up_when_it_knows_all_that_was_committed_when_it_came(tmp_path: Path) -> None:
    """What it lacks comes in many small pieces, and after the first its log ends with something committed already."""
    quorum = quorum_of(tmp_path, settings=secured(controller__quorum__fetch__max__bytes="500"))

    def written(n: int) -> Callable[[MetadataImage], Decision[None]]:
        record = AccessControlEntryRecord(
            id=random_uuid(), resource_type=2, resource_name=f"t{n}", pattern_type=3, principal="User:bob", host="*",
            operation=3, permission_type=3,
        )  # fmt: skip
        return lambda _: Decision((VersionedRecord(record, 0),), None)

    async with brief(quorum, 1, 2):
        leader = await quorum.leader()
        for n in range(RULES):
            await leader.controller.write(written(n))
        fetched = leader.replica.node.log_end_offset
        await quorum.start(3)
        assert fetched > RULES
        assert quorum.nodes[3].acl_count() == RULES
