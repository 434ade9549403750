"""Settings of ZooKeeper mode beside those of a broker of Apache Kafka 3.9.1 with the same file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.net.zookeeper.config_keys import JVM_KEYS
from barnabas.server.config import NodeConfig
from barnabas.server.config_keys import OF_ZOOKEEPER_MODE
from barnabas.server.described_configs import DescribedConfigs, Telling
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.peer
COMPARED: Final = (OF_ZOOKEEPER_MODE | {"broker.id", "node.id", "authorizer.class.name"}) - set(JVM_KEYS)


def told(rows: list[Any]) -> dict[str, tuple[Any, ...]]:
    return {r.name: (r.value, r.config_source, r.config_type, r.is_sensitive) for r in rows if r.name in COMPARED}


async def test_one_file_says_the_same_to_both(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    more = {"password.encoder.secret": "s", "zookeeper.ssl.truststore.password": "t", "node.id": "7"}
    with ZooKeeperBroker(tmp_path, f"{zookeeper.connect}{chroot}", broker_id=7, properties=more) as broker:
        resource = ConfigResource(ConfigResourceType.BROKER, "7")
        async with Admin(broker.client_config()) as admin:
            theirs = (await admin.describe_configs([resource]))[resource]
        config = NodeConfig.load(broker.files.properties)
    assert isinstance(theirs, list)
    ours = DescribedConfigs(config, config, MetadataImage.EMPTY).broker(Telling(synonyms=True))
    assert told(list(ours)) == told(theirs)
    assert told(theirs).keys() == COMPARED
