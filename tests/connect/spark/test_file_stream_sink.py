"""FileStreamSink as a task: from topics of a node into a file, its place kept by the group."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

from barnabas.connect.runtime import Failed, Stopped, TopicUsed

from .conftest import Topics, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def committed(topics: Topics, connector: str, topic: str, partitions: int = 1) -> list[int]:
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": f"connect-{connector}"})
    try:
        answers = consumer.committed([TopicPartition(topic, n) for n in range(partitions)], 30)
    finally:
        consumer.close()
    return [answer.offset for answer in answers]


def sink(topic: str, file: Path, **more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "topics": topic, "file": str(file), **more}


async def test_lines_of_a_topic_reach_a_file_and_the_group_hears_of_it(
    watched: Watched, topics: Topics, tmp_path: Path
) -> None:
    topic, file = topics.create(), tmp_path / "out.txt"
    topics.produce(topic, [b"one", b"two", None, "dr\u00e9i".encode()])
    task = await watched.start(sink(topic, file))
    await watched.until(lambda: watched.records(task) == 4)
    assert file.read_bytes().splitlines() == [b"one", b"two", b"null", "dr\u00e9i".encode()]
    assert committed(topics, task.connector, topic) == [4]
    assert TopicUsed(topic) in watched.of(task)
    topics.produce(topic, [b"five"])
    await watched.until(lambda: watched.records(task) == 5)
    await watched.runtime.stop(task)
    assert isinstance(watched.of(task)[-1], Stopped)
    topics.produce(topic, [b"six"])
    again = await watched.start(sink(topic, file), name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) == 6)
    assert file.read_bytes().splitlines()[4:] == [b"five", b"six"]


async def test_a_full_disk_fails_the_task_with_a_word_and_nothing_is_committed(
    watched: Watched, topics: Topics
) -> None:
    topic = topics.create()
    topics.produce(topic, [b"one"])
    watched.may_fail = True
    task = await watched.start(sink(topic, Path("/dev/full")))
    failed = await watched.until_state(task, Failed)
    assert isinstance(failed, Failed)
    assert "cannot write to '/dev/full': No space left on device" in failed.trace
    assert committed(topics, task.connector, topic) == [OFFSET_INVALID]
