"""`barnabas configs` against a real Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.configs.changes import parse_pairs
from barnabas.cli.errors import CliError
from tests.cli.conftest import Barnabas, Run, create_topic, until
from tests.peers.kafka import RealKafka
from tests.peers.tools import CONFIG_COMMAND, run_tool


def by_key(run: Run) -> dict[str, object]:
    return {row["key"]: row["value"] for row in run.json}


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=[2,3],c=", {"a": "1", "b": "2,3", "c": ""}),
        ("SCRAM-SHA-512=[iterations=8192,password=x]", {"SCRAM-SHA-512": "iterations=8192,password=x"}),
    ],
)
def test_lists_stand_in_brackets(text: str, pairs: dict[str, str]) -> None:
    assert parse_pairs(text) == pairs


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(CliError, match="KEY=VALUE"):
        parse_pairs("a=1,b")


@pytest.mark.peer
def test_settings_of_a_topic(tool: Barnabas, real_kafka: RealKafka, name: str, tmp_path: Path) -> None:
    create_topic(tool, name)
    added = tool(
        "configs", "--alter", "--topic", name, "--add-config", "retention.ms=7,cleanup.policy=[compact,delete]"
    )
    assert added.out == f"Updated topic {name}.\n"
    shown = until(
        lambda: tool("configs", "--describe", "--entity-type", "topics", "--entity-name", name, "--output", "json"),
        lambda r: by_key(r).get("retention.ms") == "7",
    )
    assert by_key(shown)["cleanup.policy"] == "compact,delete"
    by_java = run_tool(CONFIG_COMMAND, "--bootstrap-server", real_kafka.bootstrap(), "--describe", "--topic", name)
    assert "retention.ms=7" in by_java
    everything = by_key(tool("configs", "--describe", "--topic", name, "--all", "--output", "json"))
    assert everything["segment.bytes"] == "1073741824"
    changes = tmp_path / "changes.properties"
    changes.write_text("retention.ms=8\n")
    assert tool("configs", "--alter", "--topic", name, "--add-config-file", str(changes)).code == 0
    assert tool("configs", "--alter", "--topic", name, "--delete-config", "retention.ms").code == 0
    until(
        lambda: tool("configs", "--describe", "--topic", name, "--output", "json"),
        lambda r: "retention.ms" not in by_key(r),
    )
    wrong = tool("configs", "--alter", "--topic", name, "--add-config", "retention.ms=soon")
    assert (wrong.code, "INVALID_CONFIG" in wrong.err) == (1, True)
    tool("topics", "--delete", "--topic", name)


@pytest.mark.peer
def test_settings_of_brokers_and_loggers(tool: Barnabas) -> None:
    assert tool("configs", "--alter", "--broker", "1", "--add-config", "log.retention.ms=7200000").code == 0
    until(
        lambda: tool("configs", "--describe", "--broker", "1", "--output", "json"),
        lambda r: by_key(r) == {"log.retention.ms": "7200000"},
    )
    assert tool("configs", "--alter", "--broker", "1", "--delete-config", "log.retention.ms").code == 0
    default = ("--entity-type", "brokers", "--entity-default")
    assert tool("configs", "--alter", *default, "--add-config", "message.max.bytes=1048588").code == 0
    until(
        lambda: tool("configs", "--describe", "--broker-defaults", "--output", "json"),
        lambda r: by_key(r).get("message.max.bytes") == "1048588",
    )
    assert tool("configs", "--alter", *default, "--delete-config", "message.max.bytes").code == 0
    logger = ("--entity-type", "broker-loggers", "--entity-name", "1")
    assert tool("configs", "--alter", *logger, "--add-config", "kafka.server.KafkaApis=ERROR").code == 0
    until(
        lambda: tool("configs", "--describe", *logger, "--output", "json"),
        lambda r: by_key(r)["kafka.server.KafkaApis"] == "ERROR",
    )


@pytest.mark.peer
def test_settings_of_users_clients_and_addresses(tool: Barnabas, name: str) -> None:
    both = ("--entity-type", "users", "--entity-name", name, "--entity-type", "clients", "--entity-default")
    assert tool("configs", "--alter", *both, "--add-config", "producer_byte_rate=5").code == 0
    shown = until(lambda: tool("configs", "--describe", *both, "--output", "json"), lambda r: r.json != [])
    assert shown.json == [{"entity": f"client-id <default>, user {name}", "key": "producer_byte_rate", "value": 5.0}]
    assert tool("configs", "--alter", *both, "--delete-config", "producer_byte_rate").code == 0
    scram = "SCRAM-SHA-256=[iterations=8192,password=x],consumer_byte_rate=9"
    assert tool("configs", "--alter", "--user", name, "--add-config", scram).code == 0
    shown = until(lambda: tool("configs", "--describe", "--user", name, "--output", "json"), lambda r: len(r.json) == 2)
    assert by_key(shown) == {"consumer_byte_rate": 9.0, "SCRAM-SHA-256": "iterations=8192"}
    removed = tool("configs", "--alter", "--user", name, "--delete-config", "SCRAM-SHA-256,consumer_byte_rate")
    assert removed.code == 0
    address = ("--ip", "127.9.9.9")
    assert tool("configs", "--alter", *address, "--add-config", "connection_creation_rate=7").code == 0
    until(
        lambda: tool("configs", "--describe", *address, "--output", "json"),
        lambda r: by_key(r) == {"connection_creation_rate": 7.0},
    )
    assert tool("configs", "--alter", *address, "--delete-config", "connection_creation_rate").code == 0


def test_flags_that_make_no_sense_are_explained(barnabas: Barnabas) -> None:
    assert "whose settings" in barnabas("configs", "--describe").err
    assert "want one of topics" in barnabas("configs", "--describe", "--entity-type", "topic").err
    assert "Only users and clients" in barnabas("configs", "--describe", "--topic", "t", "--user", "u").err
