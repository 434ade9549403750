"""Transactions with bad input: numbers out of their range, names of any length, requests of others' protocols."""

# ruff: noqa: E501 - tables of requests

from __future__ import annotations

from typing import Any, Final

import pytest

from barnabas.wire.api_keys import ApiKey

from .requests import request
from .script import side_by_side
from .side import ADMIN, NOBODY, Side
from .test_groups import join
from .test_records import batch, fetch, produce
from .test_transactions import (
    Producer,
    added,
    begun,
    committed,
    described,
    ended,
    init,
    marker,
    ready,
    ready_group,
    settled,
    versions,
    written,
)

pytestmark = pytest.mark.peer
MOST: Final = 2**31 - 1
EPOCHS: Final = (-(2**15), -2, 2**15 - 1)
IDS: Final = (-(2**63), -2, 2**63 - 1)


def odd(producer: Producer) -> dict[str, Producer]:
    """Give who nobody can be."""
    return {
        **{f"epoch {epoch}": producer._replace(epoch=epoch) for epoch in EPOCHS},
        **{f"id {each}": producer._replace(id=each) for each in IDS},
        "nobody at all": producer._replace(id=-1),
        "no epoch": producer._replace(epoch=-1),
    }


@side_by_side
def test_producers_that_nobody_can_be(s: Side) -> None:
    s.topic("txn-odd")
    ready_group(s, "txn-odd")
    for version in versions(ApiKey.INIT_PRODUCER_ID):
        if version < 3:
            continue
        now = begun(s, f"txn-odd-{version}")
        for note, each in odd(now).items():
            s.call(init(each.name, producer_id=each.id, producer_epoch=each.epoch), version, note=note)
            s.call(init(None, producer_id=each.id, producer_epoch=each.epoch), version, note=f"{note}, no name")
        s.call(described(now.name))
    for version in versions(ApiKey.END_TXN):
        now = begun(s, f"txn-odd-end-{version}")
        s.ask(added(3, now, ("txn-odd", [0])), 3)
        for note, each in odd(now).items():
            s.call(ended(each, commit=True), version, note=note)
        s.call(described(now.name))
        s.call(ended(now, commit=False), version)
        settled(s, now.name)
    now = begun(s, "txn-odd")
    for note, each in odd(now).items():
        for version in (0, 3, 4, 5):
            s.call(added(version, each, ("txn-odd", [0])), version, note=note)
        s.call(added(5, each, ("txn-odd", [0]), verify_only=True), 5, note=f"{note}, verified")
        for version in (0, 4):
            s.call(request("AddOffsetsToTxn", **each.fields, group_id="txn-odd"), version, note=note)
        for version in (0, 3, 5):
            s.call(committed(each, "txn-odd", ("txn-odd", [0])), version, note=note)
    s.call(added(3, now, ("txn-odd", [-1])), 3, note="a negative partition")
    s.call(added(3, now, ("", [0])), 3, note="no topic")
    s.call(added(3, now, ("not a name!", [0])), 3, note="a bad name")
    s.call(added(3, now, ("txn-odd", [0]), ("txn-odd", [0])), 3, note="a topic twice")
    s.call(described(now.name))
    s.call(ended(now, commit=False), 3)
    settled(s, now.name)


@side_by_side
def test_sequences_out_of_their_range(s: Side) -> None:
    ident = s.topic("txn-range", 2)
    for version in (3, 11, 12):
        now = begun(s, f"txn-range-{version}")
        if version < 12:
            s.ask(added(3, now, ("txn-range", [0])), 3)

        def send(note: str, sequence: int = 0, count: int = 2, by: Producer = now, **fields: Any) -> None:
            records = written(by, sequence, count, **fields)
            produce(s, "txn-range", records, version, transactional_id=by.name, note=note)  # noqa: B023

        for sequence in (-(2**31), -2, -1, 1, MOST - 1, MOST):
            send(f"from {sequence}", sequence)
        for note, each in odd(now).items():
            send(note, by=each)
        send("begun")
        for sequence in (-1, MOST, MOST - 1, 0, 1, 3):
            send(f"from {sequence}, begun", sequence)
        for note, each in odd(now).items():
            send(f"{note}, begun", 2, by=each)
        send("goes on", 2)
        s.call(request("DescribeProducers", topics=[{"name": "txn-range", "partition_indexes": [0]}]))
        s.call(ended(now, commit=True), 3)
        settled(s, now.name)
    s.call(fetch("txn-range", ident, version=12, isolation_level=1), 12)


