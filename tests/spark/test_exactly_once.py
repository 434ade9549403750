"""Parts of batches, as tasks write them and the driver commits them, on a node of ours; no Spark is started."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from barnabas.spark import exactly_once
from barnabas.spark.explain import SourceError
from barnabas.spark.options import WriteOptions, parse_write_options
from barnabas.spark.part import Part, RowsWritten
from barnabas.spark.writer import BatchWriter, StreamWriter
from barnabas.testing.cluster import Cluster

from .sinks import Sink, once, rows

PREFIX: Final = "job"
NEEDED: Final = (
    ("write", "transactional_id", PREFIX),
    ("read", "group", PREFIX),
    ("write", "topic", "once"),
    ("read", "topic", "once"),
)
"""What a query's user must be allowed, by prefix."""


class Query:
    """The tasks and commits of one query that writes to one topic with one partition."""

    def __init__(self, sink: Sink, **options: str) -> None:
        self.sink = sink
        self.topic = sink.create(1)
        self.run = uuid.uuid4().hex
        given = {"topic": self.topic, "exactlyOnce": "true", "transactionalIdPrefix": PREFIX}
        self.options: WriteOptions = parse_write_options({**sink.options, **given, **options})

    def write(self, batch: int | None, number: int, *values: int) -> RowsWritten:
        """Write as a task of an execution of its own."""
        return exactly_once.write(self.options, Part(PREFIX, self.run, number, batch, uuid.uuid4().hex), rows(*values))

    def attempt(self, execution: str, batch: int | None, *values: int, number: int = 0) -> RowsWritten:
        """Write as one of the attempts of a task, the first one unless told otherwise."""
        part = Part(PREFIX, self.run, number, batch, self.run + execution)
        return exactly_once.write(self.options, part, rows(*values))

    def give_up(self, execution: str, written: Sequence[RowsWritten], *silent: int) -> None:
        """Abort a batch write as the driver does, which knows the numbers of the tasks that said nothing."""
        parts = [Part(PREFIX, self.run, number, None, self.run + execution) for number in silent]
        exactly_once.abort(self.options, written, parts)

    def commit(self, batch: int | None, *written: RowsWritten) -> None:
        exactly_once.commit(self.options, written, batch)

    def wait_seen(self, wanted: Counter[int]) -> None:
        self.sink.wait_seen(self.topic, 1, wanted)

    def seen(self, *, committed: bool = True) -> Counter[int]:
        return self.sink.seen(self.topic, 1, committed=committed)


@pytest.fixture
def query(barnabas: Cluster, tmp_path: Path) -> Query:
    return Query(Sink.of_user(barnabas.admin, tmp_path))


def test_nothing_is_seen_before_the_commit_and_everything_after_it(query: Query) -> None:
    written = [query.write(0, 0, 0, 1), query.write(0, 1, 2, 3), query.write(0, 2)]
    assert [each.rows for each in written] == [2, 2, 0]
    assert not query.seen()
    assert query.seen(committed=False) == once(4)
    query.commit(0, *written)
    query.wait_seen(once(4))
    query.commit(1, query.write(1, 0, 4))
    query.wait_seen(once(5))


def test_a_batch_that_was_committed_in_part_is_completed(query: Query) -> None:
    first, _ = query.write(7, 0, 0, 1), query.write(7, 1, 2, 3)
    query.commit(7, first)  # and here the driver is killed
    again = [query.write(7, 0, 0, 1), query.write(7, 1, 2, 3), query.write(7, 2, 4)]
    assert [each.done is not None for each in again] == [True, False, False]
    query.commit(7, *again)
    query.wait_seen(once(5))
    assert query.seen(committed=False) == once(5) + once(4, 2), "the first attempt wrote 2 and 3"
    repeated = [query.write(7, 0, 0, 1), query.write(7, 1, 2, 3), query.write(7, 2, 4)]
    query.commit(7, *repeated)
    query.wait_seen(once(5))


def test_a_second_attempt_shuts_the_first_out(query: Query) -> None:
    first, other = query.write(0, 0, 0), query.write(0, 1, 1)
    second = query.write(0, 0, 0)
    with pytest.raises(SourceError, match=r"somebody else has begun.*Nothing was committed"):
        query.commit(0, first, other)
    query.commit(0, second, other)
    query.wait_seen(once(2))


@pytest.mark.parametrize("batch", [0, None])
def test_a_late_attempt_takes_what_is_prepared_for_its_own(query: Query, batch: int | None) -> None:
    first = query.attempt("a", batch, 0, 1)
    assert query.attempt("a", batch, 0, 1) == first
    query.commit(batch, first)
    query.wait_seen(once(2))
    assert query.seen(committed=False) == once(2)


def test_what_an_earlier_execution_has_prepared_is_not_taken(query: Query) -> None:
    stale = query.attempt("a", 0, 0, 1)  # and here the driver is killed
    query.commit(0, query.attempt("b", 0, 2))
    query.wait_seen(once(3, 2))
    query.commit(1, query.attempt("b", 1, 3))  # nor what the same one has for another batch
    query.wait_seen(once(4, 2))
    with pytest.raises(SourceError, match="another attempt of this task has begun"):
        query.commit(0, stale)


def test_what_is_aborted_is_never_seen(query: Query) -> None:
    written = query.write(None, 0, 1)
    query.write(None, 1, 2)  # and here its executor is lost
    query.give_up("a", [written], 1)
    assert not query.seen()
    query.commit(None, query.write(None, 2, 0))
    query.wait_seen(once(1))


def test_a_query_that_fails_shuts_out_the_tasks_that_said_nothing(query: Query) -> None:
    written = query.write(0, 0, 1)
    query.write(0, 1, 2)  # and here its executor is lost
    StreamWriter(query.options).abort([written, None], 0)
    query.commit(0, query.write(0, 2, 0))
    query.wait_seen(once(1))


