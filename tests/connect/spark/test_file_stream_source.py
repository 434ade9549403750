"""FileStreamSource as a task: a growing file into a topic, its place kept as the JVM's connector keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.connect.connectors.file_stream_source import lines_of
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.runtime import Running, TopicUsed

from .conftest import Topics, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]


async def test_lines_of_a_growing_file_reach_a_topic_and_a_restart_goes_on_at_the_byte(
    watched: Watched, topics: Topics, tmp_path: Path
) -> None:
    topic, file = topics.create(), tmp_path / "in.txt"
    task = await watched.start({"connector.class": "FileStreamSource", "topic": topic, "file": str(file)})
    await watched.until_state(task, Running)
    file.write_bytes("one\ntw\u00f6\r\nthree\rfour\nha".encode())
    await watched.until(lambda: watched.records(task) == 4)
    assert topics.values(topic, 4) == [b"one", "tw\u00f6".encode(), b"three", b"four"]
    assert TopicUsed(topic) in watched.of(task)
    with file.open("ab") as more:
        more.write(b"lf\nnext")
    await watched.until(lambda: watched.records(task) == 5)
    await watched.runtime.stop(task)
    config = {"connector.class": "FileStreamSource", "topic": topic, "file": str(file)}
    where = await watched.runtime.offsets(task.connector, config)
    assert where == [ConnectorOffset({"filename": str(file)}, {"position": file.read_bytes().index(b"next")})]
    with file.open("ab") as more:
        more.write(b" line\n")
    again = await watched.start(config, name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) == 6)
    assert topics.values(topic, 6)[4:] == [b"half", b"next line"]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))), st.sampled_from(["\n", "\r\n"]))
def test_lines_are_cut_at_their_ends(lines: list[str], end: str) -> None:
    assert lines_of("".join(line + end for line in lines).encode()).to_pylist() == lines


def test_what_is_no_text_is_replaced() -> None:
    assert lines_of(b"a\xffb\n\n").to_pylist() == ["a\ufffdb", ""]
