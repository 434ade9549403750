"""Our admin client finds the controller where brokers leave that to clients, as Apache Kafka's do in ZooKeeper mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, OURS, ZooKeeperCluster

pytestmark = pytest.mark.peer


async def test_a_topic_is_made_whichever_broker_is_asked_first(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    with ZooKeeperCluster(tmp_path, zookeeper, "/finding", [KAFKA, OURS], jaas=zookeeper.client_jaas()) as cluster:
        kafkas, ours = cluster.brokers
        cluster.hand_over(kafkas)
        for name, broker in (("by-kafkas", kafkas), ("by-ours", ours)):
            async with Admin(broker.client_config()) as admin:
                assert await admin.create_topics([NewTopic(name, 1, 1)]) == {name: None}
        cluster.hand_over(ours)
        for name, broker in (("again-by-kafkas", kafkas), ("again-by-ours", ours)):
            async with Admin(broker.client_config()) as admin:
                assert await admin.create_topics([NewTopic(name, 1, 1)]) == {name: None}
