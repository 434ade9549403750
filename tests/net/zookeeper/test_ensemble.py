"""A real ensemble of three that is rolled from unsecured to secured and on, under clients that never stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from barnabas.core.zookeeper.errors import ConnectionLossError, NoAuthError, NoNodeError, ZooKeeperError
from barnabas.core.zookeeper.values import CREATOR_ALL, OPEN_ACLS, READABLE, SessionState, ZnodeId
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.peers.zookeeper import Setup, ZooKeeper

from .seen import Seen

pytestmark = [pytest.mark.peer, pytest.mark.cluster]


@pytest.fixture
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Give three servers that know of no logins."""
    with ZooKeeper(tmp_path_factory.mktemp("ensemble"), servers=3, setup=Setup(secured=False)) as found:
        yield found


@dataclass
class Load:
    """Writes and reads one znode, on and on. done: how often; lost: writes of which nobody knows."""

    client: ZooKeeperClient
    path: str
    done: int = 0
    lost: int = 0
    wrong: list[ZooKeeperError] = field(default_factory=list)

    async def run(self) -> None:
        """Go on until cancelled."""
        number = 0
        while True:
            number += 1
            try:
                await self.client.set(self.path, str(number).encode())
                self.done += 1
            except ConnectionLossError:
                self.lost += 1
            except ZooKeeperError as e:
                self.wrong.append(e)
            data, _ = await self.client.get(self.path)
            assert int(data) in (number, number - 1), (data, number)


@pytest.mark.requirement("Z-22", "H-33")
async def test_an_ensemble_is_secured_by_a_roll_under_load(ensemble: ZooKeeper) -> None:
    """jaasLoginRenew stands beside authProvider.1; clients have a JAAS file before the ensemble knows of logins."""
    ready, plain = (
        ZooKeeperClient(replace(ensemble.settings(user), session_timeout_ms=100_000, connection_timeout_ms=250_000))
        for user in ("kafka", None)
    )
    seen = Seen(ready), Seen(plain)
    async with ready, plain:
        loads = [Load(ready, "/by-ready"), Load(plain, "/by-plain")]
        for load in loads:
            await load.client.create(load.path, b"0", OPEN_ACLS)
        await ready.create("/mine", b"", OPEN_ACLS, ephemeral=True)
        sessions = ready.session_id, plain.session_id
        assert "we are served as nobody" in ready.login_failure
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(load.run()) for load in loads]
            await asyncio.to_thread(ensemble.roll, Setup(quorum_login="offered"))
            # Each has been elsewhere meanwhile, and the ready one has logged in by itself.
            assert await ready.authenticated_id() == ZnodeId("sasl", "kafka")
            assert await plain.authenticated_id() is None
            await ready.create("/strict", b"", (CREATOR_ALL, READABLE))
            with pytest.raises(NoAuthError):
                await plain.set("/strict", b"")
            before = [load.done for load in loads]
            await asyncio.to_thread(ensemble.roll, Setup(quorum_login="sent"))
            await ready.set("/strict", b"by the same one")
            assert [load.done > old for load, old in zip(loads, before, strict=True)] == [True, True]
            for task in tasks:
                task.cancel()
        assert [load.wrong for load in loads] == [[], []]
        assert (ready.session_id, plain.session_id) == sessions
        assert ready.login_failure == ""
        assert await ready.exists("/mine") is not None
        for one in seen:
            assert one.states.count(SessionState.CONNECTED) >= 2
            assert SessionState.EXPIRED not in one.states
        with pytest.raises(NoNodeError):
            await ready.get("/nothing")
    assert ensemble.logins().count("kafka") >= 2
