"""A member of a classic group that is at work while its group rebalances."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.membership import GroupMembership
from barnabas.testing.local import LocalCluster, LocalNode

pytestmark = pytest.mark.slow
SESSION_MS, HEARTBEAT_MS = 3000, 50
NODE = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
HEARTBEATS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Heartbeat,*"


def heartbeats(node: LocalNode) -> int:
    return sum(int(attributes["Count"]) for _, attributes in node.node.metrics.registry.values(HEARTBEATS))


async def test_stays_a_member_until_it_has_time_to_join_again(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, combined=1, plaintext=True, properties=NODE) as cluster:
        config = ClientConfig.from_properties(
            {"bootstrap.servers": cluster.bootstrap},
            session_timeout_ms=str(SESSION_MS),
            heartbeat_interval_ms=str(HEARTBEAT_MS),
        )
        async with Admin(config) as admin, Cluster(config) as connections, Cluster(config) as others:
            await admin.create_topics([NewTopic("t", 2, 1)])
            worker, other = GroupMembership(connections, "g", ["t"]), GroupMembership(others, "g", ["t"])
            await worker.ensure_joined()
            member = worker.member_id
            joining = asyncio.create_task(other.ensure_joined())
            node = next(iter(cluster))
            async with asyncio.timeout(120):
                while not worker.must_join:  # noqa: ASYNC110 - the heart, which has no event, hears it
                    await asyncio.sleep(0.01)
                enough = heartbeats(node) + 2 * SESSION_MS // HEARTBEAT_MS  # so many take two sessions
                while heartbeats(node) < enough:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)
            assert not joining.done(), "the group must wait for the member that is at work"
            assert await worker.ensure_joined()
            assert await joining
            assert worker.member_id == member
            assert [len(each.partitions) for each in (worker, other)] == [1, 1]
            await worker.leave()
            await other.leave()
