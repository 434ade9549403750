"""Kafka's own command-line classes, 4.3.1, against a secured node of ours: what they print is what is asserted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from tests.clients.nodes import ServedNode, until
from tests.peers import tools
from tests.peers.tools import run_tool, run_tool_result

pytestmark = pytest.mark.peer


class Tools:
    """Kafka's tools, pointed at one node."""

    def __init__(self, node: ServedNode) -> None:
        self.node = node

    def run(self, main_class: str, *args: str, stdin: str = "") -> str:
        return run_tool(main_class, *self._where(), *args, stdin=stdin)

    def fail(self, main_class: str, *args: str) -> str:
        result = run_tool_result(main_class, *self._where(), *args)
        return result.stdout + result.stderr

    def topic(self, name: str, partitions: int = 1, records: int = 0) -> None:
        async def work(admin: Admin) -> None:
            assert await admin.create_topics([NewTopic(name, partitions)]) == {name: None}

        self.node.as_admin(work)
        if records:
            lines = "".join(f"k{i}:v{i}\n" for i in range(records))
            self.run(
                tools.CONSOLE_PRODUCER,
                *("--topic", name, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
                stdin=lines,
            )

    def consume(self, name: str, group: str, records: int) -> list[str]:
        printed = self.run(
            tools.CONSOLE_CONSUMER,
            *("--topic", name, "--group", group, "--max-messages", str(records), "--timeout-ms", "120000"),
            *("--from-beginning", "--formatter-property", "print.key=true"),
        )
        return printed.split("\n")[:records]

    def _where(self) -> tuple[str, ...]:
        return ("--bootstrap-server", self.node.bootstrap, "--command-config", str(self.node.java_file()))


@pytest.fixture
def kafka(secured: ServedNode) -> Tools:
    return Tools(secured)


def test_topics(kafka: Tools, name: str) -> None:
    topic = ("--topic", name)
    created = kafka.run(
        tools.TOPIC_COMMAND, "--create", *topic, "--partitions", "2", "--config", "retention.ms=3600000"
    )
    assert f"Created topic {name}." in created
    assert name in kafka.run(tools.TOPIC_COMMAND, "--list").splitlines()
    described = kafka.run(tools.TOPIC_COMMAND, "--describe", *topic)
    assert re.search(rf"Topic: {name}\s+TopicId: \S{{22}}\s+PartitionCount: 2\s+ReplicationFactor: 1", described)
    assert "retention.ms=3600000" in described
    assert re.search(r"Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)
    kafka.run(tools.TOPIC_COMMAND, "--alter", *topic, "--partitions", "5")
    assert "PartitionCount: 5" in kafka.run(tools.TOPIC_COMMAND, "--describe", *topic)
    assert "already exists" in kafka.fail(tools.TOPIC_COMMAND, "--create", *topic)
    kafka.run(tools.TOPIC_COMMAND, "--delete", *topic)
    assert name not in kafka.run(tools.TOPIC_COMMAND, "--list").splitlines()


def test_configs(kafka: Tools, name: str) -> None:
    kafka.topic(name)
    entity = ("--entity-type", "topics", "--entity-name", name)
    assert "Completed updating config" in kafka.run(
        tools.CONFIG_COMMAND, "--alter", *entity, "--add-config", "retention.ms=7200000,cleanup.policy=[compact,delete]"
    )
    described = kafka.run(tools.CONFIG_COMMAND, "--describe", *entity)
    assert "retention.ms=7200000" in described
    assert "cleanup.policy=compact,delete" in described
    kafka.run(tools.CONFIG_COMMAND, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms=7200000" not in kafka.run(tools.CONFIG_COMMAND, "--describe", *entity)
    refused = kafka.fail(tools.CONFIG_COMMAND, "--alter", *entity, "--add-config", "retention.ms=soon")
    assert "InvalidConfigurationException" in refused
    everything = kafka.run(
        tools.CONFIG_COMMAND, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"
    )
    assert "log.segment.bytes=1073741824" in everything


def test_users_and_quotas(kafka: Tools, name: str) -> None:
    user = ("--entity-type", "users", "--entity-name", name)
    kafka.run(
        tools.CONFIG_COMMAND, "--alter", *user, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=p-secret]"
    )
    kafka.run(tools.CONFIG_COMMAND, "--alter", *user, "--add-config", "producer_byte_rate=1048576")
    described = kafka.run(tools.CONFIG_COMMAND, "--describe", *user)
    assert "SCRAM-SHA-512=iterations=8192" in described
    assert "producer_byte_rate=1048576.0" in described
    kafka.run(tools.CONFIG_COMMAND, "--alter", *user, "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM-SHA-512" not in kafka.run(tools.CONFIG_COMMAND, "--describe", *user)


def test_rules_decide(kafka: Tools, name: str) -> None:
    kafka.topic(name, records=3)
    kafka.node.add_user(name)
    mine = ("--bootstrap-server", kafka.node.bootstrap, "--command-config", str(kafka.node.java_file(name)))
    rule = ("--allow-principal", f"User:{name}", "--topic", name)
    assert "Adding ACLs for resource" in kafka.run(tools.ACL_COMMAND, "--add", *rule, "--producer")
    listed = kafka.run(tools.ACL_COMMAND, "--list", "--topic", name)
    assert f"(principal=User:{name}, host=*, operation=WRITE, permissionType=ALLOW)" in listed
    assert name in run_tool(tools.TOPIC_COMMAND, *mine, "--list").splitlines()
    denied = run_tool_result(tools.TOPIC_COMMAND, *mine, "--delete", "--topic", name)
    assert "TopicAuthorizationException" in denied.stdout + denied.stderr
    kafka.run(tools.ACL_COMMAND, "--remove", "--force", *rule, "--producer")
    assert f"User:{name}" not in kafka.run(tools.ACL_COMMAND, "--list", "--topic", name)
    assert name not in run_tool(tools.TOPIC_COMMAND, *mine, "--list").splitlines()


def test_groups_and_their_offsets(kafka: Tools, name: str) -> None:
    kafka.topic(name, partitions=1, records=10)
    assert kafka.consume(name, name, 4) == [f"k{i}\tv{i}" for i in range(4)]
    group = ("--group", name)
    assert name in kafka.run(tools.CONSUMER_GROUP_COMMAND, "--list").splitlines()
    described = kafka.run(tools.CONSUMER_GROUP_COMMAND, "--describe", *group)
    assert re.search(rf"{name}\s+{name}\s+0\s+4\s+10\s+6\s", described), described
    state = kafka.run(tools.CONSUMER_GROUP_COMMAND, "--describe", *group, "--state")
    assert re.search(rf"{name}\s+127\.0\.0\.1:\d+\s+\(1\)\s+.*Empty\s+0", state), state
    reset = kafka.run(
        tools.CONSUMER_GROUP_COMMAND, *group, "--reset-offsets", "--topic", name, "--to-offset", "7", "--execute"
    )
    assert re.search(rf"{name}\s+{name}\s+0\s+7", reset)
    assert kafka.consume(name, name, 3) == ["k7\tv7", "k8\tv8", "k9\tv9"]
    deleted = kafka.run(tools.CONSUMER_GROUP_COMMAND, "--delete", *group)
    assert f"Deletion of requested consumer groups ('{name}') was successful." in deleted
    assert name not in kafka.run(tools.CONSUMER_GROUP_COMMAND, "--list").splitlines()


def test_offsets_of_partitions(kafka: Tools, name: str) -> None:
    kafka.topic(name, partitions=1, records=6)
    offsets = kafka.run(tools.GET_OFFSET_SHELL, "--topic", name)
    assert offsets.split() == [f"{name}:0:6"]
    assert kafka.run(tools.GET_OFFSET_SHELL, "--topic", name, "--time", "earliest").split() == [f"{name}:0:0"]
    assert kafka.run(tools.GET_OFFSET_SHELL, "--topic", name, "--time", "max-timestamp").startswith(f"{name}:0:")


def test_deleting_records(kafka: Tools, name: str, tmp_path: Path) -> None:
    kafka.topic(name, records=6)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 4}]}))
    printed = kafka.run(tools.DELETE_RECORDS_COMMAND, "--offset-json-file", str(wanted))
    assert re.search(rf"partition: {name}-0\s+low_watermark: 4", printed), printed
    assert kafka.run(tools.GET_OFFSET_SHELL, "--topic", name, "--time", "earliest").split() == [f"{name}:0:4"]


