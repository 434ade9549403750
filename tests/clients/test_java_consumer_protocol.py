"""Kafka's own consumer and tools, 4.3.1, in groups of the consumer protocol (KIP-848) on a secured node of ours."""

from __future__ import annotations

import re

import pytest

from tests.clients.nodes import ServedNode
from tests.clients.test_java_tools import Tools
from tests.peers import tools

pytestmark = pytest.mark.peer
RECORDS = 20


@pytest.fixture
def kafka(secured: ServedNode) -> Tools:
    return Tools(secured)


def consume(kafka: Tools, group: str, records: int, *what: str) -> list[str]:
    printed = kafka.run(
        tools.CONSOLE_CONSUMER,
        *("--group", group, "--max-messages", str(records), "--timeout-ms", "120000", "--from-beginning"),
        *("--command-property", "group.protocol=consumer", *what),
    )
    return sorted(printed.split("\n")[:records])


def test_a_consumer_reads_on_where_its_group_left_off(kafka: Tools, name: str) -> None:
    kafka.topic(name, 3, records=RECORDS)
    first = consume(kafka, name, 5, "--topic", name)
    rest = consume(kafka, name, RECORDS - 5, "--topic", name)
    assert sorted(first + rest) == sorted(f"v{i}" for i in range(RECORDS))


def test_a_consumer_reads_what_its_pattern_matches(kafka: Tools, name: str) -> None:
    for number in (1, 2):
        kafka.topic(f"{name}-{number}", 1, records=5)
    kafka.topic(f"{name}-other", 1, records=5)
    assert consume(kafka, name, 10, "--include", rf"{name}-\d") == sorted([f"v{i}" for i in range(5)] * 2)


def test_groups_are_listed_described_and_deleted(kafka: Tools, name: str) -> None:
    kafka.topic(name, 2, records=RECORDS)
    consume(kafka, name, RECORDS, "--topic", name)
    group = ("--group", name)
    listed = kafka.run(tools.GROUPS_COMMAND, "--list")
    assert re.search(rf"^{name}\s+Consumer\s+consumer\s*$", listed, re.M)
    listed = kafka.run(tools.CONSUMER_GROUP_COMMAND, "--list", "--state", "Empty", "--type", "consumer")
    assert name in listed
    state = kafka.run(tools.CONSUMER_GROUP_COMMAND, "--describe", *group, "--state", "--verbose")
    assert re.search(rf"^{name}\s+127\.0\.0\.1:\d+\s+\(1\)\s+uniform\s+Empty\s+\d+\s+\d+\s+0\s*$", state, re.M), state
    offsets = kafka.run(tools.CONSUMER_GROUP_COMMAND, "--describe", *group)
    assert len(re.findall(rf"^{name}\s+{name}\s+[01]\s+\d+\s+\d+\s+0\s+-\s+-\s+-", offsets, re.M)) == 2, offsets
    kafka.run(tools.CONSUMER_GROUP_COMMAND, *group, "--topic", name, "--reset-offsets", "--to-earliest", "--execute")
    assert len(consume(kafka, name, RECORDS, "--topic", name)) == RECORDS
    kafka.run(tools.CONSUMER_GROUP_COMMAND, "--delete-offsets", *group, "--topic", name)
    deleted = kafka.run(tools.CONSUMER_GROUP_COMMAND, "--delete", *group)
    assert f"Deletion of requested consumer groups ('{name}') was successful." in deleted
    assert name not in kafka.run(tools.CONSUMER_GROUP_COMMAND, "--list").split()
