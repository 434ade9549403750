"""`barnabas groups` against a real Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer

from barnabas.cli.errors import CliError
from barnabas.cli.groups.reset import parse_datetime, parse_duration
from tests.cli.conftest import PATIENCE_S, Barnabas, create_topic, until
from tests.peers.kafka import RealKafka
from tests.peers.tools import CONSOLE_PRODUCER, CONSUMER_GROUP_COMMAND, run_tool


@pytest.mark.parametrize(
    ("text", "ms"), [("P1D", 86_400_000), ("PT2H30M", 9_000_000), ("PT1.5S", 1500), ("-PT1S", -1000)]
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["1d", "P", "PT", "tomorrow"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(CliError, match="P1D"):
        parse_duration(text)


def test_times_are_utc_unless_they_say() -> None:
    assert parse_datetime("1970-01-01T00:00:01.500") == 1500
    assert parse_datetime("1970-01-01T01:00:00+01:00") == 0


def test_flags_that_make_no_sense_are_explained(barnabas: Barnabas) -> None:
    cluster = ("--bootstrap-server", "127.0.0.1:1")
    assert "--all-groups" in barnabas("groups", *cluster, "--describe").err
    assert "--all-topics" in barnabas("groups", *cluster, "--reset-offsets", "--group", "g", "--to-latest").err
    both = barnabas(
        "groups", *cluster, "--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--to-earliest"
    )
    assert "exactly one of --to-earliest" in both.err
    sides = barnabas("groups", *cluster, "--describe", "--group", "g", "--members", "--state")
    assert "Give one of --members, --offsets and --state" in sides.err
    assert "only --list" in barnabas("groups", *cluster, "--describe", "--group", "g", "--state", "Stable").err
    assert "--delete-offsets" in barnabas("groups", *cluster, "--delete", "--group", "g", "--topic", "t").err


@pytest.mark.peer
def test_a_group_from_its_first_member_to_its_deletion(
    tool: Barnabas, real_kafka: RealKafka, name: str, tmp_path: Path
) -> None:
    create_topic(tool, name, "--partitions", "1")
    server = ("--bootstrap-server", real_kafka.bootstrap())
    run_tool(CONSOLE_PRODUCER, *server, "--topic", name, stdin="a\nb\nc\nd\ne\n")
    consumer = Consumer(
        {"bootstrap.servers": real_kafka.bootstrap(), "group.id": name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([name])
    messages = consumer.consume(3, PATIENCE_S)
    assert len(messages) == 3
    consumer.commit(message=messages[-1], asynchronous=False)
    (row,) = tool("groups", "--describe", "--group", name, "--output", "json").json
    assert (row["current_offset"], row["log_end_offset"], row["lag"]) == (3, 5, 2)
    assert row["client_id"] == "rdkafka"
    (member,) = tool("groups", "--describe", "--group", name, "--members", "--verbose", "--output", "json").json
    assert member["assignment"] == [f"{name}(0)"]
    (state,) = tool("groups", "--describe", "--group", name, "--state", "--output", "json").json
    assert (state["state"], state["members"], state["coordinator_id"]) == ("Stable", 1, 1)
    assert f"{name}" in tool("groups", "--list", "--state", "stable").out
    assert {"group": name, "type": "classic"} in [
        {**g, "type": g["type"].lower()} for g in tool("groups", "--list", "--type", "--output", "json").json
    ]
    assert name not in tool("groups", "--list", "--state", "Empty").out
    running = tool("groups", "--reset-offsets", "--group", name, "--topic", name, "--to-earliest", "--execute")
    assert (running.code, "stop its members" in running.err) == (1, True)
    assert tool("groups", "--delete", "--group", name).code == 1
    consumer.close()

    until(
        lambda: tool("groups", "--describe", "--group", name, "--state", "--output", "json"),
        lambda r: r.json[0]["state"] == "Empty",
    )
    resetting = ("groups", "--reset-offsets", "--group", name, "--topic", name)
    for flags, offset in (
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-offset", "2"], 2),
        (["--to-offset", "99"], 5),
        (["--shift-by", "-1"], 2),
        (["--to-current"], 3),
        (["--to-datetime", "2001-01-01T00:00:00.000"], 0),
        (["--by-duration", "PT0S"], 5),
    ):
        (row,) = tool(*resetting, *flags, "--dry-run", "--output", "json").json
        assert (flags, row["new_offset"]) == (flags, offset)
    exported = tool(*resetting, "--to-offset", "1", "--export").out
    assert exported == f"{name},0,1\n"
    plan = tmp_path / "plan.csv"
    plan.write_text(exported)
    assert tool("groups", "--reset-offsets", "--group", name, "--from-file", str(plan), "--execute").code == 0
    by_java = run_tool(CONSUMER_GROUP_COMMAND, *server, "--describe", "--group", name)
    assert [line.split()[3:6] for line in by_java.splitlines() if line.startswith(name)] == [["1", "5", "4"]]
    assert tool("groups", "--delete-offsets", "--group", name, "--topic", f"{name}:0").code == 0
    assert tool("groups", "--describe", "--group", name, "--output", "json").code in (0, 1)
    tool("groups", "--delete", "--group", name)
    gone = tool("groups", "--describe", "--group", name)
    assert (gone.code, f"no group {name}" in gone.err) == (1, True)
    tool("topics", "--delete", "--topic", name)


@pytest.mark.peer
def test_a_group_of_the_consumer_protocol(tool: Barnabas, real_kafka: RealKafka, name: str) -> None:
    create_topic(tool, name, "--partitions", "2")
    run_tool(CONSOLE_PRODUCER, "--bootstrap-server", real_kafka.bootstrap(), "--topic", name, stdin="a\nb\n")
    consumer = Consumer(
        {
            "bootstrap.servers": real_kafka.bootstrap(),
            "group.id": name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([name])
    messages = consumer.consume(2, PATIENCE_S)
    assert len(messages) == 2
    consumer.commit(asynchronous=False)
    describing = ("--describe", "--group", name, "--verbose", "--output", "json")
    (member,) = tool("groups", *describing, "--members").json
    assert member["assignment"] == member["target_assignment"] == [f"{name}(0,1)"]
    assert member["epoch"] == member["target_epoch"] > 0
    assert member["upgraded"] is True
    (state,) = tool("groups", *describing, "--state").json
    assert (state["type"], state["state"], state["epoch"]) == ("consumer", "Stable", member["epoch"])
    rows = tool("groups", *describing, "--offsets").json
    assert sum(row["current_offset"] or 0 for row in rows) == 2
    assert all("leader_epoch" in row for row in rows)
    assert name in tool("groups", "--list", "--type", "consumer").out
    assert name not in tool("groups", "--list", "--type", "classic").out
    running = tool("groups", "--reset-offsets", "--group", name, "--topic", name, "--to-earliest", "--execute")
    assert (running.code, "stop its members" in running.err) == (1, True)
    consumer.close()
    until(
        lambda: tool("groups", "--describe", "--group", name, "--state", "--output", "json"),
        lambda r: r.json[0]["state"] == "Empty",
    )
    resetting = ("groups", "--reset-offsets", "--group", name, "--topic", f"{name}:0,1", "--to-earliest")
    assert tool(*resetting, "--execute").code == 0
    rows = tool("groups", *describing, "--offsets").json
    assert [row["current_offset"] for row in rows] == [0, 0]
    assert tool("groups", "--delete", "--group", name).code == 0
    tool("topics", "--delete", "--topic", name)
