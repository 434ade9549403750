"""Elections of a controller at a real ZooKeeper: one at a time, each in an epoch of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from barnabas.core.zookeeper.errors import BadVersionError, NoAuthError
from barnabas.core.zookeeper.security import acls_for
from barnabas.core.zookeeper.values import Check, Create
from barnabas.core.zookeeper.znodes.control import CONTROLLER, CONTROLLER_EPOCH
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.election import Election
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.peer
STRICT = partial(acls_for, secure=True)


@asynccontextmanager
async def brokers(
    zookeeper: ZooKeeper, chroot: str, *ids: int
) -> AsyncIterator[list[tuple[ZooKeeperClient, Election]]]:
    clients = [ZooKeeperClient(zookeeper.settings(chroot=chroot)) for _ in ids]
    try:
        for client in clients:
            await client.start()
        await clients[0].make_chroot(STRICT("/"))
        yield [(zk, Election(zk, i, STRICT, lambda: 1_000)) for zk, i in zip(clients, ids, strict=True)]
    finally:
        for client in clients:
            await client.close()


def test_one_of_many_is_the_controller_and_the_next_one_follows(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with brokers(zookeeper, chroot, 1, 2, 3) as found:
            changed = asyncio.Event()
            seats = await asyncio.gather(*(election.holder(changed) for _, election in found))
            assert len({seat.controller_id for seat in seats}) == 1
            assert {seat.epoch for seat in seats} == {1}
            (holder,) = [seat for seat in seats if seat.guard is not None]
            assert not changed.is_set()
            await found[holder.controller_id - 1][0].close()
            async with asyncio.timeout(60):
                await changed.wait()
            rest = [found[i - 1] for i in (1, 2, 3) if i != holder.controller_id]
            after = await asyncio.gather(*(election.holder(asyncio.Event()) for _, election in rest))
            assert {seat.epoch for seat in after} == {2}
            assert {seat.controller_id for seat in after} < {1, 2, 3} - {holder.controller_id}

    asyncio.run(run())


def test_who_was_replaced_changes_nothing_any_more(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with brokers(zookeeper, chroot, 1, 2) as [(first, one), (_, two)]:
            old = await one.holder(asyncio.Event())
            assert old.guard == Check(CONTROLLER_EPOCH, 1)
            await first.multi([old.guard, Create("/a", b"", STRICT("/a"))])
            await one.resign()
            await one.resign()
            new = await two.holder(asyncio.Event())
            assert (new.controller_id, new.epoch) == (2, 2)
            with pytest.raises(BadVersionError):
                await first.multi([old.guard, Create("/b", b"", STRICT("/b"))])
            assert await first.exists("/b") is None
            again = await one.holder(asyncio.Event())
            assert (again.controller_id, again.guard) == (2, None)

    asyncio.run(run())


@pytest.mark.requirement("Z-08")
def test_nobody_without_a_login_takes_the_role(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with brokers(zookeeper, chroot, 1) as [(_, election)]:
            await election.holder(asyncio.Event())
            async with ZooKeeperClient(zookeeper.settings(None, chroot)) as rogue:
                for attempt in (
                    rogue.set(CONTROLLER, b"{}"),
                    rogue.delete(CONTROLLER),
                    rogue.set(CONTROLLER_EPOCH, b"9"),
                ):
                    with pytest.raises(NoAuthError):
                        await attempt
                assert (await rogue.get(CONTROLLER))[0]

    asyncio.run(run())