def test_performance_tools(kafka: Tools, name: str) -> None:
    kafka.topic(name, partitions=3)
    produced = kafka.run(
        tools.PRODUCER_PERFORMANCE,
        *("--topic", name, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "compression.type=lz4"),
    )
    assert re.search(r"^20000 records sent, [\d.]+ records/sec", produced, re.MULTILINE)
    consumed = kafka.run(
        tools.CONSUMER_PERFORMANCE, "--topic", name, "--num-records", "20000", "--group", name, "--timeout", "120000"
    )
    header, values = consumed.strip().splitlines()[-2:]
    found = dict(zip(header.split(", "), values.split(", "), strict=True))
    assert int(found["data.consumed.in.nMsg"]) >= 20000


def test_log_segments_are_readable(kafka: Tools, name: str) -> None:
    kafka.topic(name, records=3)
    segment = kafka.node.folder / "node" / "data" / f"{name}-0" / "00000000000000000000.log"
    dumped = until(
        lambda: run_tool(tools.DUMP_LOG_SEGMENTS, "--files", str(segment), "--print-data-log"),
        lambda text: "v2" in text,
    )
    assert re.search(r"offset: 2 .*key: k2 payload: v2", dumped)
    metadata = sorted((kafka.node.folder / "node" / "data" / "__cluster_metadata-0").glob("*.log"))[-1]
    decoded = run_tool(tools.DUMP_LOG_SEGMENTS, "--cluster-metadata-decoder", "--files", str(metadata))
    assert f'"name":"{name}"' in decoded