@side_by_side
def test_sequences_that_begin_anew(s: Side) -> None:
    """After the largest sequence number comes 0, within a batch too."""
    ident = s.topic("txn-wraps")
    s.until(init(None), lambda a: a.error_code == 0)
    for turn, (first, count) in enumerate(((MOST - 1, 2), (MOST - 1, 4), (MOST, 1), (MOST - 3, 2))):
        idempotent = s.ask(init(None)).producer_id

        def send(sequence: int, count: int, note: str = "", producer: int = idempotent) -> None:
            records = batch(count, producer_id=producer, producer_epoch=0, base_sequence=sequence)
            produce(s, "txn-wraps", records, note=f"{turn}: {count} from {sequence} {note}")  # noqa: B023

        send(first, count, "first of all")
        after = (first + count) % 2**31
        send(after + 1, 1, "a gap")
        send(after, 3, "goes on")
        send(first, count, "again")
        send(after, 3, "again")
        send((after + 3) % 2**31, 2, "goes on")
    s.call(fetch("txn-wraps", ident, version=12), 12)


LONG: Final = {"32767 bytes": "n" * 32_767, "16383 of two bytes": "é" * 16_383, "250 bytes": "n" * 250}
"""No string is longer than the first of them."""


@side_by_side
def test_names_that_are_too_long(s: Side) -> None:
    s.topic("txn-long")
    ready(s, "txn-long", *LONG.values())
    ready_group(s, "txn-long", *LONG.values())
    for note, name in LONG.items():
        s.call(request("FindCoordinator", coordinator_keys=[name], key_type=1), note=note)
        s.call(described(name), note=note)
        answer = s.call(init(name), note=note)
        s.call(described(name), note=note)
        producer = Producer(name, max(answer.producer_id, 0), max(answer.producer_epoch, 0))
        s.call(added(5, producer, ("txn-long", [0])), 5, note=note)
        s.call(ended(producer, commit=False), note=note)
        settled(s, name)
        produce(s, "txn-long", written(producer, 0), 12, transactional_id=name, note=note)
        s.call(request("AddOffsetsToTxn", **producer.fields, group_id="txn-long"), note=note)
        s.call(committed(producer, "txn-long", ("txn-long", [0])), note=note)
        by = begun(s, "txn-long")
        s.call(request("AddOffsetsToTxn", **by.fields, group_id=name), note=f"group of {note}")
        s.call(committed(by, name, ("txn-long", [0])), note=f"group of {note}")
        s.call(committed(by, "txn-long", ("txn-long", [0, 0]), ("txn-long", [0])), note="a partition twice")
        s.call(ended(by, commit=False))
        settled(s, by.name)


@side_by_side
def test_offsets_of_the_other_protocol(s: Side) -> None:
    """Of members of the classic protocol: the consumer protocol's are with its own heartbeats."""
    group = "txn-classic"
    ready_group(s, group)
    s.topic("txn-other")
    first = s.call(join(group), 3)
    member, generation = first.member_id, first.generation_id
    s.ask(
        request(
            "SyncGroup",
            group_id=group,
            generation_id=generation,
            member_id=member,
            assignments=[{"member_id": member, "assignment": b"all"}],
        ),
        3,
    )
    s.call(request("ConsumerGroupHeartbeat", group_id=group, member_id=member, member_epoch=generation))
    for epoch in (-2, -1, 0, generation + 1):
        s.call(request("ConsumerGroupHeartbeat", group_id=group, member_id=member, member_epoch=epoch), note=f"{epoch}")
    now = begun(s, group)
    s.ask(request("AddOffsetsToTxn", **now.fields, group_id=group), 3)
    whos: list[dict[str, Any]] = [
        {"member_id": member, "generation_id": epoch} for epoch in (generation, generation - 1, generation + 1, -1, -5)
    ]
    whos += [{"member_id": "", "generation_id": generation}, {"member_id": "x", "generation_id": generation}, {}]
    whos.append({"member_id": member, "generation_id": generation, "group_instance_id": "none"})
    for who in whos:
        s.call(committed(now, group, ("txn-other", [0]), **who), 5, note=f"{ {**who, 'member_id': ''} }")
    topics = [{"name": "txn-other", "partition_indexes": [0]}]
    for epoch in (generation, generation + 1, -1, 0):
        for name in (member, "x", "", None):
            asked = {"group_id": group, "member_id": name, "member_epoch": epoch, "topics": topics}
            s.call(request("OffsetFetch", groups=[asked]), 9, note=f"{name and len(name)} {epoch}")
    s.call(ended(now, commit=True), 3)
    settled(s, now.name)
    s.call(request("LeaveGroup", group_id=group, members=[{"member_id": member}]))


