"""Data directories go from a broker of Apache Kafka 3.9.1 to one of ours, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.net.clock import SystemClock
from barnabas.server.config import NodeConfig
from barnabas.storage.log_dirs import LogDirs
from barnabas.storage.meta_properties import FILE_NAME, MetaPropertiesError, MetaVersion
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.peer
BROKER = 7


def acquired(config: NodeConfig, cluster_id: str | None) -> LogDirs:
    directories = LogDirs([Path(path) for path in config.log_dirs], SystemClock())
    directories.acquire(cluster_id, config.node_id, MetaVersion.ZOOKEEPER)
    return directories


def pairs(file: Path) -> list[str]:
    return sorted(line for line in file.read_text().splitlines() if not line.startswith("#"))


def test_a_directory_changes_hands_both_ways(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    properties = {"log.dirs": str(theirs)}
    broker = ZooKeeperBroker(
        tmp_path / "broker", f"{zookeeper.connect}{chroot}", broker_id=BROKER, properties=properties
    )
    with broker:
        config = NodeConfig.load(broker.files.properties, {"log.dirs": f"{theirs},{ours}"})
    cluster_id = _cluster_id(theirs / FILE_NAME)
    taken = acquired(config, cluster_id)
    assert [d.properties for d in taken.directories] == [taken.directories[0].properties] * 2
    taken.close()
    assert pairs(ours / FILE_NAME) == pairs(theirs / FILE_NAME)

    written = (ours / FILE_NAME).read_bytes()
    broker.properties = {"log.dirs": f"{theirs},{ours}"}
    with broker:
        pass
    assert (ours / FILE_NAME).read_bytes() == written
    with pytest.raises(MetaPropertiesError, match=f"belongs to node {BROKER} of cluster {cluster_id}, not to node 8"):
        acquired(NodeConfig.load(broker.files.properties, {"broker.id": "8"}), cluster_id)


def _cluster_id(file: Path) -> str:
    (line,) = [line for line in pairs(file) if line.startswith("cluster.id=")]
    return line.partition("=")[2]