def test_api_versions(kafka: Tools) -> None:
    printed = kafka.run(tools.BROKER_API_VERSIONS)
    assert f"{kafka.node.bootstrap} (id: 1 rack: null isFenced: false) -> (" in printed
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", printed)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", printed)
    assert re.search(r"ConsumerGroupHeartbeat\(68\): 0 to 1 \[usable: 1\]", printed)
    assert "ShareGroupHeartbeat(76): UNSUPPORTED" in printed


def test_log_dirs(kafka: Tools, name: str) -> None:
    kafka.topic(name, partitions=2, records=5)
    printed = kafka.run(tools.LOG_DIRS_COMMAND, "--describe", "--topic-list", name)
    (broker,) = json.loads(printed.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["error"] is None
    assert {p["partition"] for p in directory["partitions"]} == {f"{name}-0", f"{name}-1"}
    assert sum(p["size"] for p in directory["partitions"]) > 0
    assert all(p["offsetLag"] == 0 and not p["isFuture"] for p in directory["partitions"])


def test_the_quorum(kafka: Tools) -> None:
    status = kafka.run(tools.METADATA_QUORUM_COMMAND, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\b", status)
    assert re.search(r"MaxFollowerLag:\s+0\b", status)
    assert re.search(r'CurrentVoters:\s+\[\{"id": 1, "directoryId": "\S{22}"', status), status
    replication = kafka.run(tools.METADATA_QUORUM_COMMAND, "describe", "--replication")
    assert re.search(r"^1\s+\S{22}\s+\d+\s+0\s+.*Leader", replication, re.MULTILINE), replication


def test_features(kafka: Tools) -> None:
    printed = kafka.run(tools.FEATURE_COMMAND, "describe")
    assert re.search(r"Feature: metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: 4.3-IV\d", printed)
    assert re.search(r"Feature: kraft.version\s+.*FinalizedVersionLevel: 1", printed)
    assert re.search(r"Feature: share.version\s+.*FinalizedVersionLevel: 0", printed)


def test_a_wrong_password_is_refused(kafka: Tools, name: str) -> None:
    kafka.node.add_user(name)
    config = kafka.node.java_file(name)
    config.write_text(config.read_text().replace(f"{name}-secret", "guess"))
    result = run_tool_result(
        tools.TOPIC_COMMAND, "--bootstrap-server", kafka.node.bootstrap, "--command-config", str(config), "--list"
    )
    assert "SaslAuthenticationException" in result.stdout + result.stderr
