"""What our node says of its configurations, beside what Apache Kafka says of its own, by Kafka's own tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.nodes import until
from tests.peers.kafka import RealKafka
from tests.peers.tools import (
    ACL_COMMAND,
    CONFIG_COMMAND,
    FEATURE_COMMAND,
    METADATA_QUORUM_COMMAND,
    TOPIC_COMMAND,
    ToolRunner,
)

pytestmark = pytest.mark.peer

_LINE = re.compile(r"  (?P<name>[^=]+)=(?P<value>.*) sensitive=(?P<sensitive>\w+) synonyms=\{(?P<synonyms>.*)\}")


@dataclass(frozen=True)
class Described:
    value: str
    sensitive: bool
    synonyms: str


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("node"), {"log.retention.hours": "12"}) as running:
        yield running


@pytest.fixture(scope="module")
def ours(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tmp_path_factory.mktemp("client") / "client.properties"
    path.write_text(Path(cluster.files.client_configs()["java"]).read_text())
    return ["--bootstrap-server", cluster.bootstrap, "--command-config", str(path)]


@pytest.fixture(scope="module")
def theirs(real_kafka: RealKafka) -> list[str]:
    return ["--bootstrap-server", real_kafka.bootstrap("PLAINTEXT")]


def describe(tools: ToolRunner, at: list[str], kind: str, name: str) -> dict[str, Described]:
    args = (*at, "--describe", "--all", "--entity-type", kind, "--entity-name", name)
    # A broker learns of a topic a moment after the controller has made it.
    result = until(lambda: tools.run(CONFIG_COMMAND, *args), lambda result: result.code == 0)
    found = [m for line in result.stdout.splitlines() if (m := _LINE.fullmatch(line))]
    assert found, result.stdout
    return {m["name"]: Described(m["value"], m["sensitive"] == "true", m["synonyms"]) for m in found}


def test_a_topic_is_described_as_kafka_does(java_tools: ToolRunner, ours: list[str], theirs: list[str]) -> None:
    told = []
    for at in (ours, theirs):
        made = java_tools.run(
            TOPIC_COMMAND, *at, "--create", "--topic", "described", "--config", "segment.bytes=1048576",
            "--config", "cleanup.policy=compact,delete",
        )  # fmt: skip
        assert "Created topic described." in made.stdout, made.stderr
        told.append(describe(java_tools, at, "topics", "described"))
    mine, kafkas = told
    assert mine.keys() == kafkas.keys()
    # The one key that is configured otherwise here than there.
    assert mine.pop("retention.ms") == Described("43200000", False, "")
    del kafkas["retention.ms"]
    assert mine == kafkas
    assert mine["segment.bytes"].synonyms.startswith("DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576, DEFAULT_CONFIG:log.")


def test_a_broker_is_described_as_kafka_does(java_tools: ToolRunner, ours: list[str], theirs: list[str]) -> None:
    mine, kafkas = (describe(java_tools, at, "brokers", "1") for at in (ours, theirs))
    static = {n for n, one in (*mine.items(), *kafkas.items()) if "STATIC" in one.synonyms}
    both = mine.keys() & kafkas.keys()
    assert {n: mine[n].sensitive for n in both} == {n: kafkas[n].sensitive for n in both}
    assert {n: mine[n] for n in both - static} == {n: kafkas[n] for n in both - static}
    strangers = mine.keys() ^ kafkas.keys()
    assert {n for n in strangers - static if not n.startswith("barnabas.")} == set()
    assert mine["log.retention.hours"].synonyms == (
        "STATIC_BROKER_CONFIG:log.retention.hours=12, DEFAULT_CONFIG:log.retention.hours=168"
    )


def test_a_change_shows_with_its_source(java_tools: ToolRunner, ours: list[str]) -> None:
    entities = {"3": ["--entity-default"], "5": ["--entity-name", "1"]}

    def alter(entity: list[str], *change: str) -> None:
        changed = java_tools.run(CONFIG_COMMAND, *ours, "--alter", "--entity-type", "brokers", *entity, *change)
        assert changed.code == 0, changed.stderr

    try:
        for value, entity in entities.items():
            alter(entity, "--add-config", f"log.cleaner.threads={value}")
        found = describe(java_tools, ours, "brokers", "1")["log.cleaner.threads"]
    finally:  # the other tests compare this node with Kafka's defaults
        for entity in entities.values():
            alter(entity, "--delete-config", "log.cleaner.threads")
    assert found.synonyms == (
        "DYNAMIC_BROKER_CONFIG:log.cleaner.threads=5, DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=3, "
        "DEFAULT_CONFIG:log.cleaner.threads=1"
    )


def test_users_quotas_acls_and_the_quorum(java_tools: ToolRunner, ours: list[str], cluster: Cluster) -> None:
    users = java_tools.run(CONFIG_COMMAND, *ours, "--describe", "--entity-type", "users")
    assert "SCRAM credential configs for user-principal 'admin' are SCRAM-SHA-512=iterations=4096" in users.stdout
    args = ["--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default"]
    set_quota = java_tools.run(CONFIG_COMMAND, *ours, "--alter", *args, "--add-config", "producer_byte_rate=1024")
    assert set_quota.code == 0, set_quota.stderr
    quotas = java_tools.run(CONFIG_COMMAND, *ours, "--describe", *args)
    expected = "Quota configs for user-principal 'bob', the default client-id are producer_byte_rate=1024.0"
    assert expected in quotas.stdout
    added = java_tools.run(
        ACL_COMMAND, *ours, "--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders-",
        "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    assert added.code == 0, added.stderr
    acls = java_tools.run(ACL_COMMAND, *ours, "--list", "--topic", "orders-1", "--resource-pattern-type", "match")
    assert "ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)" in acls.stdout
    assert "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)" in acls.stdout
    quorum = java_tools.run(METADATA_QUORUM_COMMAND, *ours, "describe", "--status")
    assert quorum.code == 0, quorum.stderr
    assert re.search(r"LeaderId:\s+1\n", quorum.stdout)
    assert f"ClusterId:              {cluster.node.cluster_id}" in quorum.stdout
    assert re.search(
        r'CurrentVoters:\s+\[\{"id": 1, "directoryId": "\S{22}", "endpoints": \["CONTROLLER://', quorum.stdout
    )
    features = java_tools.run(FEATURE_COMMAND, *ours, "describe")
    assert re.search(r"kraft\.version .*FinalizedVersionLevel: 1\b", features.stdout), features.stdout + features.stderr
