"""What tools print: a table for people, JSON for programs, progress on stderr while they wait."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table


class OutputFormat(StrEnum):
    """For whom to print."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", help="A table for people, or JSON for programs.")]
_PIPE_WIDTH = 400
"""Columns of a table that no terminal shows: wide enough that nothing is folded."""


def show(rows: Sequence[Mapping[str, Any]], output: OutputFormat, *, title: str = "", empty: str = "") -> None:
    """Print rows that share their keys. empty: what to say to people when there are none."""
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(rows, indent=2, default=str))
        return
    if not rows:
        if empty:
            typer.echo(empty)
        return
    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    numeric = {k for k, v in rows[0].items() if isinstance(v, int | float) and not isinstance(v, bool)}
    for key in rows[0]:
        table.add_column(key.upper().replace("_", " "), justify="right" if key in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(v) for v in row.values()))
    console().print(table)


def show_json(value: Any) -> None:
    """Print one value as JSON."""
    typer.echo(json.dumps(value, indent=2, default=str))


def done(message: str, output: OutputFormat, **facts: Any) -> None:
    """Say that something was done: a sentence for people, the facts for programs."""
    if output is OutputFormat.JSON:
        show_json(facts)
    else:
        typer.echo(message)


def console() -> Console:
    """Give stdout; as wide as wanted when it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False, markup=False)


class Steps:
    """How far some long work is."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: int = 1) -> None:
        """Count some more as done."""
        self._progress.advance(self._task, count)


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Steps]:
    """Show a bar on stderr while long work goes on; nothing when stderr is not a terminal."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        yield Steps(bar, bar.add_task(what, total=total))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set):
        return ",".join(_cell(v) for v in value)
    if isinstance(value, Mapping):
        return ",".join(f"{k}={_cell(v)}" for k, v in value.items())
    return str(value)
