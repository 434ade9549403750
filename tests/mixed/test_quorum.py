"""Controllers of both kinds voting in one quorum, while an admin changes things all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.quorum import VoterEndpoint
from barnabas.client.admin.topics import NewTopic
from barnabas.model.uuid import Uuid
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.meta_properties import read_meta_properties
from barnabas.testing.processes import NodeProcess
from barnabas.testing.shape import CONTROLLER
from barnabas.wire.errors import ApiError, ErrorCode
from tests.peers.eventually import eventually
from tests.peers.kafka_cluster import MixedCluster

from .clusters import WAIT_S, mixed
from .walks import admin, log_bytes

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

METADATA: Final = "__cluster_metadata-0"
TOPIC: Final = ConfigResource(ConfigResourceType.TOPIC, "changing")
MOST_MOVES: Final = 50
"""Who leads next is the candidates' affair: this many moves show both ways all but certainly."""


@pytest.fixture(params=["static", "dynamic"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Give three controllers, two real and one of ours that are fixed or one real and two of ours that may change."""
    dynamic = request.param == "dynamic"
    made = mixed(
        tmp_path_factory.mktemp("quorum"),
        real={103} if dynamic else {102, 103},
        controllers=3,
        brokers=1,
        dynamic=dynamic,
    )
    with made:
        yield made


class Changes:
    """Sets one config of a topic to the next number, over and over, until the block ends; no change may fail."""

    def __init__(self, asking: Admin) -> None:
        self.acknowledged = -1
        self._asking = asking
        self._ending = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._change())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._ending = True  # the last change is waited for: one that nobody waits for may have been made
        await self._task

    async def more(self) -> None:
        """Wait until a change is acknowledged that was begun after this call."""
        wanted = self.acknowledged + 2
        await eventually(lambda: self._has_reached(wanted), True, WAIT_S)

    async def _has_reached(self, number: int) -> bool:
        assert self._task is not None
        if self._task.done():
            self._task.result()
        return self.acknowledged >= number

    async def _change(self) -> None:
        while not self._ending:
            change = ConfigChange("retention.ms", AlterConfigOp.SET, str(10_000 + self.acknowledged + 1))
            assert await self._asking.incremental_alter_configs({TOPIC: [change]}) == {TOPIC: None}
            self.acknowledged += 1


@pytest.mark.timeout(1200)  # for all the moves
async def test_leadership_moves_both_ways_under_load(cluster: MixedCluster) -> None:
    moves: set[tuple[bool, bool]] = set()
    async with admin(cluster) as asking:
        assert await asking.create_topics([NewTopic(TOPIC.name, 1, 1)]) == {TOPIC.name: None}
        async with Changes(asking) as changes:
            for _ in range(MOST_MOVES):
                old = await leader(asking)
                await changes.more()
                await asyncio.to_thread(cluster.node(old).stop)
                await changes.more()
                new = await leader(asking)
                assert new != old
                moves.add((old in cluster.real, new in cluster.real))
                await asyncio.to_thread(cluster.node(old).start)
                await eventually(lambda: behind(asking), set(), WAIT_S)
                if {(True, False), (False, True)} <= moves or not cluster.is_mixed:
                    break
            else:
                pytest.fail(f"no leader of the other kind: {moves}")
        if cluster.plan.dynamic:
            await change_voters(cluster, asking)
        await eventually(lambda: behind(asking), set(), WAIT_S)
        assert await value(asking) == str(10_000 + changes.acknowledged)
    await asyncio.to_thread(cluster.stop)
    logs = [log_bytes(cluster.data(n.node_id), METADATA) for n in cluster.controllers + cluster.brokers]
    shortest = min(map(len, logs))
    assert len({log[:shortest] for log in logs}) == 1
    assert str(10_000 + changes.acknowledged).encode() in logs[0][:shortest]


async def change_voters(cluster: MixedCluster, asking: Admin) -> None:
    """Let a fourth controller in, of the kind that does not lead, and the leader out."""
    old = await leader(asking)
    made = cluster.add_controller(real=old not in cluster.real)
    await asyncio.to_thread(made.start)
    await eventually(lambda: is_observed(asking, made.node_id), True, WAIT_S)
    at = made.plan.controller
    assert at is not None
    endpoints = [VoterEndpoint(CONTROLLER, "127.0.0.1", at.told)]
    await eventually(lambda: is_added(asking, made.node_id, directory_id(cluster, made), endpoints), True, WAIT_S)
    await eventually(lambda: voters(asking), {101, 102, 103, made.node_id}, WAIT_S)
    await asking.remove_raft_voter(old, directory_id(cluster, cluster.node(old)))
    await eventually(lambda: voters(asking), {101, 102, 103, made.node_id} - {old}, WAIT_S)


def directory_id(cluster: MixedCluster, node: NodeProcess) -> Uuid:
    properties = read_meta_properties(cluster.data(node.node_id), OsFileSystem())
    assert properties is not None
    assert properties.directory_id is not None
    return properties.directory_id


async def leader(asking: Admin) -> int:
    """Give the active controller, once there is one."""
    found = -1
    async with asyncio.timeout(WAIT_S):
        while found < 0:
            found = (await asking.describe_quorum()).partition.leader_id
    return found


async def behind(asking: Admin) -> set[int]:
    """Give the replicas of the metadata log that lack what the leader has told the others of."""
    partition = (await asking.describe_quorum()).partition
    replicas = [*partition.current_voters, *partition.observers]
    return {r.replica_id for r in replicas if r.log_end_offset < partition.high_watermark}


async def voters(asking: Admin) -> set[int]:
    return {v.replica_id for v in (await asking.describe_quorum()).partition.current_voters}


async def is_observed(asking: Admin, node: int) -> bool:
    return node in {o.replica_id for o in (await asking.describe_quorum()).partition.observers}


async def is_added(asking: Admin, node: int, directory: Uuid, endpoints: list[VoterEndpoint]) -> bool:
    try:
        await asking.add_raft_voter(node, directory, endpoints)
    except ApiError as e:
        if e.code == ErrorCode.REQUEST_TIMED_OUT:  # it has to catch up first
            return False
        if e.code != ErrorCode.DUPLICATE_VOTER:
            raise
    return True


async def value(asking: Admin) -> str | None:
    entries = (await asking.describe_configs([TOPIC]))[TOPIC]
    assert isinstance(entries, list)
    return next(e.value for e in entries if e.name == "retention.ms")
