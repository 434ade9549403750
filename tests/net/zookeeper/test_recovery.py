"""Connections that go, sessions that end, logins that fail for a while: the client recovers, and its owner knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.protocol.serialization import Close, Connect

from barnabas.core.zookeeper.errors import AuthFailedError, ConnectionLossError, SessionExpiredError
from barnabas.core.zookeeper.values import (
    CREATOR_ALL,
    OPEN_ACLS,
    READABLE,
    SessionState,
    WatchEvent,
    WatchKind,
    ZnodeId,
)
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.connection import Connection
from tests.peers.zookeeper import USERS, Setup, ZooKeeper

from .gate import Gate
from .seen import LIMIT_S, Seen

pytestmark = pytest.mark.peer
CONNECTED, SUSPENDED, EXPIRED, LOGIN_FAILED = (
    SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.LOGIN_FAILED,
)  # fmt: skip


@pytest.fixture
async def gate(zookeeper: ZooKeeper) -> AsyncIterator[Gate]:
    async with Gate(zookeeper.ports[0]) as found:
        yield found


@pytest.fixture
async def direct(zookeeper: ZooKeeper, chroot: str) -> AsyncIterator[ZooKeeperClient]:
    """Give a client that does not go through the gate, and below its chroot what all may change."""
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as client:
        await client.make_chroot(OPEN_ACLS)
        yield client


@pytest.fixture
async def zk(gate: Gate, direct: ZooKeeperClient) -> AsyncIterator[ZooKeeperClient]:
    """Give one that goes through the gate; it is started by the test."""
    client = ZooKeeperClient(replace(direct.settings, servers=(("127.0.0.1", gate.port),)))
    yield client
    await client.close()


async def end_session(zookeeper: ZooKeeper, client: ZooKeeperClient) -> None:
    """Have the server end a session, as if its time was over."""
    session = client._session
    assert session is not None
    connection = await Connection.open("127.0.0.1", zookeeper.ports[0], None, lambda *_: None)
    answer = await connection.hello(Connect(0, 0, 30_000, session.id, session._password, False))
    assert answer.time_out > 0
    await connection.ask(Close())
    connection.abort("done")
    await connection.lost


async def test_a_session_outlives_its_connection(zk: ZooKeeperClient, gate: Gate, direct: ZooKeeperClient) -> None:
    seen = Seen(zk)
    await zk.start()
    await zk.create("/mine", b"", OPEN_ACLS, ephemeral=True)
    session = zk.session_id
    await gate.cut()
    await seen.until(CONNECTED, 2)
    assert seen.states == [CONNECTED, SUSPENDED, CONNECTED]
    assert zk.session_id == session
    stat = await direct.exists("/mine")
    assert stat is not None
    assert stat.ephemeral_owner == session
    assert await zk.authenticated_id() == ZnodeId("sasl", "kafka")


async def test_watches_outlive_it_too(zk: ZooKeeperClient, gate: Gate, direct: ZooKeeperClient) -> None:
    watched: list[tuple[str, WatchEvent]] = []
    seen = Seen(zk)
    await zk.start()
    for path in ("/changed", "/parent", "/still", "/later"):
        await direct.create(path, b"", OPEN_ACLS)
    await zk.get("/changed", watch=lambda event: watched.append(("get", event)))
    await zk.children("/parent", watch=lambda event: watched.append(("children", event)))
    assert await zk.exists("/made", watch=lambda event: watched.append(("exists", event))) is None
    await zk.get("/later", watch=lambda event: watched.append(("later", event)))
    await gate.shut()
    await seen.until(SUSPENDED)
    await direct.set("/changed", b"1")
    await direct.create("/parent/child", b"", OPEN_ACLS)
    await direct.create("/made", b"", OPEN_ACLS)
    await gate.open()
    await seen.until(CONNECTED, 2)
    await zk.get("/still")  # after which all that is older has been told
    assert sorted(watched, key=lambda one: one[0]) == [
        ("children", WatchEvent(WatchKind.CHILDREN, "/parent")),
        ("exists", WatchEvent(WatchKind.CREATED, "/made")),
        ("get", WatchEvent(WatchKind.CHANGED, "/changed")),
    ]
    await direct.delete("/later")
    await zk.sync("/later")
    assert watched[3:] == [("later", WatchEvent(WatchKind.DELETED, "/later"))]


async def test_a_read_is_asked_again_and_a_change_is_not(
    zk: ZooKeeperClient, gate: Gate, direct: ZooKeeperClient
) -> None:
    await zk.start()
    await direct.create("/a", b"x", OPEN_ACLS)
    made: asyncio.Future[WatchEvent] = asyncio.get_running_loop().create_future()
    await direct.exists("/b", watch=made.set_result)
    gate.keep_answers()
    read, change = asyncio.create_task(zk.get("/a")), asyncio.create_task(zk.create("/b", b"", OPEN_ACLS))
    await asyncio.wait_for(made, LIMIT_S)  # the server has done it, and we do not know
    await gate.cut()
    assert (await read)[0] == b"x"
    with pytest.raises(ConnectionLossError, match=r"^/b: .* may have been made or not"):
        await change
    assert await zk.exists("/b") is not None


async def test_calls_wait_for_a_connection_so_long_and_no_longer(
    zk: ZooKeeperClient, gate: Gate, direct: ZooKeeperClient
) -> None:
    brief = ZooKeeperClient(replace(zk.settings, connection_timeout_ms=60_000))
    seen = Seen(brief)
    async with brief:
        await gate.shut()
        await seen.until(SUSPENDED)
        waiting = asyncio.create_task(brief.create("/a", b"", OPEN_ACLS))
        await asyncio.sleep(0)
        await gate.open()
        assert await waiting == "/a"
        await gate.shut()
        await seen.until(SUSPENDED, 2)
        object.__setattr__(brief.settings, "connection_timeout_ms", 50)
        with pytest.raises(ConnectionLossError, match=r"no connection to ZooKeeper at .* within 50 ms"):
            await brief.get("/a")
        await gate.open()


async def test_a_silent_server_is_left(zk: ZooKeeperClient, gate: Gate) -> None:
    impatient = ZooKeeperClient(replace(zk.settings, session_timeout_ms=1500))
    seen = Seen(impatient)
    async with impatient:
        gate.keep_answers()
        lost = await seen.until(SUSPENDED)
        assert lost.detail == "the server has not answered for 0.5 s"
        await gate.cut()
        await seen.until(CONNECTED, 2)


@pytest.mark.requirement("H-33")
async def test_another_session_follows_one_that_has_ended(
    zookeeper: ZooKeeper, zk: ZooKeeperClient, gate: Gate, direct: ZooKeeperClient
) -> None:
    watched: list[WatchEvent] = []
    seen = Seen(zk)
    await zk.start()
    await zk.create("/mine", b"", OPEN_ACLS, ephemeral=True)
    await zk.get("/mine", watch=watched.append)
    before = zk.session_id
    await gate.shut()
    await seen.until(SUSPENDED)
    waiting = asyncio.create_task(zk.create("/mine", b"", OPEN_ACLS, ephemeral=True))
    await asyncio.sleep(0)
    await end_session(zookeeper, zk)
    await gate.open()
    with pytest.raises(SessionExpiredError, match=r"^/mine: the session has expired; what was asked was not done"):
        await waiting
    after = await seen.until(CONNECTED, 2)
    assert seen.states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED]
    assert seen.events[2].session_id == before != after.session_id == zk.session_id
    assert await zk.exists("/mine") is None
    assert watched == []
    await zk.create("/mine", b"", (CREATOR_ALL,), ephemeral=True)
    assert await zk.authenticated_id() == ZnodeId("sasl", "kafka")


class TestAServerThatIsRestarted:
    """It has ports and sessions of its own, and is another one between."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[ZooKeeper]:
        with ZooKeeper(tmp_path) as found:
            yield found

    @pytest.mark.requirement("H-33")
    async def test_the_client_recovers_from_a_restart(self, server: ZooKeeper) -> None:
        client = ZooKeeperClient(server.settings())
        seen = Seen(client)
        async with client:
            await client.create("/mine", b"", (CREATOR_ALL, READABLE), ephemeral=True)
            session = client.session_id
            await asyncio.to_thread(server.nodes[0].restart, kill=True, wait=False)
            await seen.until(CONNECTED, 2)
            assert client.session_id == session
            assert seen.states == [CONNECTED, SUSPENDED, CONNECTED]
            await client.set("/mine", b"again")

    @pytest.mark.requirement("H-33")
    async def test_a_login_that_is_refused_for_a_while_leaves_a_living_client(self, server: ZooKeeper) -> None:
        client = ZooKeeperClient(replace(server.settings(), session_timeout_ms=6000))
        seen = Seen(client)
        async with client:
            await client.create("/strict", b"", (CREATOR_ALL, READABLE))
            changed = Setup(users=USERS | {"kafka": "another password"})
            await asyncio.to_thread(server.roll, changed)
            refused = await seen.until(LOGIN_FAILED)
            assert "DIGEST-MD5 user kafka" in refused.detail
            assert "was refused" in refused.detail
            object.__setattr__(client.settings, "connection_timeout_ms", 50)
            with pytest.raises(AuthFailedError, match="was refused"):
                await client.get("/strict")
            # It does not live by its tries: who waits for its end sees it.
            await seen.until(EXPIRED)
            known = len(seen.events)
            object.__setattr__(client.settings, "connection_timeout_ms", 60_000)
            await asyncio.to_thread(server.roll, Setup())
            after = await seen.after(known, CONNECTED)
            assert after.session_id not in [event.session_id for event in seen.events[:known]]
            assert client.login_failure == ""
            await client.set("/strict", b"")
