"""Brokers that register at a real ZooKeeper: one for an id, also after sessions that ended badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from barnabas.core.zookeeper.errors import NoAuthError
from barnabas.core.zookeeper.values import Stat
from barnabas.core.zookeeper.znodes import brokers
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.layout import make_layout
from barnabas.server.zookeeper.registration import IdTakenError, Registration
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import STRICT

pytestmark = pytest.mark.peer
PATH = brokers.path(7)


@asynccontextmanager
async def session(zookeeper: ZooKeeper, chroot: str, timeout_ms: int = 30_000) -> AsyncIterator[ZooKeeperClient]:
    settings = replace(zookeeper.settings(chroot=chroot), session_timeout_ms=timeout_ms)
    async with ZooKeeperClient(settings) as zk:
        await make_layout(zk, STRICT, rules=False, tokens=False)
        yield zk


async def stat_of(zk: ZooKeeperClient) -> Stat:
    found = await zk.exists(PATH)
    assert found is not None
    return found


def test_the_epoch_grows_with_each_registration(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with session(zookeeper, chroot) as zk:
            first = await Registration(zk, 7, STRICT).register(b"{}")
            assert first == (await stat_of(zk)).czxid
        async with session(zookeeper, chroot) as zk:
            assert await Registration(zk, 7, STRICT).register(b"{}") > first

    asyncio.run(run())


def test_an_earlier_run_is_waited_for(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with session(zookeeper, chroot) as earlier, session(zookeeper, chroot) as zk:
            old = await Registration(earlier, 7, STRICT).register(b"old")
            task = asyncio.create_task(Registration(zk, 7, STRICT).register(b"new"))
            await zk.exists(PATH)  # it has been asked for by now, and stands
            assert not task.done()
            await earlier.close()
            assert await task > old
            assert (await zk.get(PATH))[0] == b"new"

    asyncio.run(run())


def test_a_znode_of_our_own_earlier_session_is_replaced(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with session(zookeeper, chroot) as earlier, session(zookeeper, chroot) as zk:
            registration = Registration(zk, 7, STRICT)
            old = await Registration(earlier, 7, STRICT).register(b"old")
            # As if the session that it was made in had been this one's, before ZooKeeper ended it.
            registration._sessions.add(earlier.session_id)
            assert await registration.register(b"new") > old
            assert (await stat_of(zk)).ephemeral_owner == zk.session_id

    asyncio.run(run())


def test_an_id_that_is_taken_is_said_so(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with session(zookeeper, chroot) as other, session(zookeeper, chroot, 3000) as zk:
            await Registration(other, 7, STRICT).register(b"other")
            with pytest.raises(IdTakenError, match=r"broker\.id"):
                await Registration(zk, 7, STRICT).register(b"mine")
            assert (await zk.get(PATH))[0] == b"other"

    asyncio.run(run())


@pytest.mark.requirement("Z-08")
def test_nobody_without_a_login_registers_as_a_broker(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with session(zookeeper, chroot) as zk:
            await Registration(zk, 7, STRICT).register(b"{}")
            async with ZooKeeperClient(zookeeper.settings(None, chroot)) as rogue:
                for attempt in (rogue.create(brokers.path(99), b"{}", STRICT("/x")[1:]), rogue.set(PATH, b"{}")):
                    with pytest.raises(NoAuthError):
                        await attempt

    asyncio.run(run())
