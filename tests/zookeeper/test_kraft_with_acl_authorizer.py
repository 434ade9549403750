"""A KRaft cluster asks ZooKeeper for its rules where AclAuthorizer is configured, and nowhere else (KIP-801)."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.authorizer.hammer import rule
from tests.authorizer.quorum import asked, brief, broker, secured
from tests.peers.zookeeper import ZooKeeper
from tests.server.raft.quorums import Quorum

pytestmark = pytest.mark.peer
ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
CONTROLLER, BROKER = 1, 2


async def seen_by(port: int, user: str, topic: str) -> ErrorCode:
    """Give what Metadata says of a topic."""
    answer = await asked(port, user, ApiKey.METADATA, topics=[{"name": topic}], allow_auto_topic_creation=False)
    return ErrorCode(answer.topics[0].error_code)


@pytest.mark.requirement("A-34")
async def test_rules_go_to_zookeeper_and_come_from_there(tmp_path: Path, zookeeper: ZooKeeper, chroot: str) -> None:
    port = free_ports(1)[0]
    settings = secured() | {
        "authorizer.class.name": ACL_AUTHORIZER,
        "zookeeper.connect": f"{zookeeper.connect}{chroot}",
        "zookeeper.set.acl": "true",
        "java.security.auth.login.config": str(zookeeper.client_jaas()),
    }
    own = {BROKER: broker(port)}
    quorum = Quorum(tmp_path, static=True, voters=(CONTROLLER,), others=(BROKER,), settings=settings, own=own)
    async with brief(quorum, CONTROLLER, BROKER):
        assert await seen_by(port, "alice", "orders") is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        made = await asked(port, "root", ApiKey.CREATE_ACLS, creations=[rule("orders", "alice")])
        assert [result.error_code for result in made.results] == [ErrorCode.NONE]
        async with asyncio.timeout(60):
            while await seen_by(port, "alice", "orders") is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                pass  # the broker hears of it from ZooKeeper
        async with ZooKeeperClient(zookeeper.settings("super", chroot)) as zk:
            data, _ = await zk.get("/kafka-acl/Topic/orders")
            assert b"User:alice" in data
        shown = await asked(
            port, "root", ApiKey.DESCRIBE_ACLS, resource_type_filter=1, pattern_type_filter=1, operation=1,
            permission_type=1, resource_name_filter=None, principal_filter=None, host_filter=None,
        )  # fmt: skip
        assert [(r.resource_name, len(r.acls)) for r in shown.resources] == [("orders", 1)]
        for node in quorum.nodes.values():
            assert not node.image().acls.by_id  # none stands in the metadata log


@pytest.mark.requirement("A-34")
async def test_nothing_asks_zookeeper_where_nothing_is_kept_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        port = free_ports(1)[0]
        settings = secured() | {"zookeeper.connect": f"127.0.0.1:{trap.getsockname()[1]}"}
        own = {BROKER: broker(port)}
        quorum = Quorum(tmp_path, static=True, voters=(CONTROLLER,), others=(BROKER,), settings=settings, own=own)
        async with brief(quorum, CONTROLLER, BROKER):
            made = await asked(port, "root", ApiKey.CREATE_ACLS, creations=[rule("orders", "alice")])
            assert [result.error_code for result in made.results] == [ErrorCode.NONE]
        with pytest.raises(BlockingIOError):
            trap.accept()
