"""A controller that cannot know its rules yet, because the others of its quorum are down (KIP-801)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from barnabas.server.config import NodeConfig
from barnabas.server.handlers import CONTROLLER
from barnabas.server.node import Node
from barnabas.server.router import Router
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from tests.forwarding.scripted import request_with_elements
from tests.server.frames import FramePeer
from tests.server.raft.quorums import Quorum
from tests.server.requests import error_codes

from .quorum import asked, broker, enveloped, knocked, quorum_of, secured, spoken, starting

pytestmark = pytest.mark.slow
K = ApiKey
BROKER = 4
NOT_READY = ErrorCode.AUTHORIZER_NOT_READY
TOPICS: dict[str, Any] = {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000}
WITHOUT_RIGHTS = {K.API_VERSIONS, K.SASL_HANDSHAKE, K.SASL_AUTHENTICATE}


@pytest.fixture
def quorum(tmp_path: Path) -> Quorum:
    return quorum_of(tmp_path, settings=secured())


@pytest.mark.requirement("A-22", "A-23")
async def test_super_users_are_served_before_anything_is_loaded(quorum: Quorum) -> None:
    async with starting(quorum, 1):
        answer = await asked(quorum.ports[1], "root", K.CREATE_TOPICS, **TOPICS)
    assert [t.error_code for t in answer.topics] == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.requirement("A-24", "A-25", "A-27")
async def test_what_others_ask_by_way_of_a_broker_is_not_ready(quorum: Quorum) -> None:
    def talk(peer: FramePeer) -> list[int]:
        ordinary, super_user = (enveloped(user, K.CREATE_TOPICS, **TOPICS) for user in ("alice", "root"))
        return [peer.call(what, version).error_code for what in (ordinary, super_user) for version in (1, 0)]

    async with starting(quorum, 1):
        codes = await spoken(quorum.ports[1], "root", talk)
    assert codes == [NOT_READY, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER]


@pytest.mark.requirement("A-17", "A-24", "A-25")
@pytest.mark.parametrize("open_by_default", ["false", "true"])
async def test_whatever_else_is_asked_is_refused_as_any_fault_would_be(tmp_path: Path, open_by_default: str) -> None:
    quorum = quorum_of(tmp_path, settings=secured(allow__everyone__if__no__acl__found=open_by_default))
    rows = [row for row in Router(CONTROLLER, listener="controller").rows if row.key not in WITHOUT_RIGHTS]
    # A new cluster's own log knows of no rule: where everybody may do what no rule is about, nodes may form a quorum.
    among_nodes = {row.key for row in rows if row.cluster_action} if open_by_default == "true" else set()

    def talk(peer: FramePeer) -> dict[ApiKey, set[int]]:
        found = {}
        for row in rows:
            if row.key not in among_nodes:
                request = request_with_elements(row, row.max_version)
                found[row.key] = set(error_codes(peer.call(request, row.max_version)))
        return found

    async with starting(quorum, 1):
        codes = await spoken(quorum.ports[1], "alice", talk)
        # By way of an Envelope it says what is the matter, there alone.
        outer = await spoken(quorum.ports[1], "alice", lambda peer: peer.call(enveloped("root", K.CREATE_ACLS), 1))
    assert [codes[key] for key in (K.CREATE_ACLS, K.DESCRIBE_ACLS, K.CREATE_PARTITIONS)] == [{-1}] * 3
    assert {key: found for key, found in codes.items() if found <= {0}} == {}
    assert [key for key, found in codes.items() if NOT_READY in found and key is not K.ENVELOPE] == []
    assert outer.error_code == (NOT_READY if open_by_default == "false" else ErrorCode.NOT_CONTROLLER)


@pytest.mark.requirement("A-24")
async def test_once_it_has_loaded_it_answers_by_the_rules(quorum: Quorum) -> None:
    async with starting(quorum, 1) as first, starting(quorum, 2):
        async with asyncio.timeout(60):
            await first.metadata.caught_up()
            while not first.image().offset_epoch.offset > 0:
                await first.next_image()
        answer = await asked(quorum.ports[1], "alice", K.CREATE_ACLS, creations=[{"resource_type": 2}])
    assert [r.error_code for r in answer.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


@pytest.mark.requirement("A-22")
async def test_a_listener_that_is_not_named_stays_shut(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, settings=secured(early__start__listeners=""))
    quorum.format(1)
    node = Node(NodeConfig.parse(quorum.properties(1)))
    task = asyncio.create_task(node.start())
    await node.kraft.metadata.opened()
    await knocked(quorum.ports[1])
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.requirement("A-22", "A-23", "A-24")
async def test_clients_listeners_can_be_early_too(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    own = {BROKER: {**broker(port), "early.start.listeners": "clients"}}
    quorum = quorum_of(tmp_path, others=(BROKER,), settings=secured(), own=own)
    keys = (K.METADATA, K.DESCRIBE_CLUSTER, K.LIST_GROUPS, K.LIST_OFFSETS, K.FETCH, K.DESCRIBE_ACLS, K.DESCRIBE_CONFIGS)

    def talk(peer: FramePeer) -> list[set[int]]:
        rows = [API_KEYS[key] for key in keys]
        return [set(error_codes(peer.call(request_with_elements(row, row.max_version)))) for row in rows]

    quorum.ports[BROKER] = port
    async with starting(quorum, BROKER):
        by_super_user = await spoken(port, "root", talk)
        by_alice = await spoken(port, "alice", talk)
    assert not any({-1, NOT_READY} & codes for codes in by_super_user)
    assert not any(codes <= {0} or NOT_READY in codes for codes in by_alice[2:])
    assert by_alice[-2] == {-1}


@pytest.mark.requirement("H-17")
async def test_a_node_that_waits_says_so_again_and_again(quorum: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.waiting.SAY_EVERY_S", 0.05)
    event = "waiting for the cluster's metadata and its ACLs"
    with capture_logs() as lines:
        async with starting(quorum, 1), asyncio.timeout(60):
            while sum(line["event"] == event for line in lines) < 3:  # noqa: ASYNC110 - log lines have no event
                await asyncio.sleep(0.02)
    said = next(line for line in lines if line["event"] == event)
    assert (said["leader"], said["applied_offset"], said["wanted_offset"]) == (None, 0, None)
    assert "no controller leads" in said["because"]
