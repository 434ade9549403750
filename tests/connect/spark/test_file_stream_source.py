"""FileStreamSource as a task: a growing file into a topic, its place kept as the JVM's connector keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.connect.connector import ConnectError
from barnabas.connect.connectors.file_stream_source import lines_of
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.rest.errors import as_rest_error
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


@pytest.mark.parametrize(
    ("partition", "offset", "word"),
    [
        ({"filename": "f"}, {}, "position"),
        ({"filename": "f"}, {"offset": 3}, "position"),
        ({"filename": "f"}, {"position": None}, "position"),
        ({"filename": "f"}, {"position": "3"}, "position"),
        ({"filename": "f"}, {"position": 3.0}, "position"),
        ({"filename": "f"}, {"position": True}, "position"),
        ({"filename": "f"}, {"position": -1}, "position"),
        ({"file": "f"}, {"position": 3}, "filename"),
        ({}, {"position": 3}, "filename"),
    ],
)
async def test_offsets_that_no_file_could_have_are_refused_as_by_the_jvms(
    watched: Watched, partition: dict[str, object], offset: dict[str, object], word: str
) -> None:
    """With Kafka's status for a connector's refusal, and nothing is kept."""
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "f"}
    fine = ConnectorOffset({"filename": "f"}, {"position": 1})
    with pytest.raises(ConnectError, match=word) as refused:
        await watched.runtime.alter_offsets("c", config, [fine, ConnectorOffset(partition, offset)])
    assert as_rest_error(refused.value).status == 500
    assert await watched.runtime.offsets("c", config) == []


async def test_offsets_of_earlier_files_may_be_altered_and_any_may_be_forgotten(watched: Watched) -> None:
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "f"}
    wanted = [ConnectorOffset({"filename": name}, {"position": 7}) for name in ("f", "earlier")]
    said = await watched.runtime.alter_offsets("c", config, [*wanted, ConnectorOffset({"any": 1}, None)])
    assert said == "The offsets for this connector have been altered successfully"
    assert await watched.runtime.offsets("c", config) == wanted
    with pytest.raises(ConnectError, match="standard input"):
        await watched.runtime.reset_offsets("c", {"connector.class": "FileStreamSource", "topic": "t"})
    assert await watched.runtime.offsets("c", config) == wanted
    assert await watched.runtime.reset_offsets("c", config) == (
        "The offsets for this connector have been reset successfully"
    )
    assert await watched.runtime.offsets("c", config) == []


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))), st.sampled_from(["\n", "\r\n"]))
def test_lines_are_cut_at_their_ends(lines: list[str], end: str) -> None:
    assert lines_of("".join(line + end for line in lines).encode()).to_pylist() == lines


def test_what_is_no_text_is_replaced() -> None:
    assert lines_of(b"a\xffb\n\n").to_pylist() == ["a\ufffdb", ""]
