"""Side by side with Apache Kafka's nodes: the names under which ours show what they measure."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing.ports import free_ports
from barnabas.testing.processes import Software
from barnabas.testing.shape import NodePlan
from tests.peers.apache import ApacheKafka
from tests.peers.kafka_cluster import SMALLER_JVM, MixedCluster
from tests.peers.maven import java

from .metric_names import MISSING, OF_THE_ACTIVE, ONLY_OURS, Known, matches

pytestmark = pytest.mark.peer

_ATTRIBUTE: Final = re.compile(r"([^\t=]+)=([^\t]*)")
REAL, OURS = {"broker": 1, "controller": 101}, {"broker": 2, "controller": 102}
RECORDS: Final = 100
_TAG: Final = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)')
Beans = Mapping[str, Mapping[str, str]]
"""Attributes and their values by MBean."""


class MeasuredCluster(MixedCluster):
    """Half of it Kafka's, half of it ours, so that both take part in the same work; all of it can be looked into."""

    def __init__(self, directory: Path, **shape: Any) -> None:
        """shape: as MixedCluster takes it, the nodes apart."""
        self._ports = dict(zip((*REAL.values(), *OURS.values()), free_ports(4), strict=True))
        super().__init__(directory, real=set(REAL.values()), controllers=2, brokers=2, **shape)
        for node in OURS.values():
            listener = f"http://127.0.0.1:{self._ports[node]}"
            self.plan.write(self.node(node).plan, {"barnabas.metrics.listener": listener})

    def _software_of(self, plan: NodePlan, *, real: bool) -> Software:
        if not real:
            return super()._software_of(plan, real=False)
        jmx = {
            "com.sun.management.jmxremote.port": self._ports[plan.node_id],
            "com.sun.management.jmxremote.authenticate": "false",
            "com.sun.management.jmxremote.ssl": "false",
            "com.sun.management.jmxremote.host": "127.0.0.1",
            "java.rmi.server.hostname": "127.0.0.1",
        }
        logins = [self.client(bootstrap=plan.client.text)] if plan.client is not None else []
        return ApacheKafka((*SMALLER_JVM, *(f"-D{key}={value}" for key, value in jmx.items())), logins=logins)

    def kafkas(self) -> Mapping[int, Beans]:
        """Give what Kafka's nodes show, by node."""
        nodes = {str(self._ports[node]): node for node in REAL.values()}
        source = Path(__file__).resolve().parent / "java" / "MBeans.java"
        command = [java(), "-Xmx64M", "-XX:TieredStopAtLevel=1", str(source), *nodes]
        found: dict[int, dict[str, dict[str, str]]] = {node: {} for node in nodes.values()}
        for line in subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=120
        ).stdout.splitlines():
            port, name, *attributes = line.split("\t")
            found[nodes[port]][name] = dict(_ATTRIBUTE.findall("\t".join(attributes)))
        return found

    def ours(self, node: int) -> Beans:
        """Give what a node of ours shows."""
        with urlopen(f"http://127.0.0.1:{self._ports[node]}/jmx", timeout=60) as answer:
            beans = json.load(answer, parse_constant=_no_number)["beans"]
        return {_canonical(bean.pop("name")): {a: str(value) for a, value in bean.items()} for bean in beans}

    def work(self) -> None:
        """Write, replicate, read, and commit as a group."""
        self.create_topic("measured", partitions=2, replication_factor=2)
        producer = Producer({**self.librdkafka(), "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce("measured", b"x" * 10, partition=number % 2)
        assert producer.flush(60) == 0
        group = {"group.id": "measured", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**self.librdkafka(), **group})
        consumer.subscribe(["measured"])
        read = 0
        while read < RECORDS:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            read += 1
        consumer.commit(asynchronous=False)
        consumer.close()


def _canonical(name: str) -> str:
    """Give the name as Java sorts its tags."""
    domain, _, tags = name.partition(":")
    return f"{domain}:{','.join(sorted(f'{key}={value}' for key, value in _TAG.findall(tags)))}"


def _no_number(text: str) -> float:
    raise AssertionError(f"{text} is no JSON")


def _items(role: str, beans: Beans) -> dict[str, set[str]]:
    """Give attributes by MBean, values of tags left out: the same whichever topics, clients and requests there were."""
    found: dict[str, set[str]] = {}
    for name, attributes in beans.items():
        domain, _, rest = name.partition(":")
        tags = dict(_TAG.findall(rest))
        keys = ",".join(sorted(tags.keys() - {"type", "name"}))
        found.setdefault(f"{role} {domain}:{tags['type']}:{tags.get('name', '')}{{{keys}}}", set()).update(attributes)
    return found


def _lacking(have: Mapping[str, set[str]], want: Mapping[str, set[str]]) -> Iterator[str]:
    for item, attributes in want.items():
        lacking = [f"{item}#{a}" for a in attributes - have[item]] if item in have else [item]
        yield from (one for one in lacking if not any(re.fullmatch(pattern, one) for pattern in OF_THE_ACTIVE))


def _unknown(items: Iterable[str], known: Iterable[Known]) -> list[str]:
    return sorted(item for item in items if not any(matches(one, item) for one in known))


def _rotten(items: Iterable[str], known: Iterable[Known]) -> list[str]:
    there = list(items)
    return [one.items for one in known if not any(matches(one, item) for item in there)]


@pytest.fixture(scope="module")
def beans(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Beans]:
    with MeasuredCluster(tmp_path_factory.mktemp("measured")) as cluster:
        cluster.work()
        return {**cluster.kafkas(), **{node: cluster.ours(node) for node in OURS.values()}}


@pytest.fixture(scope="module")
def differences(beans: Mapping[int, Beans]) -> tuple[list[str], list[str]]:
    """What is missing here, and what only we have."""
    missing: list[str] = []
    only_ours: list[str] = []
    for role, node in REAL.items():
        kafka, own = _items(role, beans[node]), _items(role, beans[OURS[role]])
        missing += _lacking(own, kafka)
        only_ours += _lacking(kafka, own)
    return missing, only_ours


def test_nothing_that_kafka_shows_is_missing_without_a_reason(differences: tuple[list[str], list[str]]) -> None:
    missing, _ = differences
    assert _unknown(missing, MISSING) == []
    assert _rotten(missing, MISSING) == [], "no longer missing"


def test_nothing_that_kafka_does_not_have_is_shown_without_a_reason(differences: tuple[list[str], list[str]]) -> None:
    _, only_ours = differences
    assert _unknown(only_ours, ONLY_OURS) == []
    assert _rotten(only_ours, ONLY_OURS) == [], "no longer ours alone"


def test_fetches_are_told_apart_as_kafka_tells_them(beans: Mapping[int, Beans]) -> None:
    for node in (REAL["broker"], OURS["broker"]):
        for request in ("Produce", "Fetch", "FetchConsumer", "FetchFollower"):
            assert any(
                set(_TAG.findall(name.partition(":")[2])) >= {("name", "TotalTimeMs"), ("request", request)}
                for name in beans[node]
            ), (node, request)


def test_what_is_counted_and_in_which_unit_is_kafkas(beans: Mapping[int, Beans]) -> None:
    wrong, compared = [], 0
    for role, node in REAL.items():
        for name, attributes in beans[OURS[role]].items():
            kafkas = beans[node].get(name, {})
            units = {"EventType", "RateUnit", "LatencyUnit"} & attributes.keys() & kafkas.keys()
            compared += len(units)
            wrong += [
                (name, unit, attributes[unit], kafkas[unit]) for unit in units if attributes[unit] != kafkas[unit]
            ]
    assert compared > 50
    assert wrong == []


@pytest.mark.parametrize("partition", [0, 1])
def test_replicas_of_the_same_records_show_the_same_log(beans: Mapping[int, Beans], partition: int) -> None:
    for name in ("LogEndOffset", "LogStartOffset", "NumLogSegments", "RetentionSizeInPercent", "Size"):
        bean = f"kafka.log:name={name},partition={partition},topic=measured,type=Log"
        assert beans[OURS["broker"]][bean] == beans[REAL["broker"]][bean], name


@pytest.mark.parametrize("name", ["Replicas", "InSyncReplicas"])
def test_leaders_count_their_replicas_and_followers_count_none(beans: Mapping[int, Beans], name: str) -> None:
    seen = {}
    for kind, node in (("kafka", REAL["broker"]), ("ours", OURS["broker"])):
        counts = [
            beans[node][f"kafka.cluster:name={name}Count,partition={partition},topic=measured,type=Partition"]["Value"]
            for partition in (0, 1)
        ]
        seen[kind] = counts
    assert sorted(zip(seen["kafka"], seen["ours"], strict=True)) in (
        [("0", "2"), ("2", "0")],
        [("0", "2"), ("0", "2")],
        [("2", "0"), ("2", "0")],
    )
