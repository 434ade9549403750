"""What tasks tell of themselves is what they have done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.connector import Polled, PollingSource, RetriableError
from barnabas.connect.herder_port import ConnectorType
from barnabas.connect.runtime import Begun, Failed, Stopped
from barnabas.connect.task_metrics import ConnectorIdentity, TaskMetrics
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.model.config import ConfigTable
from barnabas.net.clock import SystemClock

from .conftest import Topics, Watched
from .test_tasks import Collected, config

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WITHOUT_TOMBSTONES = {
    "transforms": "t",
    "transforms.t.type": "Filter",
    "transforms.t.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "RecordIsTombstone",
}
NUMBERS = {"transforms": "n", "transforms.n.type": "Cast$Value", "transforms.n.spec": "int32"}
BOTH = {**WITHOUT_TOMBSTONES, **NUMBERS, "transforms": "t, n"}
DEAD_LETTERS = {
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


class Thrice(PollingSource):
    """Gives three records once, the second without a value."""

    VERSION = "1"
    CONFIG = ConfigTable()
    _done = False

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return []

    def poll(self, spark: SparkSession) -> Polled | None:
        if self._done:
            return None
        self._done = True
        return Polled(spark.createDataFrame([("a",), (None,), ("b",)], "value string").coalesce(1), [], 3)


def shown(watched: Watched, task: ConnectorTaskId, kind: ConnectorType = ConnectorType.SINK) -> dict[str, Any]:
    """Give all attributes, those of sinks and those of sources."""
    metrics = TaskMetrics(SystemClock(), ConnectorIdentity(kind, "", ""), {})
    for event in watched.of(task):
        metrics.heard(event)
    return metrics.general(lambda _: "") | metrics.sink() | metrics.source() | metrics.errors()


def some(whole: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    return {name: whole[name] for name in like}


async def test_a_sink_counts_what_it_reads_passes_on_and_leaves_out(watched: Watched, topics: Topics) -> None:
    topic, letters = topics.create(), topics.create()
    Collected.trouble["counting"] = [RetriableError("busy")]
    settings = config(topic, "counting", errors__deadletterqueue__topic__name=letters)
    task = await watched.start(settings | DEAD_LETTERS | BOTH, name="counting")
    topics.produce(topic, [b"1", b"x", b"2", None, b"y", b"3"])
    await watched.until(lambda: watched.records(task) == 6)
    expected = {
        "sink-record-read-total": 6,
        "sink-record-send-total": 3,
        "sink-record-active-count": 0,
        "partition-count": 1,
        "offset-commit-success-percentage": 1.0,
        "total-record-failures": 2,
        "total-record-errors": 2,
        "total-records-skipped": 2,
        "total-errors-logged": 2,
        "total-retries": 1,
        "deadletterqueue-produce-requests": 2,
        "deadletterqueue-produce-failures": 0,
    }
    found = shown(watched, task)
    assert some(found, expected) == expected
    batches = [event.records for event in watched.of(task) if isinstance(event, Begun)]
    assert sum(n for n in batches if n is not None) == 6
    assert found["offset-commit-completion-total"] == found["offset-commit-seq-no"] == len(batches)
    assert found["offset-commit-max-time-ms"] >= 0
    assert found["put-batch-max-time-ms"] > 0


async def test_a_record_that_is_not_tolerated_is_one_failure(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    watched.may_fail = True
    task = await watched.start(config(topic, "strict-counting") | NUMBERS, name="strict-counting")
    topics.produce(topic, [b"x"])
    await watched.until_state(task, Failed)
    expected = {"total-record-failures": 1, "total-record-errors": 1, "total-records-skipped": 0, "partition-count": 0}
    found = shown(watched, task)
    assert some(found, expected) == expected
    assert found["last-error-timestamp"] > 0


async def test_a_dead_letter_that_is_refused_is_counted(watched: Watched, topics: Topics) -> None:
    topic, letters = topics.create(), topics.create(max__message__bytes="200")
    watched.may_fail = True
    settings = config(topic, "lost-letter", errors__deadletterqueue__topic__name=letters)
    task = await watched.start(settings | DEAD_LETTERS | NUMBERS, name="lost-letter")
    topics.produce(topic, [b"x" * 300])
    await watched.until_state(task, Failed)
    expected = {
        "total-record-failures": 1,
        "total-records-skipped": 0,
        "deadletterqueue-produce-requests": 1,
        "deadletterqueue-produce-failures": 1,
    }
    assert some(shown(watched, task), expected) == expected


async def test_a_source_counts_what_it_polls_and_writes(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    task = await watched.start({"connector.class": "Thrice", "topic": topic, **WITHOUT_TOMBSTONES})
    await watched.until(lambda: watched.records(task) == 3)
    assert topics.values(topic, 2) == [b"a", b"b"]
    expected = {
        "source-record-poll-total": 3,
        "source-record-write-total": 2,
        "source-record-active-count": 0,
        "source-record-active-count-max": 3,
        "offset-commit-success-percentage": 1.0,
    }
    found = shown(watched, task, ConnectorType.SOURCE)
    assert some(found, expected) == expected
    assert found["poll-batch-max-time-ms"] > 0


async def test_a_streaming_source_counts_its_batches(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    task = await watched.start(
        {
            "connector.class": "SparkSource",
            "format": "rate-micro-batch",
            "options.rowsPerBatch": "2",
            "options.startTimestamp": "0",
            "select": "if(value % 2 = 0, 'even', null) value",
            "topic": topic,
            **WITHOUT_TOMBSTONES,
        }
    )
    await watched.until(lambda: watched.records(task) >= 4)
    await watched.runtime.stop(task)
    assert watched.of(task)[-1] == Stopped()
    found = shown(watched, task, ConnectorType.SOURCE)
    assert found["source-record-poll-total"] == 2 * found["source-record-write-total"]
    assert found["batch-size-max"] == found["source-record-active-count-max"] == 2


async def test_lines_of_a_file_are_known_before_they_are_written(
    watched: Watched, topics: Topics, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("one\ntwo\n")
    topic = topics.create()
    settings = {"connector.class": "FileStreamSource", "topic": topic, "file": str(tmp_path / "in")}
    task = await watched.start(settings)
    await watched.until(lambda: watched.records(task) == 2)
    assert Begun(2) in watched.of(task)
