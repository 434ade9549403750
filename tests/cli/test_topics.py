"""`barnabas topics`, `offsets` and `delete-records` against a real Apache Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Barnabas, create_topic, until
from tests.peers.kafka import RealKafka
from tests.peers.tools import CONSOLE_PRODUCER, TOPIC_COMMAND, run_tool

pytestmark = pytest.mark.peer


def test_a_topic_lives_from_create_to_delete(tool: Barnabas, real_kafka: RealKafka, name: str) -> None:
    created = create_topic(tool, name, "--partitions", "2", "--config", "retention.ms=99")
    assert created.out == f"Created topic {name}.\n"
    by_java = run_tool(TOPIC_COMMAND, "--bootstrap-server", real_kafka.bootstrap(), "--describe", "--topic", name)
    assert "PartitionCount: 2" in by_java
    assert "retention.ms=99" in by_java
    (described,) = tool("topics", "--describe", "--topic", name, "--output", "json").json
    assert described["configs"]["retention.ms"] == "99"
    assert [p["leader"] for p in described["partitions"]] == [1, 1]
    assert "TopicId" in tool("topics", "--describe", "--topic", name).out
    again = tool("topics", "--create", "--topic", name)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert tool("topics", "--create", "--topic", name, "--if-not-exists").code == 0
    assert tool("topics", "--alter", "--topic", name, "--partitions", "3").code == 0
    until(
        lambda: tool("topics", "--describe", "--topic", name, "--output", "json"),
        lambda r: r.json[0]["partition_count"] == 3,
    )
    assert tool("topics", "--describe", "--topic", name, "--unavailable-partitions").out == ""
    assert tool("topics", "--delete", "--topic", name).out == f"Deleted topic {name}.\n"
    until(lambda: tool("topics", "--list"), lambda r: name not in r.out)


def test_a_topic_that_is_not_there_is_named(tool: Barnabas, name: str) -> None:
    for action in ("--describe", "--delete"):
        missing = tool("topics", action, "--topic", name)
        assert (missing.code, missing.out) == (1, "")
        assert name in missing.err
        assert tool("topics", action, "--topic", name, "--if-exists").code == 0


def test_no_action_and_no_cluster_are_explained(barnabas: Barnabas) -> None:
    assert "exactly one of --list" in barnabas("topics").err
    assert "--bootstrap-server" in barnabas("topics", "--list").err
    refused = barnabas("topics", "--list", "--bootstrap-server", "127.0.0.1:1")
    assert refused.code == 1
    assert "Cannot connect to 127.0.0.1:1" in refused.err
    assert len(refused.err.splitlines()) == 1


def test_who_lacks_a_permission_learns_which(barnabas: Barnabas, real_kafka: RealKafka, name: str) -> None:
    denied = barnabas(
        *("topics", "--create", "--topic", name),
        *("--command-config", str(real_kafka.client_config("SASL_SSL", "alice"))),
    )
    assert denied.code == 1
    assert f"User:alice lacks Create on topic '{name}'" in denied.err


def test_offsets_and_deleted_records(tool: Barnabas, real_kafka: RealKafka, name: str, tmp_path: Path) -> None:
    tool("topics", "--create", "--topic", name, "--partitions", "2")
    run_tool(CONSOLE_PRODUCER, "--bootstrap-server", real_kafka.bootstrap(), "--topic", name, stdin="a\nb\nc\nd\ne\n")

    def total(*time: str) -> int:
        rows = tool("offsets", "--topic", name, *time, "--output", "json").json
        assert [row["partition"] for row in rows] == [0, 1]
        return sum(row["offset"] or 0 for row in rows)

    assert (total(), total("--time", "earliest"), total("--time", "-1")) == (5, 0, 5)
    assert total("--time", "max-timestamp") >= 0
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"partitions": [{"topic": name, "partition": p, "offset": -1} for p in (0, 1)], "version": 1})
    )
    assert "LOW WATERMARK" in tool("delete-records", "--offset-json-file", str(plan)).out
    assert total("--time", "earliest") == 5
    one = tool("offsets", "--topic-partitions", f"{name}:1", "--output", "json").json
    assert [row["partition"] for row in one] == [1]
    plan.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0, "offset": 999}]}))
    beyond = tool("delete-records", "--offset-json-file", str(plan))
    assert beyond.code == 1
    assert "OFFSET_OUT_OF_RANGE" in beyond.err
    tool("topics", "--delete", "--topic", name)
