"""How large batches of sinks get."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.connect.runtime import Failed, Progress
from barnabas.connect.spark.batch_size import FIRST, MOST, TARGET_BYTES, BatchSize
from barnabas.model.config import ConfigError

from .conftest import Topics, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_it_grows_step_by_step_and_shrinks_at_once() -> None:
    size = BatchSize.of({})
    assert size.records == FIRST
    size.learn(100, 100)
    assert FIRST < size.records < MOST
    for _ in range(5):
        size.learn(100, 100)
    assert size.records == MOST
    size.learn(1, TARGET_BYTES // 3)
    assert size.records == 3
    size.learn(1, 2 * TARGET_BYTES)
    assert size.records == 1


def test_the_consumers_limit_holds_from_the_first_batch_on() -> None:
    assert BatchSize.of({"max.poll.records": str(2 * FIRST)}).records == FIRST
    size = BatchSize.of({"max.poll.records": "7"})
    assert size.records == 7
    size.learn(7, 7)
    assert size.records == 7
    with pytest.raises(ConfigError, match=r"max\.poll\.records"):
        BatchSize.of({"max.poll.records": "0"})


async def test_a_task_takes_no_more_than_it_may(watched: Watched, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.produce(topic, [b"%d" % n for n in range(6)])
    config = {"connector.class": "FileStreamSink", "topics": topic, "consumer.override.max.poll.records": "4"}
    task = await watched.start(config | {"file": str(tmp_path / "lines")})
    await watched.until(lambda: watched.records(task) == 6)
    assert [event.records for event in watched.of(task) if isinstance(event, Progress)] == [4, 2]
    watched.may_fail = True
    wrong = await watched.start(config | {"file": str(tmp_path / "lines"), "consumer.override.max.poll.records": "few"})
    failed = await watched.until_state(wrong, Failed)
    assert isinstance(failed, Failed)
    assert "max.poll.records" in failed.trace
