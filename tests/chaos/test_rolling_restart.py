"""Every node of a cluster is restarted, one after the other, and no client sees a request fail."""

from __future__ import annotations

import pytest

from barnabas.client.admin import Admin
from barnabas.testing.nodes import NodesCluster
from barnabas.testing.plugin import MakeCluster
from barnabas.testing.processes import NodeProcess
from tests.chaos.checks import all_wrong
from tests.chaos.history import History
from tests.chaos.outcome import read_outcome
from tests.chaos.run import TOPIC, catch_up, create_topic, warm_up, workers

RATE = 50
PATIENCE_MS = 120_000
"""What is refused is to be refused by a node, and not by a clock."""


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.cluster
def test_a_rolling_restart_fails_no_request(barnabas_clusters: MakeCluster) -> None:
    # Three copies of a new topic want three brokers, and one that leaves in order takes no new partitions.
    settings = {"default.replication.factor": "2", "request.timeout.ms": str(PATIENCE_MS)}
    cluster = barnabas_clusters(controllers=3, brokers=3, processes=True, properties=settings)
    history = History()
    create_topic(cluster)
    producers, consumers, admins = workers(cluster, history, seed=1, rate=RATE, timeout_ms=PATIENCE_MS)
    for worker in (*producers, *consumers, *admins):
        worker.start()
    warm_up(history)
    for node in (*cluster.brokers, *cluster.controllers):
        node.restart()
        wait_until_whole(cluster)
        acknowledged, changes = len(history.acknowledged), history.changes
        cluster.wait_for(lambda: len(history.acknowledged), lambda n, known=acknowledged: n > known + RATE, "records")  # type: ignore[misc]
        cluster.wait_for(lambda: history.changes, lambda n, known=changes: n > known, "admin changes")  # type: ignore[misc]
    for group in (admins, producers):
        for worker in group:
            worker.stop()
            worker.join()
    catch_up(history)
    for worker in consumers:
        worker.stop()
        worker.join()
    assert history.refused == []
    assert history.failed == []
    groups = sorted({c.group for c in history.consumed})
    assert all_wrong(history, read_outcome(cluster, history, TOPIC, groups)) == {}


def wait_until_whole(cluster: NodesCluster[NodeProcess]) -> None:
    """Wait until the next node may go: every replica is in sync, as an operator looks for it."""

    async def behind(admin: Admin) -> list[str]:
        await admin.cluster.refresh()
        topics = await admin.topics()
        return [
            f"{name}-{p.partition}"
            for name, topic in topics.items()
            for p in topic.partitions.values()
            if len(p.isr) < len(p.replicas)
        ]

    cluster.wait_for(lambda: cluster.ask(behind), lambda found: not found, "every replica is in sync")
