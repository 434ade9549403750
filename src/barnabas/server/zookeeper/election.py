"""Who is the controller: the broker whose session has made `/controller`, in an epoch that each new one raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog

from barnabas.core.zookeeper.errors import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.values import Check, Create, SetData, Stat
from barnabas.core.zookeeper.znodes import control
from barnabas.core.zookeeper.znodes.control import CONTROLLER, CONTROLLER_EPOCH
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.net.zookeeper.client import ZooKeeperClient

log = structlog.get_logger("kafka.controller")

FIRST_EPOCH = 0
"""What a cluster without a controller so far begins with; the first controller's epoch is the next."""


class Seat(NamedTuple):
    """Who has the role. guard: for the holder alone: what must hold for what it asks of ZooKeeper to be done."""

    controller_id: int
    epoch: int
    guard: Check | None


class Election:
    """Takes the role in the name of a broker as soon as nobody has it, and says who has it."""

    def __init__(
        self, zk: ZooKeeperClient, broker_id: int, acls_for: Callable[[str], ZnodeAcls], now_ms: Callable[[], int]
    ) -> None:
        self._zk = zk
        self._broker_id = broker_id
        self._acls_for = acls_for
        self._now_ms = now_ms

    async def holder(self, changed: asyncio.Event) -> Seat:
        """Give who has the role, ourselves if nobody has. `changed` is set when that may be another one.

        ZooKeeperError when ZooKeeper cannot be asked.
        """
        while True:
            changed.clear()  # what was said of a holder before this one has been heard by now
            try:
                data, stat = await self._zk.get(CONTROLLER, lambda _: changed.set())
            except NoNodeError:
                await self._try()
                continue
            znode = Znode(CONTROLLER, data)
            epoch, epoch_stat = await self._epoch()
            if not await self._still(stat):
                continue
            mine = stat.ephemeral_owner == self._zk.session_id
            guard = Check(CONTROLLER_EPOCH, epoch_stat.version) if mine else None
            return Seat(control.controller_id(znode), epoch, guard)

    async def resign(self) -> None:
        """Give the role up, so that another election follows; nothing when we do not have it."""
        stat = await self._zk.exists(CONTROLLER)
        if stat is not None and stat.ephemeral_owner == self._zk.session_id:
            await self._zk.delete(CONTROLLER)

    async def _still(self, stat: Stat) -> bool:
        """Say whether the role is where it was: the epoch is that of this holder."""
        now = await self._zk.exists(CONTROLLER)
        return now is not None and now.czxid == stat.czxid

    async def _try(self) -> None:
        epoch, stat = await self._epoch()
        data = control.controller(self._broker_id, self._now_ms())
        try:
            await self._zk.multi([
                Create(CONTROLLER, data, self._acls_for(CONTROLLER), ephemeral=True),
                SetData(CONTROLLER_EPOCH, control.epoch(epoch + 1), stat.version),
            ])  # fmt: skip
            log.info("elected as the controller", broker=self._broker_id, epoch=epoch + 1)
        except (NodeExistsError, BadVersionError):
            log.info("another broker was elected as the controller", broker=self._broker_id)
        except ConnectionLossError:
            log.info("it is not known yet whether this broker was elected as the controller", broker=self._broker_id)

    async def _epoch(self) -> tuple[int, Stat]:
        while True:
            try:
                data, stat = await self._zk.get(CONTROLLER_EPOCH)
                return control.epoch_in(Znode(CONTROLLER_EPOCH, data)), stat
            except NoNodeError:
                acls = self._acls_for(CONTROLLER_EPOCH)
                try:
                    await self._zk.create(CONTROLLER_EPOCH, control.epoch(FIRST_EPOCH), acls)
                except NodeExistsError:
                    pass
