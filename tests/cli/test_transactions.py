"""`barnabas transactions`: what hangs, decided on paper; the tool beside Kafka's own against a real Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from barnabas.cli.transactions.hanging import OpenTransaction, forgotten, long_open
from barnabas.client.admin.transactions import ActiveProducer, TransactionDescription
from barnabas.model.topic_partition import TopicPartition
from tests.cli.conftest import PATIENCE_S, Barnabas, create_topic
from tests.peers.kafka import RealKafka
from tests.peers.tools import TRANSACTIONS_COMMAND, run_tool

OPEN_FOR_MS = 600_000
"""Long enough to look at an open transaction with tools that start a JVM each."""
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def producer(producer_id: int = 7, *, last: int = 0, start: int | None = 100) -> ActiveProducer:
    return ActiveProducer(producer_id, 3, 9, last, None, start)


def description(*partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription("orders", 1, 7, 3, "Ongoing", 60_000, 5, partitions)


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (producer(last=1_000), True),
        (producer(last=1_001), False),  # it may still end in its own time
        (producer(last=1_000, start=None), False),
    ],
)
def test_what_has_been_open_for_longer_than_a_transaction_may_take(known: ActiveProducer, found: bool) -> None:
    assert bool(long_open([OpenTransaction(P0, known)], 11_001, 10_000)) is found


@pytest.mark.parametrize(
    ("names", "described", "hanging"),
    [
        ({}, {}, True),
        ({7: "orders"}, {"orders": None}, True),
        ({7: "orders"}, {"orders": description(P1)}, True),
        ({7: "orders"}, {"orders": description(P0, P1)}, False),
        ({8: "orders"}, {"orders": description(P0)}, True),
    ],
)
def test_what_no_coordinator_will_end_hangs(
    names: dict[int, str], described: dict[str, TransactionDescription | None], hanging: bool
) -> None:
    candidate = OpenTransaction(P0, producer())
    assert forgotten([candidate], names, described) == ([candidate] if hanging else [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("find-hanging",), "--broker-id"),
        (("find-hanging", "--broker-id", "1", "--partition", "0"), "--topic"),
        (("abort", "--topic", "t", "--partition", "0"), "--start-offset"),
        (("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"), "--producer-epoch"),
        (
            ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1", "--producer-epoch", "0"),
            "--coordinator-epoch",
        ),
    ],
)
def test_flags_that_are_missing_are_named(barnabas: Barnabas, words: tuple[str, ...], told: str) -> None:
    run = barnabas("transactions", "--bootstrap-server", "127.0.0.1:1", *words)
    assert (run.code, told in run.err) == (1, True)


@contextmanager
def open_transaction(kafka: RealKafka, name: str) -> Iterator[Producer]:
    """Give librdkafka's producer with one record of an open transaction in partition 0 of the topic."""
    settings = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": name}
    made = Producer({**settings, "transaction.timeout.ms": OPEN_FOR_MS})
    made.init_transactions(PATIENCE_S)
    made.begin_transaction()
    made.produce(name, b"x", partition=0)
    assert made.flush(PATIENCE_S) == 0
    yield made


def table(text: str) -> list[list[str]]:
    """Give the rows beneath the head of one of Kafka's tables."""
    return [line.split() for line in text.splitlines() if line.strip()][1:]


@pytest.mark.peer
def test_the_tool_beside_kafkas_own(tool: Barnabas, real_kafka: RealKafka, name: str) -> None:
    create_topic(tool, name, "--partitions", "1")
    server = ("--bootstrap-server", real_kafka.bootstrap())
    where = ("--topic", name, "--partition", "0")
    with open_transaction(real_kafka, name) as theirs:
        by_java = table(run_tool(TRANSACTIONS_COMMAND, *server, "describe", "--transactional-id", name))
        (ours,) = tool("transactions", "describe", "--transactional-id", name, "--output", "json").json
        assert by_java[0][:7] == [
            str(ours[key])
            for key in (
                "coordinator_id",
                "transactional_id",
                "producer_id",
                "producer_epoch",
                "transaction_state",
                "transaction_timeout_ms",
                "current_transaction_start_time_ms",
            )
        ]
        assert (ours["transaction_state"], ours["topic_partitions"]) == ("Ongoing", [f"{name}-0"])

        by_java = table(run_tool(TRANSACTIONS_COMMAND, *server, "describe-producers", *where))
        listed = tool("transactions", "describe-producers", *where, "--output", "json").json
        assert by_java == [[str(value) for value in row.values()] for row in listed]
        assert listed[0]["current_transaction_start_offset"] == 0

        by_java = table(run_tool(TRANSACTIONS_COMMAND, *server, "list", "--transactional-id-pattern", f"{name}.*"))
        listed = tool("transactions", "list", "--transactional-id-pattern", f"{name}.*", "--output", "json").json
        assert by_java == [[str(value) for value in row.values()] for row in listed]
        assert len(listed) == 1
        assert name not in tool("transactions", "list", "--duration-filter", "3600000", "--output", "json").out

        # It is open for a moment only, and its coordinator knows it.
        assert tool("transactions", "find-hanging", "--topic", name, "--output", "json").json == []
        asked = ("find-hanging", *where, "--max-transaction-timeout", "0", "--output", "json")
        assert tool("transactions", *asked).json == []

        missing = tool("transactions", "abort", *where, "--start-offset", "99")
        assert (missing.code, "No open transaction begins at offset 99" in missing.err) == (1, True)
        assert tool("transactions", "abort", *where, "--start-offset", "0").code == 0
        (after,) = tool("transactions", "describe-producers", *where, "--output", "json").json
        assert after["current_transaction_start_offset"] is None
        theirs.abort_transaction(PATIENCE_S)
    tool("topics", "--delete", "--topic", name)


@pytest.mark.peer
def test_a_producer_is_shut_out(tool: Barnabas, real_kafka: RealKafka, name: str) -> None:
    create_topic(tool, name, "--partitions", "1")
    with open_transaction(real_kafka, name) as theirs:
        ended = tool("transactions", "force-terminate", "--transactional-id", name, "--output", "json")
        assert ended.json["transactional_id"] == name
        with pytest.raises(Exception, match=r"(?i)fenced"):
            theirs.commit_transaction(PATIENCE_S)
    unknown = tool("transactions", "describe", "--transactional-id", f"{name}-unknown")
    assert (unknown.code, "no transactional id" in unknown.err) == (1, True)
    tool("topics", "--delete", "--topic", name)
