"""The tools against a Barnabas node, secured, in one walk through what they do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from barnabas.model.config import format_properties
from barnabas.testing.cluster import Cluster
from tests.cli.conftest import Barnabas, Run, until


@pytest.fixture
def node(barnabas: Barnabas, barnabas_cluster: Cluster, tmp_path: Path) -> Iterator[Barnabas]:
    """Give the command, speaking to a Barnabas node as its super user.

    The node lives in this process: its log is kept out of what the command prints.
    """
    settings = tmp_path / "client.properties"
    settings.write_text(format_properties(barnabas_cluster.admin.java))

    def run(*words: str, stdin: str = "") -> Run:
        return barnabas(*words, "--command-config", str(settings), stdin=stdin)

    with capture_logs():
        yield run


def test_a_topic_with_its_records_settings_and_group(node: Barnabas, name: str) -> None:
    assert node("topics", "--create", "--topic", name, "--partitions", "2").code == 0
    assert node("produce", "--topic", name, stdin="a\nb\nc\n").code == 0
    rows = node("offsets", "--topic", name, "--output", "json").json
    assert sum(row["offset"] for row in rows) == 3
    read = node("consume", "--topic", name, "--group", name, "--from-beginning", "--max-messages", "3")
    assert sorted(read.out.split()) == ["a", "b", "c"]
    described = node("groups", "--describe", "--group", name, "--output", "json").json
    assert sum(row["lag"] for row in described) == 0
    reset = ("groups", "--reset-offsets", "--group", name, "--topic", name, "--to-earliest", "--execute")
    assert node(*reset).code == 0
    assert node("configs", "--alter", "--topic", name, "--add-config", "retention.ms=77").code == 0
    until(
        lambda: node("configs", "--describe", "--topic", name, "--output", "json"),
        lambda r: r.json and r.json[0]["value"] == "77",
    )
    assert node("groups", "--delete", "--group", name).code == 0
    assert node("topics", "--delete", "--topic", name).code == 0


def test_users_and_rules(node: Barnabas, name: str) -> None:
    assert node("users", "create", name, "--password", "x", "--quota", "producer_byte_rate=5").code == 0
    (row,) = [r for r in node("users", "list", "--output", "json").json if r["user"] == name]
    assert (row["mechanisms"], row["quotas"]) == (["SCRAM-SHA-256", "SCRAM-SHA-512"], {"producer_byte_rate": 5.0})
    rules = ("--allow-principal", f"User:{name}", "--consumer", "--topic", name, "--group", name)
    assert node("acls", "--add", *rules).code == 0
    assert len(node("acls", "--list", "--principal", f"User:{name}", "--output", "json").json) == 3
    assert node("acls", "--remove", "--force", *rules).code == 0
    assert node("users", "delete", name).code == 0


def test_the_cluster_describes_itself(node: Barnabas) -> None:
    (voter,) = node("quorum", "describe", "--status", "--output", "json").json["current_voters"]
    assert voter["id"] == 1
    features = {r["feature"]: r["finalized"] for r in node("features", "describe", "--output", "json").json}
    assert features["metadata.version"] == "4.3-IV0"
    (directory,) = node("log-dirs", "--describe", "--output", "json").json["brokers"][0]["log_dirs"]
    assert directory["error"] is None


def test_subscriptions_to_clients_metrics(node: Barnabas, name: str) -> None:
    settings = ("--interval", "30000", "--metrics", "org.apache.kafka.,x.", "--match", "client_id=b.*")
    made = node("client-metrics", "--alter", "--name", name, *settings)
    assert made.out == f"Altered client metrics config for {name}.\n"
    shown = until(
        lambda: node("client-metrics", "--describe", "--name", name, "--output", "json"), lambda r: bool(r.json)
    )
    assert {row["key"]: row["value"] for row in shown.json} == {
        "interval.ms": "30000",
        "match": "client_id=b.*",
        "metrics": "org.apache.kafka.,x.",
    }
    assert name in node("client-metrics", "--list").out.splitlines()
    own = node("configs", "--describe", "--entity-type", "client-metrics", "--entity-name", name, "--output", "json")
    assert {row["source"] for row in own.json} == {"DYNAMIC_CLIENT_METRICS_CONFIG"}
    assert node("client-metrics", "--alter", "--name", name, "--interval", "").code == 0
    reset = until(
        lambda: node("client-metrics", "--describe", "--name", name, "--output", "json"),
        lambda r: {row["key"]: row["value"] for row in r.json}["interval.ms"] == "300000",
    )
    assert len(reset.json) == 3
    wrong = node("client-metrics", "--alter", "--name", name, "--interval", "99")
    assert (wrong.code, "INVALID_REQUEST" in wrong.err) == (1, True)
    assert node("client-metrics", "--delete", "--name", name).out == f"Deleted client metrics config for {name}.\n"
    gone = until(
        lambda: node("client-metrics", "--describe", "--name", name), lambda r: r.out.startswith("There is no")
    )
    assert name in gone.out
    generated = node("client-metrics", "--alter", "--generate-name", "--metrics", "*", "--output", "json").json["name"]
    until(lambda: node("client-metrics", "--list"), lambda r: generated in r.out)
    assert node("client-metrics", "--delete", "--name", generated).code == 0


def test_settings_of_a_group(node: Barnabas, name: str) -> None:
    changed = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"
    assert (
        node("configs", "--alter", "--entity-type", "groups", "--entity-name", name, "--add-config", changed).code == 0
    )
    own = until(
        lambda: node("configs", "--describe", "--entity-type", "groups", "--output", "json"),
        lambda r: name in {row["entity"] for row in r.json},
    )
    assert {r["key"]: r["value"] for r in own.json if r["entity"] == name} == {
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.session.timeout.ms": "50000",
    }
    everything = node("configs", "--describe", "--group", name, "--all", "--output", "json").json
    assert {"key": "consumer.assignment.interval.ms", "value": "1000"}.items() <= next(
        row for row in everything if row["key"] == "consumer.assignment.interval.ms"
    ).items()
    wrong = node("configs", "--alter", "--group", name, "--add-config", "consumer.session.timeout.ms=1")
    assert (wrong.code, "INVALID_CONFIG" in wrong.err) == (1, True)
    both = "consumer.session.timeout.ms,consumer.heartbeat.interval.ms"
    assert node("configs", "--alter", "--group", name, "--delete-config", both).code == 0
