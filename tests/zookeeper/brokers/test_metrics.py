"""Side by side with Apache Kafka 3.9.1: what brokers show of the controller's role and of their sessions."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewTopic

from barnabas.testing.ports import HOST, free_ports
from tests.peers.eventually import eventually
from tests.peers.maven import java
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, OURS, WAIT_S, ZooKeeperCluster

from .admins import do

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

_MBEANS: Final = Path(__file__).resolve().parents[2] / "conformance" / "java" / "MBeans.java"
_COMPARED: Final = re.compile(
    r"kafka\.controller:.*type=(KafkaController|ControllerStats)|kafka\.server:.*type=SessionExpireListener"
)
NOT_OURS: Final = {
    *(
        f"kafka.controller:name={name},type=KafkaController"
        for name in (
            "ControllerState",  # what its one thread does; ours has none
            "ReplicasIneligibleToDeleteCount",
            "ReplicasToDeleteCount",
            "TopicsIneligibleToDeleteCount",
            "TopicsToDeleteCount",
            "ZkMigrationState",  # to KRaft, which is not offered
        )
    ),
    "kafka.server:name=ZooKeeperReadOnlyConnectsPerSec,type=SessionExpireListener",  # nobody asks for such
}
Beans = Mapping[str, Mapping[str, str]]


class Measured:
    """A broker of each make, and what they show."""

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        self.cluster = cluster
        self._jmx, self._http = free_ports(2)
        theirs, ours = cluster.brokers
        ours.properties = {**ours.properties, "barnabas.metrics.listener": f"http://{HOST}:{self._http}"}
        jmx = {
            "com.sun.management.jmxremote.port": self._jmx,
            "com.sun.management.jmxremote.authenticate": "false",
            "com.sun.management.jmxremote.ssl": "false",
            "com.sun.management.jmxremote.host": HOST,
            "java.rmi.server.hostname": HOST,
        }
        theirs.jvm = [f"-D{key}={value}" for key, value in jmx.items()]

    def theirs(self) -> Beans:
        """Give what Kafka's broker shows."""
        command = [java(), "-Xmx64M", "-XX:TieredStopAtLevel=1", str(_MBEANS), str(self._jmx)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        rows = (line.split("\t")[1:] for line in printed.splitlines())
        return _compared({name: dict(one.split("=", 1) for one in more) for name, *more in rows})

    def ours(self) -> Beans:
        """Give what our broker shows."""
        with urlopen(f"http://{HOST}:{self._http}/jmx", timeout=60) as answer:
            beans = json.load(answer)["beans"]
        return _compared({bean.pop("name"): {key: str(value) for key, value in bean.items()} for bean in beans})


def _compared(beans: Beans) -> Beans:
    found = {}
    for name, attributes in beans.items():
        if _COMPARED.match(name):
            domain, _, tags = name.partition(":")
            found[f"{domain}:{','.join(sorted(tags.split(',')))}"] = attributes
    return found


@pytest.fixture(scope="module")
def measured(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    cluster = ZooKeeperCluster(
        tmp_path_factory.mktemp("measured"), zookeeper, "/measured", [KAFKA, OURS], jaas=zookeeper.client_jaas()
    )
    found = Measured(cluster)
    with cluster:
        wanted = [NewTopic("measured", 3, 1)]
        do(cluster.librdkafka, lambda admin: admin.create_topics(wanted), KafkaError.TOPIC_ALREADY_EXISTS)
        cluster.in_sync("measured")
        yield found


def test_the_names_and_what_they_count_are_kafkas(measured: Measured) -> None:
    theirs, ours = measured.theirs(), measured.ours()
    timed = {name for name in theirs if name.endswith("TimeMs,type=ControllerStats")}  # of events that Kafka queues
    assert theirs.keys() - ours.keys() - timed == NOT_OURS
    # Kafka's controller of a metadata log counts those, and its class is shared.
    assert ours.keys() - theirs.keys() == set()
    for name, attributes in ours.items():
        assert attributes.keys() == theirs[name].keys(), name
        units = {"EventType", "RateUnit"} & attributes.keys()
        assert {unit: attributes[unit] for unit in units} == {unit: theirs[name][unit] for unit in units}, name


@pytest.mark.parametrize("turn", ["theirs", "ours"])
def test_the_controller_alone_counts(measured: Measured, turn: str) -> None:
    theirs, ours = measured.cluster.brokers
    measured.cluster.hand_over(ours if turn == "ours" else theirs)
    shown = {"theirs": measured.theirs, "ours": measured.ours}

    async def counts() -> dict[str, dict[str, str]]:
        return {
            make: {
                name.partition("name=")[2].partition(",")[0]: values["Value"]
                for name, values in look().items()
                if name.endswith("type=KafkaController") and name not in NOT_OURS
            }
            for make, look in shown.items()
        }

    active = {
        "ActiveControllerCount": "1",
        "GlobalTopicCount": "1",
        "GlobalPartitionCount": "3",
        "OfflinePartitionsCount": "0",
        "ActiveBrokerCount": "2",
        "FencedBrokerCount": "0",
        "PreferredReplicaImbalanceCount": "0",
    }
    other = "ours" if turn == "theirs" else "theirs"
    asyncio.run(eventually(counts, {turn: active, other: dict.fromkeys(active, "0")}, WAIT_S))


def test_both_say_that_they_are_connected_and_logged_in(measured: Measured) -> None:
    for beans in (measured.theirs(), measured.ours()):
        session = {name.partition("name=")[2].partition(",")[0]: v for name, v in beans.items() if "Session" in name}
        assert session["SessionState"]["Value"] == "CONNECTED"
        for name in ("ZooKeeperSyncConnectsPerSec", "ZooKeeperSaslAuthenticationsPerSec"):
            assert int(session[name]["Count"]) >= 1, name
        for name in ("ZooKeeperExpiresPerSec", "ZooKeeperAuthFailuresPerSec"):
            assert session[name]["Count"] == "0", name
