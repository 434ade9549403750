"""SparkSource: a stream of Spark's into a topic, resumed from what the offsets topic says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.connect.runtime import Paused, TopicUsed

from .conftest import Topics, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]
RATE = {
    "connector.class": "SparkSource",
    "format": "rate-micro-batch",
    "options.rowsPerBatch": "10",
    "options.startTimestamp": "0",
    "select": "cast(value as string) value",
}


def numbers(topics: Topics, topic: str, count: int) -> list[int]:
    return [int(value or b"-1") for value in topics.values(topic, count)]


async def test_a_stream_is_written_and_a_restart_goes_on_where_the_offsets_topic_says(
    watched: Watched, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    task = await watched.start({**RATE, "topic": topic}, name="../../out/x y%41ü")  # names may hold anything
    await watched.until(lambda: watched.records(task) >= 20)
    assert TopicUsed(topic) in watched.of(task)
    assert not (tmp_path / "out").exists()
    assert len(list((tmp_path / "scratch").glob("*/*"))) == 1
    await watched.runtime.pause(task)
    await watched.until_state(task, Paused)
    paused = watched.records(task)
    await watched.runtime.resume(task)
    await watched.until(lambda: watched.records(task) > paused)
    await watched.runtime.stop(task)
    done = watched.records(task)
    (kept,) = await watched.runtime.offsets(task.connector, {**RATE, "topic": topic})
    assert kept.partition == {"task": 0}
    assert kept.offset is not None
    assert kept.offset["offset"]["offset"] == done
    again = await watched.start({**RATE, "topic": topic}, name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) > done)
    more = watched.records(again)
    assert sorted(numbers(topics, topic, more)[:more]) == list(range(more))


async def test_a_stream_whose_offsets_cannot_be_kept_goes_on_where_it_is(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    watched.offsets.refuses = True
    task = await watched.start({**RATE, "topic": topic})
    await watched.until(lambda: watched.records(task) >= 5)
    await watched.runtime.pause(task)
    await watched.until_state(task, Paused)
    paused = watched.records(task)
    await watched.runtime.resume(task)
    await watched.until(lambda: watched.records(task) > paused)
    assert watched.offsets.kept == {}
    watched.offsets.refuses = False
    await watched.runtime.stop(task)
    done = watched.records(task)
    (kept,) = watched.offsets.kept[task.connector]
    assert kept.offset is not None
    assert kept.offset["offset"]["offset"] == done
    assert sorted(numbers(topics, topic, done)) == list(range(done))


async def test_transformations_and_converters_are_at_work(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    shaped = {
        "select": "named_struct('id', value, 'name', concat('n', value)) value",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "key,drop",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.key.fields": "id",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.drop.exclude": "id",
    }
    task = await watched.start({**RATE, **shaped, "topic": topic})
    await watched.until(lambda: watched.records(task) >= 10)
    assert sorted(json.loads(value or b"")["name"] for value in topics.values(topic, 10)) == [
        f"n{n}" for n in range(10)
    ]
