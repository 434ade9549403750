"""A broker's own znode: there as long as its session, and made anew in each one that follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from barnabas.core.zookeeper.errors import ConnectionLossError, NodeExistsError, NoNodeError
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.values import Stat
from barnabas.core.zookeeper.znodes import brokers
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.broker_lifecycle import RegistrationRefusedError

log = structlog.get_logger("kafka.zookeeper")


class IdTakenError(RegistrationRefusedError):
    """Another broker lives under this broker's id; says what to do."""


class Registration:
    """Registers a broker in a session, and again in another one. `epoch` is that of the last time."""

    def __init__(self, zk: ZooKeeperClient, broker_id: int, acls_for: Callable[[str], ZnodeAcls]) -> None:
        self._zk = zk
        self._broker_id = broker_id
        self._path = brokers.path(broker_id)
        self._acls = acls_for(self._path)
        self._sessions: set[int] = set()
        self.epoch = -1

    async def register(self, data: bytes) -> int:
        """Make the znode and give the broker's epoch: the transaction that made it.

        A znode that an earlier session of ours left is replaced; one of an earlier run of this broker ends with its
        session, which is waited for. IdTakenError when it is there for longer than a session without anybody lasts.
        """
        limit_s = 2 * self._zk.settings.session_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                while (stat := await self._made(data)) is None:
                    pass
        except TimeoutError:
            raise IdTakenError(
                f"another broker is registered as {self._broker_id} at {self._path}: give this one another broker.id, "
                f"or stop the other one (waited {limit_s:g} s for its session to end)"
            ) from None
        self.epoch = stat.czxid
        return self.epoch

    async def _made(self, data: bytes) -> Stat | None:
        """Try once, and wait for the end of what stands in the way; None when it is to be tried again."""
        self._sessions.add(self._zk.session_id)
        try:
            await self._zk.create(self._path, data, self._acls, ephemeral=True)
        except (NodeExistsError, ConnectionLossError):
            pass  # it may be ours all the same
        gone = asyncio.Event()
        stat = await self._zk.exists(self._path, lambda _: gone.set())
        if stat is None or stat.ephemeral_owner == self._zk.session_id:
            return stat
        if stat.ephemeral_owner in self._sessions:
            try:
                await self._zk.delete(self._path, stat.version)
            except NoNodeError:
                pass
            return None
        log.info("waits for the session of an earlier run to end", broker=self._broker_id)
        await gone.wait()
        return None
