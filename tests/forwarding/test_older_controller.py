"""Our broker while the active controller is replaced by an older release of Apache Kafka, and by a newer one again.

Kafka 4.0 knows AlterPartitionReassignments and AddRaftVoter in version 0 only, where 4.3 and we know 1 as well. The
controller is one node: stopped, and started as the other software on the same files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.model.features import MetadataVersion
from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.network import CLIENTS
from barnabas.testing.processes import Barnabas, ProcessCluster
from barnabas.wire.api_keys import ApiKey
from tests.peers.apache import ApacheKafka
from tests.peers.kafka_cluster import LEVELS, SMALL_NODE, SMALLER_JVM
from tests.peers.maven import OLDER_KAFKA
from tests.peers.tools import BROKER_API_VERSIONS, run_tool
from tests.server.frames import FramePeer
from tests.server.requests import build

pytestmark = pytest.mark.peer
K = ApiKey
FEATURES: Final = {**LEVELS, "metadata.version": int(MetadataVersion.IBP_4_0_IV3)}
TOKENS: Final = {38: (1, 3), 39: (1, 2), 40: (1, 2)}
"""Versions of what is forwarded about delegation tokens, offered where the controller serves it."""
ASKED_S: Final = 60


class Cluster(ProcessCluster):
    """A broker of ours and a controller that changes its software."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder, controllers=1, brokers=1, plaintext=True, proxied=True, properties=SMALL_NODE, features=FEATURES
        )

    def replace_controller(self, *, older: bool) -> None:
        """Let the controller go on as Kafka 4.0, or as ours."""
        node = self.node(101)
        node.stop()
        node.software = ApacheKafka(SMALLER_JVM, release=OLDER_KAFKA) if older else Barnabas()
        node.start()

    def peer(self) -> FramePeer:
        """Connect to the broker."""
        found = FramePeer(int(self.bootstrap.rpartition(":")[2]))
        found.socket.settimeout(ASKED_S)
        return found

    def ranges(self) -> dict[int, tuple[int, int]]:
        """Give what a client is offered that connects now."""
        asked = build(K.API_VERSIONS, client_software_name="frames", client_software_version="1")
        with self.peer() as peer:
            return {a.api_key: (a.min_version, a.max_version) for a in peer.call(asked).api_keys}


def stay() -> Any:
    """Ask for a partition to stay where it is."""
    partition = {"partition_index": 0, "replicas": [1]}
    return build(K.ALTER_PARTITION_REASSIGNMENTS, topics=[{"name": "t", "partitions": [partition]}], timeout_ms=60_000)


def codes(answer: Any) -> list[int]:
    """Give the error codes of an answer to `stay`."""
    return [answer.error_code, *(p.error_code for t in answer.responses for p in t.partitions)]


@pytest.mark.requirement("F-35", "F-36", "F-37")
async def test_the_controller_changes_its_release_under_connected_clients(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.create_topic("t")
        ours = cluster.ranges()
        assert (ours[K.ALTER_PARTITION_REASSIGNMENTS], ours[K.ADD_RAFT_VOTER]) == ((0, 1), (0, 1))
        with cluster.peer() as connected:
            assert codes(connected.call(stay(), 1)) == [0, 0]
            async with Admin(ClientConfig.from_properties(cluster.client())) as admin:
                partition = TopicPartition("t", 0)
                assert await admin.alter_partition_reassignments({partition: [1]}) == {partition: None}
                cluster.replace_controller(older=True)
                made = cluster.network.connections(CLIENTS, 1)[1]
                # The older controller cannot read version 1: the client is cut off, connects again and learns of 0.
                assert await admin.alter_partition_reassignments({partition: [1]}) == {partition: None}
                assert cluster.network.connections(CLIENTS, 1)[1] == made + 1
            connected.send(stay(), 1)
            assert connected.closed()
        smaller: dict[int, tuple[int, int]] = {K.ALTER_PARTITION_REASSIGNMENTS: (0, 0), K.ADD_RAFT_VOTER: (0, 0)}
        assert cluster.ranges() == {**ours, **TOKENS, **smaller}
        printed = run_tool(BROKER_API_VERSIONS, "--bootstrap-server", cluster.bootstrap)
        assert "AlterPartitionReassignments(45): 0 [usable: 0]" in printed
        assert "Produce(0): 0 to 13 [usable: 13]" in printed
        with cluster.peer() as again:
            assert codes(again.call(stay(), 0)) == [0, 0]
            cluster.replace_controller(older=False)
            assert codes(again.call(stay(), 0)) == [0, 0]
        assert cluster.ranges() == ours
