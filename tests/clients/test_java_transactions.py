"""Java's transactional producers, readers of what is committed, and Kafka's tools about them, on a cluster of ours."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.testing.processes import ProcessCluster
from tests.clients.nodes import until
from tests.peers import tools
from tests.peers.maven import compiled, java, kafka_classpath
from tests.peers.tools import run_tool

pytestmark = [pytest.mark.peer, pytest.mark.cluster]
WAIT_S = 60.0
PROGRAM = Path(__file__).parents[1] / "peers" / "java" / "ExactlyOnce.java"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Give two brokers under a controller, all ours."""
    few = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
    folder = tmp_path_factory.mktemp("transactions")
    with ProcessCluster(folder, controllers=1, brokers=2, properties=few) as made:
        (folder / "java.properties").write_text(made.client_texts()["java"])
        yield made


def java_file(cluster: ProcessCluster) -> Path:
    return cluster.plan.files.directory / "java.properties"


def make(cluster: ProcessCluster, *topics: str) -> None:
    async def work() -> None:
        async with Admin(ClientConfig.from_properties(cluster.client())) as admin:
            assert set((await admin.create_topics([NewTopic(topic, 1, 2) for topic in topics])).values()) == {None}

    asyncio.run(work())


def read(cluster: ProcessCluster, topic: str) -> list[str]:
    """Give what is committed of partition 0, up to its end."""
    settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**cluster.librdkafka(), **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error() is not None:
                return found
            found.append((message.value() or b"").decode())
    finally:
        consumer.close()


def run(cluster: ProcessCluster, main_class: str, *args: str) -> str:
    where = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(java_file(cluster)))
    return run_tool(main_class, *where, *args)


def alone(main_class: str, *args: str, classpath: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in a JVM of its own, to its end: the summaries of some come from shutdown hooks."""
    options = ["-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath or kafka_classpath()]
    command = [java(), *options, main_class, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def test_exactly_once_from_topic_to_topic(cluster: ProcessCluster) -> None:
    make(cluster, "in", "out")
    classpath = f"{compiled(PROGRAM)}:{kafka_classpath()}"
    done = alone("ExactlyOnce", str(java_file(cluster)), "in", "out", "200", classpath=classpath)
    said = [line for line in done.stdout.splitlines() if line.startswith(("aborted", "committed", "fenced", "not"))]
    # committed: behind 200 records that were aborted, their marker, and 200 that were not
    assert len(said) == 3, done.stdout + done.stderr
    assert said[0] == "aborted"
    assert re.fullmatch(r"committed \[OffsetAndMetadata\{offset=401, .*\}\]", said[1]), said
    assert said[2] == "fenced"
    wanted = [*(f"kept committed {n}" for n in range(200)), "by a successor"]
    until(lambda: read(cluster, "out"), lambda found: found == wanted, WAIT_S)


def test_kafkas_tool_about_transactions(cluster: ProcessCluster) -> None:
    make(cluster, "looked-at")
    # Open for longer than the tools take, each of which starts a JVM.
    settings = {"transactional.id": "looked-at", "transaction.timeout.ms": 600_000}
    producer = Producer({**cluster.librdkafka(), **settings})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("looked-at", b"x", partition=0)
    assert producer.flush(WAIT_S) == 0
    listed = run(cluster, tools.TRANSACTIONS_COMMAND, "list", "--transactional-id-pattern", "looked-.*")
    assert re.search(r"^looked-at\s+\d\s+\d+\s+Ongoing", listed, re.MULTILINE), listed
    described = run(cluster, tools.TRANSACTIONS_COMMAND, "describe", "--transactional-id", "looked-at")
    assert re.search(
        r"^\d\s+looked-at\s+\d+\s+\d+\s+Ongoing\s+600000\s+\d+\s+\d+\s+looked-at-0", described, re.MULTILINE
    )
    where = ("--topic", "looked-at", "--partition", "0")
    producers = run(cluster, tools.TRANSACTIONS_COMMAND, "describe-producers", *where)
    assert re.search(r"^\d+\s+\d+\s+-1\s+0\s+\d+\s+0\s*$", producers, re.MULTILINE), producers
    hanging = run(cluster, tools.TRANSACTIONS_COMMAND, "find-hanging", *where)
    assert "looked-at" not in hanging
    assert "looked-at" not in run(cluster, tools.TRANSACTIONS_COMMAND, "find-hanging", "--broker-id", "1")
    run(cluster, tools.TRANSACTIONS_COMMAND, "abort", *where, "--start-offset", "0")
    producers = run(cluster, tools.TRANSACTIONS_COMMAND, "describe-producers", *where)
    assert re.search(r"^\d+\s+\d+\s+0\s+0\s+\d+\s+None\s*$", producers, re.MULTILINE), producers
    run(cluster, tools.TRANSACTIONS_COMMAND, "forceTerminateTransaction", "--transactionalId", "looked-at")
    described = run(cluster, tools.TRANSACTIONS_COMMAND, "describe", "--transactional-id", "looked-at")
    assert re.search(r"looked-at\s+\d+\s+\d+\s+(CompleteAbort|PrepareAbort|Empty)", described), described


def test_performance_and_verifiable_tools(cluster: ProcessCluster) -> None:
    make(cluster, "measured")
    printed = run(
        cluster,
        tools.PRODUCER_PERFORMANCE,
        *("--topic", "measured", "--num-records", "2000", "--record-size", "50", "--throughput", "-1"),
        *("--transactional-id", "measured", "--transaction-duration-ms", "50"),
    )
    assert re.search(r"^2000 records sent", printed, re.MULTILINE), printed
    committed = java_file(cluster).with_name("committed.properties")
    committed.write_text(java_file(cluster).read_text() + "isolation.level=read_committed\n")
    where = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(committed), "--topic", "measured")
    done = alone(tools.VERIFIABLE_PRODUCER, *where, "--max-messages", "500", "--acks", "-1")
    assert re.search(r'"name":"tool_data".*"sent":500,"acked":500', done.stdout), done.stdout[-500:] + done.stderr
    group = ("--group-id", "verified", "--max-messages", "2500", "--reset-policy", "earliest")
    printed = alone(tools.VERIFIABLE_CONSUMER, *where, *group).stdout
    assert sum(int(n) for n in re.findall(r'"name":"records_consumed","count":(\d+)', printed)) == 2500
    offsets = run(cluster, tools.CONSUMER_GROUP_COMMAND, "--describe", "--group", "verified")
    assert re.search(r"verified\s+measured\s+0\s+\d+\s+\d+\s+0\s", offsets), offsets


def test_client_metrics(cluster: ProcessCluster) -> None:
    named = ("--name", "producers")
    about = ("--metrics", "org.apache.kafka.producer.", "--interval", "5000", "--match", "client_id=p.*")
    assert "Altered client metrics config for producers" in run(
        cluster, tools.CLIENT_METRICS_COMMAND, "--alter", *named, *about
    )
    described = until(
        lambda: run(cluster, tools.CLIENT_METRICS_COMMAND, "--describe", *named), lambda text: "interval" in text
    )
    assert "interval.ms=5000" in described
    assert "client_id=p.*" in described
    until(lambda: run(cluster, tools.CLIENT_METRICS_COMMAND, "--list").split(), lambda names: "producers" in names)
    run(cluster, tools.CLIENT_METRICS_COMMAND, "--delete", *named)
    until(lambda: run(cluster, tools.CLIENT_METRICS_COMMAND, "--list").split(), lambda names: "producers" not in names)
