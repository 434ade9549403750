"""`barnabas acls` and `barnabas users` against a real Apache Kafka."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Barnabas, until
from tests.peers.kafka import RealKafka
from tests.peers.tools import ACL_COMMAND, run_tool


def rules(tool: Barnabas, *words: str) -> set[tuple[str, ...]]:
    found = tool("acls", "--list", *words, "--output", "json").json
    return {(r["resource_type"], r["principal"], r["host"], r["operation"], r["permission"]) for r in found}


@pytest.mark.peer
def test_rules_come_and_go(tool: Barnabas, real_kafka: RealKafka, name: str) -> None:
    added = tool(
        *("acls", "--add", "--allow-principal", "User:x", "--deny-principal", "User:y", "--deny-host", "10.0.0.1"),
        *("--operation", "Read", "--operation", "describe-configs", "--topic", name),
    )
    assert added.code == 0, added.err
    wanted = {
        ("TOPIC", "User:x", "*", "Read", "ALLOW"),
        ("TOPIC", "User:x", "*", "DescribeConfigs", "ALLOW"),
        ("TOPIC", "User:y", "10.0.0.1", "Read", "DENY"),
        ("TOPIC", "User:y", "10.0.0.1", "DescribeConfigs", "DENY"),
    }
    until(lambda: tool("acls", "--list", "--topic", name, "--output", "json"), lambda r: len(r.json) == 4)
    assert rules(tool, "--topic", name) == wanted
    assert rules(tool, "--topic", name, "--principal", "User:y") == {r for r in wanted if r[1] == "User:y"}
    by_java = run_tool(ACL_COMMAND, "--bootstrap-server", real_kafka.bootstrap(), "--list", "--topic", name)
    assert by_java.count("principal=User:") == 4
    assert (
        tool("acls", "--remove", "--force", "--topic", name, "--allow-principal", "User:x", "--operation", "read").code
        == 0
    )
    until(lambda: tool("acls", "--list", "--topic", name, "--output", "json"), lambda r: len(r.json) == 3)
    assert tool("acls", "--remove", "--topic", name, stdin="n\n").code == 1
    assert tool("acls", "--remove", "--topic", name, stdin="y\n").code == 0
    until(lambda: tool("acls", "--list", "--topic", name, "--output", "json"), lambda r: r.json == [])


@pytest.mark.peer
def test_producer_and_consumer_are_what_kafkas_tool_makes_of_them(
    tool: Barnabas, real_kafka: RealKafka, name: str
) -> None:
    flags = ("--producer", "--consumer", "--idempotent", "--topic", name, "--group", name, "--transactional-id", name)
    ours = tool("acls", "--add", "--allow-principal", "User:ours", *flags)
    assert ours.code == 0, ours.err
    run_tool(
        ACL_COMMAND, "--bootstrap-server", real_kafka.bootstrap(), "--add", "--allow-principal", "User:java", *flags
    )

    def of(who: str) -> set[tuple[str, ...]]:
        return {(r[0], *r[2:]) for r in rules(tool, "--principal", f"User:{who}")}

    until(lambda: tool("acls", "--list", "--principal", "User:java", "--output", "json"), lambda r: len(r.json) >= 8)
    assert of("ours") == of("java")
    for who in ("ours", "java"):
        removed = tool("acls", "--remove", "--force", "--allow-principal", f"User:{who}", *flags)
        assert removed.code == 0, removed.err


def test_rules_that_make_no_sense_are_explained(barnabas: Barnabas) -> None:
    assert "for whom" in barnabas("acls", "--add", "--topic", "t").err
    bad = barnabas("acls", "--add", "--group", "g", "--allow-principal", "User:a", "--operation", "Write")
    assert "cannot be done to a GROUP" in bad.err
    assert "Type:name" in barnabas("acls", "--add", "--topic", "t", "--allow-principal", "alice").err


@pytest.mark.peer
def test_a_user_from_create_to_delete(tool: Barnabas, barnabas: Barnabas, real_kafka: RealKafka, name: str) -> None:
    server = ("--bootstrap-server", real_kafka.bootstrap())
    created = barnabas(
        "users", "create", name, *server, "--generate", "--quota", "producer_byte_rate=5", "--output", "json"
    )
    password = created.json["password"]
    login = real_kafka.folder / f"{name}.properties"
    settings = real_kafka.client_properties("SASL_SSL", name, password, "SCRAM-SHA-256")
    login.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    until(lambda: barnabas("topics", "--list", "--command-config", str(login)), lambda r: r.code == 0)
    row = {"user": name, "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"], "quotas": {"producer_byte_rate": 5.0}}
    until(
        lambda: barnabas("users", "list", *server, "--output", "json"),
        lambda r: [found for found in r.json if found["user"] == name] == [row],
    )
    assert barnabas("users", "quota", name, *server, "--remove", "producer_byte_rate").code == 0
    assert barnabas("users", "delete", name, *server).code == 0
    refused = until(lambda: barnabas("topics", "--list", "--command-config", str(login)), lambda r: r.code == 1)
    assert "Check user name, password and sasl.mechanism" in refused.err
    gone = until(lambda: barnabas("users", "delete", name, *server), lambda r: r.code == 1)
    assert name in gone.err
