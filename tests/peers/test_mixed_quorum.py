"""Apache Kafka's controllers and ours voting in one quorum: each leads in turn, and the logs stay equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.testing.shape import FIRST_CONTROLLER

from .eventually import eventually
from .kafka_cluster import MixedCluster

pytestmark = pytest.mark.peer

REAL = FIRST_CONTROLLER
LOG = Path("__cluster_metadata-0") / f"{0:020d}.log"
TURNS = 8


async def leader_of(cluster: MixedCluster) -> int:
    """Give who leads, by the word of the running controllers; -1 while nobody does."""
    addresses = [n.plan.controller.text for n in cluster.controllers if n.running and n.plan.controller is not None]
    async with Admin(ClientConfig({"bootstrap.controllers": ",".join(addresses)})) as admin:
        return (await admin.describe_quorum()).partition.leader_id


async def everybody_caught_up(cluster: MixedCluster) -> bool:
    """Say whether each voter has fetched what the leader held a moment ago."""
    addresses = [n.plan.controller.text for n in cluster.controllers if n.plan.controller is not None]
    async with Admin(ClientConfig({"bootstrap.controllers": ",".join(addresses)})) as admin:
        before = (await admin.describe_quorum()).partition
        after = (await admin.describe_quorum()).partition
    return after.leader_id >= 0 and min(v.log_end_offset for v in after.current_voters) >= before.high_watermark > 0


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("dynamic", [True, False])
async def test_a_real_controller_and_two_of_ours_lead_in_turn(tmp_path: Path, dynamic: bool) -> None:
    with MixedCluster(tmp_path, real={REAL}, controllers=3, plaintext=True, dynamic=dynamic) as cluster:
        led: set[bool] = set()
        for _ in range(TURNS):
            leader = await leader_of(cluster)
            led.add(leader == REAL)
            if led == {True, False}:
                break
            cluster.node(leader).restart()
        assert led == {True, False}, "one kind never led"
        await eventually(lambda: everybody_caught_up(cluster), True, 60)
        cluster.stop()
        logs = sorted(((cluster.data(n.node_id) / LOG).read_bytes() for n in cluster.controllers), key=len)
        assert len(logs[0]) > 500
        assert all(log.startswith(logs[0]) for log in logs)
