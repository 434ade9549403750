"""Clusters in ZooKeeper mode: brokers of Apache Kafka 3.9.1 and ours, in any mixture, that share one ZooKeeper.

BARNABAS_MIXED=real makes every broker Apache Kafka's and BARNABAS_MIXED=ours every broker ours, as for other clusters.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from barnabas.client.admin import Admin
from barnabas.core.zookeeper.errors import NoNodeError
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.testing.ports import HOST

from .eventually import eventually
from .kafka_zookeeper import ZooKeeperBroker
from .taps import KafkaTap, Taps, ZooKeeperTap
from .zookeeper import ZooKeeper

T = TypeVar("T")
KAFKA, OURS = False, True
SESSION_MS: Final = 30_000
"""Nobody whom a busy machine lets wait is to be taken for gone."""
KILLED_MS: Final = 10_000
"""A session of brokers that are killed: so long after it they are taken for gone."""
WAIT_S: Final = 90
_NAP_S: Final = 2
_CHOSEN: Final = {"real": KAFKA, "ours": OURS}.get(os.environ.get("BARNABAS_MIXED", ""))


def chosen(make: bool) -> bool:
    """Give the make that a broker has here: this one, unless all are to be of the other."""
    return make if _CHOSEN is None else _CHOSEN


class ZooKeeperCluster:
    """Brokers 0, 1, ... with a chroot of their own. Use as a context manager.

    makes: KAFKA or OURS for each broker; jaas: their login at ZooKeeper, None for nobody; set_acl: as
    `zookeeper.set.acl`; tapped: what they ask of ZooKeeper, and what is asked of them, is written down.
    """

    def __init__(
        self,
        folder: Path,
        zookeeper: ZooKeeper,
        chroot: str,
        makes: Sequence[bool],
        *,
        jaas: Path | None = None,
        set_acl: bool = False,
        tapped: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.zookeeper = zookeeper
        self.chroot = chroot
        self._taps = Taps() if tapped else None
        self.zookeeper_taps: list[ZooKeeperTap] = []
        self.kafka_taps: list[KafkaTap] = []
        copies = str(min(len(makes), 3))
        more = {
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "offsets.topic.replication.factor": copies,
            "default.replication.factor": copies,
            "num.network.threads": "1",
            "num.io.threads": "2",
            "background.threads": "2",
            "controlled.shutdown.retry.backoff.ms": "500",
            **(properties or {}),
        }
        self.brokers = [
            self._broker(folder / str(n), n, ours=ours, jaas=jaas, set_acl=set_acl, properties=dict(more))
            for n, ours in enumerate(map(chosen, makes))
        ]

    def __enter__(self) -> Self:
        if self._taps is not None:
            self._taps.__enter__()
            for tap in (*self.zookeeper_taps, *self.kafka_taps):
                self._taps.open(tap)
        try:
            for one in self.brokers:
                one.start(wait=False)
            for one in self.brokers:
                one.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.brokers:
            one.process.resume()
            one.process.ask_to_stop()
        for one in self.brokers:
            one.stop(kill=True)
        if self._taps is not None:
            self._taps.__exit__()

    # --- clients

    @property
    def bootstrap(self) -> str:
        """Give host and port of every broker."""
        return ",".join(one.bootstrap for one in self.brokers)

    @property
    def librdkafka(self) -> dict[str, Any]:
        """Give the settings of a client that is `admin`, in librdkafka's spelling."""
        return self.brokers[0].librdkafka(*self.brokers[1:])

    # --- ZooKeeper

    def ask(self, work: Callable[[ZooKeeperClient], Awaitable[T]], user: str | None = "super") -> T:
        """Do something with a client of ZooKeeper's, of somebody for whom no ACL counts unless a user is named."""

        async def asked() -> T:
            async with ZooKeeperClient(self.zookeeper.settings(user, self.chroot)) as zk:
                return await work(zk)

        with ThreadPoolExecutor(1) as thread:  # the caller may be a coroutine of another loop
            return thread.submit(asyncio.run, asked()).result()

    def controller(self) -> ZooKeeperBroker:
        """Give the broker that has the role, once one has."""

        async def has(zk: ZooKeeperClient) -> int:
            found: list[int] = []

            async def looked() -> bool:
                found[:] = [one for one in [await _controller(zk)] if one is not None]
                return bool(found)

            await eventually(looked, True, WAIT_S)
            return found[0]

        return self.brokers[self.ask(has)]

    def hand_over(self, to: ZooKeeperBroker) -> None:
        """Give the role to this broker: the others sleep while it is taken from who has it, who wakes up without it.

        Not for long: a broker that gives up the role may have to wait for answers of those who sleep. All are there
        in the end, and know of it.
        """
        end = time.monotonic() + WAIT_S
        while not self._taken(to):
            assert time.monotonic() < end, f"broker {to.broker_id} does not become the controller"
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._all_know(to)).result()

    def _taken(self, to: ZooKeeperBroker) -> bool:
        others = [one for one in self.brokers if one is not to]

        async def take(zk: ZooKeeperClient) -> bool:
            for one in others:
                one.process.pause()
            try:
                if await _controller(zk) != to.broker_id:
                    with suppress(NoNodeError):
                        await zk.delete("/controller")
                await eventually(lambda: _controller(zk), to.broker_id, _NAP_S)
            except AssertionError:
                return False
            finally:
                for one in others:
                    one.process.resume()
            return True

        return self.ask(take)

    async def _all_know(self, controller: ZooKeeperBroker) -> None:
        """Wait until every broker that runs knows of all others and of the controller, which takes changes."""
        running = [one for one in self.brokers if one.process.running]
        wanted = controller.broker_id, {one.broker_id for one in running}
        for one in running:
            async with Admin(one.client_config()) as admin:

                async def known(admin: Admin = admin) -> tuple[int, set[int]]:
                    told = await admin.describe_cluster()
                    return told.controller_id, {broker.broker_id for broker in told.brokers}

                await eventually(known, wanted, WAIT_S)
        async with Admin(controller.client_config()) as admin:
            await admin.list_partition_reassignments()

    def in_sync(self, *topics: str) -> None:
        """Wait until every replica of these topics is in sync, of all when none is named."""

        async def lagging(zk: ZooKeeperClient) -> None:
            async def found() -> list[str]:
                return [where for topic in await _topics(zk, topics) for where in await _lagging(zk, topic)]

            await eventually(found, [], WAIT_S)

        self.ask(lagging)

    # --- rolling

    def roll(self, change: Callable[[ZooKeeperBroker], None], between: Callable[[], None] = lambda: None) -> None:
        """Restart one broker after the other. change: what is different then; between: after each stop and start."""
        for one in self.brokers:
            self.in_sync()
            one.stop()
            between()
            change(one)
            one.start()
            between()
        self.in_sync()

    # --- inner ends

    def _broker(self, folder: Path, number: int, *, properties: dict[str, str], **how: Any) -> ZooKeeperBroker:
        connect = self.zookeeper.connect
        if self._taps is not None:
            self.zookeeper_taps.append(ZooKeeperTap(self.zookeeper.ports[0]))
            connect = f"{HOST}:{self.zookeeper_taps[-1].port}"
        found = ZooKeeperBroker(folder, connect + self.chroot, broker_id=number, properties=properties, **how)
        if self._taps is not None:
            self.kafka_taps.append(KafkaTap(found.port))
            properties["advertised.listeners"] = f"SASL_PLAINTEXT://{HOST}:{self.kafka_taps[-1].port}"
        return found


async def _controller(zk: ZooKeeperClient) -> int | None:
    try:
        data, _ = await zk.get("/controller")
    except NoNodeError:
        return None
    return int(json.loads(data)["brokerid"])


async def _topics(zk: ZooKeeperClient, wanted: Sequence[str]) -> Sequence[str]:
    return wanted or await zk.children("/brokers/topics")


async def _lagging(zk: ZooKeeperClient, topic: str) -> list[str]:
    data, _ = await zk.get(f"/brokers/topics/{topic}")
    found = []
    for partition, replicas in json.loads(data)["partitions"].items():
        try:
            state, _ = await zk.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        except NoNodeError:
            found.append(f"{topic}-{partition} has no leader yet")
            continue
        isr = json.loads(state)["isr"]
        if sorted(isr) != sorted(replicas):
            found.append(f"{topic}-{partition}: {isr} of {replicas}")
    return found
