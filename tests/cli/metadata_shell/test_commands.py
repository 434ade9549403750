"""The commands of the metadata shell, on a small tree."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from barnabas.cli.metadata_shell.commands import COMMANDS, Session, completions, run
from barnabas.core.metadata.tree import Tree

ROOT: Tree = {"a": {"x1": "one", "x2": "two", "y": {}}, "b": {"x1": "other"}, "file": "text"}


@dataclass
class Screen:
    """What was printed."""

    lines: list[str] = field(default_factory=list)

    def session(self, width: int | None = None) -> Session:
        return Session(ROOT, lambda text: self.lines.extend(text.split("\n")), width)


def typed(line: str, *, width: int | None = None, cwd: str = "/") -> list[str]:
    screen = Screen()
    session = screen.session(width)
    session.cwd = cwd
    run(session, line.split())
    return screen.lines


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ls", ["a", "b", "file"]),
        ("ls a file", ["file", "", "a:", "x1", "x2", "y"]),
        ("ls /*/x1", ["x1", "x1"]),
        ("ls {a,b}", ["a:", "x1", "x2", "y", "", "b:", "x1"]),
        ("ls c", ["ls: c: no such file or directory."]),
        ("cat a/x1 /a/../b/x1", ["one", "other"]),
        ("cat a/x?", ["one", "two"]),
        ("cat a", ["cat: a: is a directory."]),
        ("cat", ["usage: cat PATH..."]),
        ("find a", ["a", "a/x1", "a/x2", "a/y"]),
        ("tree a", ["x1:", "  one", "x2:", "  two", "y:"]),
        ("tree file", ["text"]),
        ("man ls", ["ls: List names.", "", "usage: ls [PATH...]"]),
        ("man mv", ["man: there is no command mv; `help` lists them."]),
        ("mv a b", [f"mv: not a command here; there are {', '.join(COMMANDS)}."]),
    ],
)
def test_what_a_command_shows(line: str, shown: list[str]) -> None:
    assert typed(line) == shown


def test_names_stand_in_columns_as_wide_as_the_terminal() -> None:
    assert typed("ls a", width=80) == ["x1  x2  y"]
    assert typed("ls a", width=8) == ["x1  y", "x2"]
    assert typed("ls a", width=3) == ["x1", "x2", "y"]


def test_a_session_remembers_where_it_is_and_what_was_typed() -> None:
    screen = Screen()
    session = screen.session()
    for line in ("cd a/y", "pwd", "cd ..", "cat x1", "cd x1", "cd", "pwd", "history 2", "help", "exit"):
        session.history.append(line)
        run(session, line.split())
    assert screen.lines[:5] == ["/a/y", "one", "cd: x1: not a directory.", "/", "    6  pwd"]
    assert screen.lines[5] == "    7  history 2"
    assert session.failed
    assert session.over


def test_completion_of_commands_and_paths() -> None:
    session = Screen().session()
    assert completions(session, ["c"]) == ["cat", "cd"]
    assert completions(session, ["cat", ""]) == ["a/", "b/", "file"]
    assert completions(session, ["cat", "a/x"]) == ["a/x1", "a/x2"]
    assert completions(session, ["cat", "/f"]) == ["/file"]
    assert completions(session, ["cat", "nowhere/"]) == []
    assert completions(session, ["man", "tr"]) == ["tree"]
    assert completions(session, ["pwd", "a"]) == []


def test_those_about_the_shell_itself_need_one() -> None:
    screen = Screen()
    run(screen.session(), ["cd", "a"], one_shot=True)
    assert screen.lines == ["cd: not a command here; there are cat, find, ls, tree."]