@side_by_side
def test_markers_of_coordinators_of_the_past(s: Side) -> None:
    """Left out: a partition that is named twice, which Kafka never answers."""
    ident = s.topic("txn-past", 2)
    for level in (0, 1, 2):
        begun(s, f"txn-past-{level}")
        now = begun(s, f"txn-past-{level}")

        def send(note: str, partition: int = 0, by: Producer = now) -> None:
            name, records = by.name, written(by, 0)
            produce(s, "txn-past", records, 12, transactional_id=name, partition=partition, note=f"{level} {note}")  # noqa: B023

        def mark(note: str, coordinator: int, by: Producer = now, *, commit: bool = False, **fields: Any) -> None:
            also = {"transaction_version": level, "coordinator_epoch": coordinator, "transaction_result": commit}  # noqa: B023
            topics = fields.pop("topics", [("txn-past", [0])])
            s.call(marker(by.id, by.epoch, *topics, **{**also, **fields}), 2, note=f"{level} {note}")  # noqa: B023

        after = now._replace(epoch=now.epoch + 1)
        mark("before anything", 7, after)
        mark("a negative coordinator", -1, after)
        mark("older than that", -2, after)
        send("begun")
        mark("older", 6, after)
        mark("older, commits", 6, after, commit=True)
        s.call(request("DescribeProducers", topics=[{"name": "txn-past", "partition_indexes": [0]}]), note="open")
        mark("as old", 7, after)
        mark("as old, again", 7, after)
        send("by the epoch of the marker", by=after)
        mark("the same epoch", 8, after)
        mark("the last of all epochs", 9, now._replace(epoch=2**15 - 1))
        send("after the last of all epochs", by=now._replace(epoch=2**15 - 1))
        mark("past the last of all epochs", 9, now._replace(epoch=-(2**15)))
        mark("of no topic", 9, topics=[("", [0]), ("not a name!", [0])])
        mark("of a negative partition", 9, topics=[("txn-past", [-1])])
        mark("of a level that there is not", 9, transaction_version=3)
        mark("of a negative level", 9, transaction_version=-1)
        s.call(
            request("DescribeProducers", topics=[{"name": "txn-past", "partition_indexes": [0, 1]}]), note=f"{level}"
        )
    s.call(fetch("txn-past", ident, version=12, isolation_level=1), 12)


@side_by_side
def test_described_producers_of_nothing(s: Side) -> None:
    s.topic("txn-nothing", 2)
    now = begun(s, "txn-nothing")
    produce(s, "txn-nothing", written(now, 0), 12, transactional_id=now.name)
    tried: list[list[tuple[str, list[int]]]] = [
        [("txn-nothing", [-1, 2, MOST])],
        [("txn-nothing", [0, 0])],
        [("txn-nothing", [0]), ("txn-nothing", [0, 1])],
        [("txn-nothing", [])],
        [("", [0])],
        [("__consumer_offsets", [99]), ("__transaction_state", [99]), ("__cluster_metadata", [0])],
        [("n" * 300, [0])],
    ]
    for topics in tried:
        asked = request("DescribeProducers", topics=[{"name": n, "partition_indexes": p} for n, p in topics])
        for user in (ADMIN, NOBODY):
            s.call(asked, 0, user, note=f"{topics}"[:60])
    s.call(ended(now, commit=False), 5)
    settled(s, now.name)


REGEXES: Final = (
    r"txn-filter\pL", r"txn-filter-\p{Lu}", r"txn-filter-[[:alpha:]]", r"\Qtxn-filter-a\E", "(?P<n>txn-filter-.)", "(?<n>txn-filter-.)",
    "txn-filter-.{1,1001}", "txn-filter-.{1,1000}", "txn-filter-.++", "txn-filter-a{,2}", r"\Atxn-filter-.\z", r"\Atxn-filter-.\Z", r"txn-filter-\C",
    "(?s:txn-filter-.)", "(?U)txn-filter-.*", "txn-filter-(?:a|b)", "txn-filter-(?>a)", r"txn-filter-\8", r"txn-filter-\x61", r"txn-filter-\u0061",
    "txn-filter-[a&&b]", "txn-filter-[^a]", r"txn-filter-\b.", r"\G.*", r"txn-filter-\h", "txn-filter-[]a]", "txn-filter-a#", "(?x) txn-filter-a", "((((((((((txn-filter-a))))))))))",
    "txn-filter-a**", "txn-filter-a??", "$", "^txn-filter-a$", "\0", "é", "a" * 32_000, "(" * 1100 + ")" * 1100, "{", "a{", "a{1", "}", "]", "a|*", "|",
)  # fmt: skip
"""Kafka asks RE2/J, which knows other expressions than Java and than Python."""


@side_by_side
def test_lists_by_bad_filters(s: Side) -> None:
    for end in ("a", "B"):
        begun(s, f"txn-filter-{end}")

    def some(note: str, version: int = 2, **fields: Any) -> None:
        answer = s.ask(request("ListTransactions", **fields), version)
        answer.transaction_states = [t for t in answer.transaction_states if t.transactional_id[:10] == "txn-filter"]
        s.note(request("ListTransactions"), version, ADMIN, answer, note)

    for regex in REGEXES:
        some(repr(regex)[:40], transactional_id_pattern=regex)
    for ids in ([-(2**63)], [2**63 - 1, -1], [0] * 1000):
        some(f"{ids[:3]}", producer_id_filters=ids)
    for states in (["Empty"] * 50, ["Empty", ""], ["empty", "EMPTY"], [" Empty"], ["é" * 1000]):
        some(f"{states}"[:40], state_filters=states)
    for duration in (-2, -(2**63), 2**63 - 1):
        some(f"{duration}", duration_filter=duration)