def test_a_task_that_begins_after_its_write_was_given_up_leaves_nothing_open(query: Query) -> None:
    query.give_up("a", [], 0)
    with pytest.raises(SourceError, match=r"partition 0 .*the write was given up before this task had begun"):
        query.attempt("a", None, 1, 2)
    query.commit(None, query.attempt("b", None, 3))
    query.wait_seen(once(4, 3))
    assert query.seen(committed=False) == once(4, 3), "the late task has written nothing"


@pytest.mark.parametrize("first", [(), (1,)])
def test_a_task_of_a_query_that_begins_after_its_batch_was_given_up_leaves_nothing_open(
    query: Query, first: tuple[int, ...]
) -> None:
    """The writer that aborts is not that of the tasks, and knows of them only what those say that are done."""
    written = query.attempt("a", 0, *first)
    StreamWriter(query.options).abort([written, None], 0)
    with pytest.raises(SourceError, match=r"partition 1 .*the write was given up before this task had begun"):
        query.attempt("a", 0, 2, number=1)
    query.commit(0, query.attempt("b", 0, 3))
    query.wait_seen(once(4, 3))


def test_an_attempt_that_passed_the_one_that_was_done_leaves_nothing_open_when_the_write_fails_for_it(
    query: Query,
) -> None:
    written = query.write(None, 0, 1)
    query.write(None, 0, 1)  # it has seen nothing of the first, and shut that out
    with pytest.raises(SourceError, match="Nothing was committed"):
        query.commit(None, written)
    writer = BatchWriter(query.options)
    writer.write_id = query.run
    writer.abort([written])
    query.commit(None, query.write(None, 1, 0))
    query.wait_seen(once(1))


def test_who_has_begun_is_shut_out_also_where_no_mark_can_be_left(
    query: Query, barnabas: Cluster, tmp_path: Path
) -> None:
    alice = barnabas.as_user("alice")
    for operation, kind, name in NEEDED:
        alice.allow(operation, kind, name, prefixed=True)
    alice.deny("write", "transactional_id", f"{PREFIX}-{query.run}a-given-up")
    query.options = replace(query.options, client=parse_write_options(Sink.of_user(alice, tmp_path).options).client)
    query.attempt("a", None, 2)  # and here its executor is lost
    query.give_up("a", [], 0)
    query.commit(None, query.write(None, 1, 0))
    query.wait_seen(once(1))


def test_a_batch_that_has_other_rows_than_when_it_was_committed_is_refused(query: Query) -> None:
    query.commit(3, query.write(3, 0, 0, 1))
    with pytest.raises(SourceError, match=r"committed before with 2 rows, and has 3 now.*exactlyOnce=false"):
        query.write(3, 0, 0, 1, 2)
    query.wait_seen(once(2))


def test_a_batch_that_has_fewer_partitions_than_when_it_was_committed_is_refused(query: Query) -> None:
    query.commit(3, query.write(3, 0, 0), query.write(3, 4, 1))
    again = [query.write(3, 0, 0), query.write(3, 1, 1)]
    with pytest.raises(SourceError, match="when it had a partition 4, and has 2 partitions now"):
        query.commit(3, *again)
    query.give_up("a", again)
    query.wait_seen(once(2))


def test_an_old_checkpoint_is_refused(query: Query) -> None:
    query.commit(5, query.write(5, 0, 0))
    with pytest.raises(SourceError, match=r"batch 5 of this query was committed already.*checkpoint is older"):
        query.write(4, 0, 1)


def test_two_queries_do_not_meet(query: Query) -> None:
    mine = query.write(0, 0, 0)
    query.run = uuid.uuid4().hex
    query.commit(0, query.write(0, 0, 1))
    query.commit(0, mine)
    query.wait_seen(once(2))


def test_a_time_out_that_brokers_do_not_allow_is_said(query: Query) -> None:
    client = {**query.options.client, "transaction.timeout.ms": str(3_600_000)}
    query.options = replace(query.options, client=client)
    with pytest.raises(SourceError, match=r"3600000, more than transaction.max.timeout.ms of the brokers"):
        query.write(0, 0, 1)


def test_a_transaction_that_took_too_long_is_said_to_have(query: Query) -> None:
    written = query.write(0, 0, 1)
    assert written.pending is not None
    query.write(0, 0, 1)  # ends the first; which its age is to be blamed for
    written.pending = replace(written.pending, opened_s=written.pending.opened_s - 601)
    with pytest.raises(SourceError, match=r"open for 60\d s, longer than kafka.transaction.timeout.ms=600000 allows"):
        query.commit(0, written)


@pytest.mark.parametrize(("missing", "says"), [
    (0, r"--operation WRITE --resource-pattern-type prefixed --transactional-id job$"),
    (1, r"--operation READ --resource-pattern-type prefixed --group job$"),
    (2, r"--operation WRITE --topic once-\w+$"),
    (3, r"--operation READ --topic once-\w+$"),
    (None, None),
])  # fmt: skip
def test_the_acl_that_is_missing_is_named(
    query: Query, barnabas: Cluster, tmp_path: Path, missing: int | None, says: str | None
) -> None:
    alice = barnabas.as_user("alice")
    for number, (operation, kind, name) in enumerate(NEEDED):
        if number != missing:
            alice.allow(operation, kind, name, prefixed=True)
    client = parse_write_options(Sink.of_user(alice, tmp_path).options).client
    query.options = replace(query.options, client=client)
    if says is None:
        query.commit(0, query.write(0, 0, 0))
        query.wait_seen(once(1))
        return
    with pytest.raises(SourceError, match=says):
        query.write(0, 0, 0)
    assert not query.seen()
