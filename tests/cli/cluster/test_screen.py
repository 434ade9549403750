"""What is typed below the table of `barnabas cluster start`, and what other terminals say."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.cluster.control import Answer, ControlServer, ask
from barnabas.cli.cluster.saved import RunLock, is_run
from barnabas.cli.cluster.screen import LineEditor, table
from barnabas.cli.errors import CliError


def test_lines_are_typed_corrected_and_recalled() -> None:
    editor = LineEditor()
    assert list(editor.feed("kill 3\x7f2")) == []
    assert editor.text == "kill 2"
    assert list(editor.feed("\rstatus\r")) == ["kill 2", "status"]
    list(editor.feed("\x1b[A\x1b[A"))
    assert editor.text == "kill 2"
    list(editor.feed("\x1b[B\x1b[B"))
    assert editor.text == ""
    list(editor.feed("rubbish\x15ok\x1b[C"))
    assert list(editor.feed("\n")) == ["ok"]


@pytest.mark.parametrize("keys", ["\x03", "half a line\x03", "\x04"])
def test_the_keys_that_end_it(keys: str) -> None:
    with pytest.raises(EOFError):
        list(LineEditor().feed(keys))


def test_nodes_are_a_table() -> None:
    made = table(
        [
            {"node": 1, "state": "running", "pid": None, "rack": None},
            {"node": 2, "state": "down", "pid": 7, "rack": None},
        ]
    )
    assert [column.header for column in made.columns] == ["NODE", "STATE", "PID"]
    assert [str(cell) for cell in made.columns[2].cells] == ["-", "7"]


@pytest.mark.parametrize("name", ["short", "a-name-that-is-longer-than-the-path-of-a-socket-may-be" * 3])
def test_another_terminal_is_answered(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()

    def handle(words: list[str]) -> Answer:
        return Answer(error="no") if words == ["refuse"] else Answer(" ".join(words), [{"node": 1}])

    server = ControlServer(directory, handle)
    try:
        assert ask(directory, ["kill", "2"]) == Answer("kill 2", [{"node": 1}])
        with pytest.raises(CliError, match="no"):
            ask(directory, ["refuse"])
    finally:
        server.close()
    with pytest.raises(CliError, match="takes no commands"):
        ask(directory, ["status"])
    assert list(directory.iterdir()) == []


def test_one_process_runs_a_cluster(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    assert is_run(tmp_path)
    with pytest.raises(CliError, match="runs already"):
        RunLock(tmp_path)
    lock.release()
    assert not is_run(tmp_path)
