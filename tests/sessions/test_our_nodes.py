"""Every connection that a node or a client of ours opens outlives its sessions, at nodes of ours and at Kafka's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.client.group_consumer import GroupConsumer
from barnabas.client.producer import Producer
from tests.conformance.test_metric_names import OURS, REAL, Beans, MeasuredCluster

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

LIFE_MS: Final = 10_000
"""Long enough for the tenth or less of it, that is left when a session is renewed, to be enough on a busy machine."""
WAIT_S: Final = 240
TOPIC: Final = "lasting"
NODES: Final = (*REAL.values(), *OURS.values())
BETWEEN_NODES: Final = [
    (sender, receiver)
    for sender in OURS.values()
    for receiver in NODES
    if sender != receiver and not (sender == OURS["controller"] and receiver in (REAL["broker"], OURS["broker"]))
]
"""What connections our nodes open: the broker to everybody, the controller to the other one."""
LISTENER: Final = "kafka.server:listener={},networkProcessor={},type=socket-server-metrics"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredCluster]:
    settings = {"connections.max.reauth.ms": str(LIFE_MS), "offsets.topic.num.partitions": "1"}
    with MeasuredCluster(tmp_path_factory.mktemp("lasting"), properties=settings, proxied=True) as found:
        yield found


def renewals(beans: Beans, name: str = "successful-reauthentication-total") -> dict[str, float]:
    """Give a count by listener, over all network threads."""
    found: dict[str, float] = {}
    for bean, attributes in beans.items():
        if "socket-server-metrics" in bean and "networkProcessor" in bean and name in attributes:
            listener = bean.split("listener=")[1].split(",")[0]
            found[listener] = found.get(listener, 0) + float(attributes[name])
    return found


def killed(beans: Beans) -> float:
    return float(beans["kafka.network:name=ExpiredConnectionsKilledCount,type=SocketServer"]["Value"])


async def work(cluster: MeasuredCluster, enough: asyncio.Event) -> int:
    """Use every kind of connection all the time: produce, replicate, consume as a group, change through a broker."""
    through_ours = ClientConfig.from_properties(cluster.client(bootstrap=cluster.node(OURS["broker"]).bootstrap))
    grouped = ClientConfig.from_properties(
        {**cluster.client(), "group.id": TOPIC, "auto.offset.reset": "earliest", "auto.commit.interval.ms": "500"}
    )
    sent = got = 0
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    async with (
        Admin(through_ours) as admin,
        Producer(ClientConfig.from_properties(cluster.client())) as producer,
        GroupConsumer(grouped, [TOPIC]) as consumer,
    ):
        while not enough.is_set() or got < sent:
            if not enough.is_set():
                for partition in (0, 1):
                    await (await producer.send(TOPIC, b"%d" % sent, partition=partition))
                    sent += 1
                change = ConfigChange("retention.ms", AlterConfigOp.SET, str(10_000_000 + sent))
                assert await admin.incremental_alter_configs({resource: [change]}) == {resource: None}
            got += sum(len(batches.columns().values) for batches in await consumer.poll(50))
    assert got == sent
    return sent


@pytest.mark.requirement("R-21", "R-28", "H-37")
async def test_all_our_connections_outlive_their_sessions(cluster: MeasuredCluster) -> None:
    async with Admin(ClientConfig.from_properties(cluster.client())) as admin:
        # Each broker leads one partition and follows in the other.
        wanted = NewTopic(TOPIC, assignments={0: [REAL["broker"], OURS["broker"]], 1: [OURS["broker"], REAL["broker"]]})
        assert await admin.create_topics([wanted]) == {TOPIC: None}
    enough = asyncio.Event()
    working = asyncio.create_task(work(cluster, enough))

    def all_beans() -> dict[int, Beans]:
        return {**cluster.kafkas(), **{node: cluster.ours(node) for node in OURS.values()}}

    def made() -> Mapping[tuple[int, int], int]:
        return {pair: cluster.network.connections(*pair)[1] for pair in BETWEEN_NODES}

    async def renewed(at_least: float) -> dict[int, Beans]:
        """Wait until both brokers and the active controller have seen so many renewals."""
        while True:
            beans = await asyncio.to_thread(all_beans)
            seen = {node: renewals(found) for node, found in beans.items()}
            brokers = [seen[kind["broker"]]["SASL_SSL"] for kind in (REAL, OURS)]
            active = max(seen[kind["controller"]]["CONTROLLER"] for kind in (REAL, OURS))
            if min(*brokers, active) >= at_least:
                return beans
            assert not working.done(), (working, seen)
            assert asyncio.get_running_loop().time() < until, seen
            await asyncio.sleep(0.5)

    until = asyncio.get_running_loop().time() + WAIT_S
    try:
        await renewed(1)
        before = made()
        beans = await renewed(9)
        after = made()
        enough.set()
        assert await working > 0
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert after == before
    assert {node: killed(found) for node, found in beans.items()} == dict.fromkeys(NODES, 0)
    for name in ("failed-reauthentication-total", "successful-authentication-no-reauth-total"):
        assert {node: sum(renewals(found, name).values()) for node, found in beans.items()} == dict.fromkeys(NODES, 0)
