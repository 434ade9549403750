"""The terminal of `barnabas cluster start`: a table of the nodes that lives, and a line to type commands into."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from barnabas.cli.cluster.control import Answer
from barnabas.cli.cluster.supervisor import Supervisor

_LOOK_SECONDS: Final = 0.5
_PROMPT: Final = "cluster> "
_CTRL_C, _CTRL_D, _CTRL_U = "\x03", "\x04", "\x15"
_STATES: Final = {"running": "green", "paused": "yellow", "fenced": "magenta", "down": "red"}
_NUMBERS: Final = frozenset({"node", "pid", "log_end", "lag", "leads", "in_sync", "rss_mb", "cpu_percent"})
_TITLES: Final = {"rss_mb": "MB", "cpu_percent": "CPU%", "in_sync": "IN SYNC"}
_LEFT_OUT: Final = frozenset({"starts"})
"""Only for programs: the table has to fit into a terminal."""


class LineEditor:
    """What is being typed: characters in, lines out; arrow up and down go through those before."""

    def __init__(self) -> None:
        self.text = ""
        self._before: list[str] = []
        self._at = 0

    def feed(self, keys: str) -> Iterator[str]:
        """Take keys; gives each line that is finished, EOFError at Ctrl-C, or at Ctrl-D on an empty line."""
        while keys:
            if keys.startswith(("\x1b[A", "\x1b[B")):
                self._recall(-1 if keys[2] == "A" else 1)
                keys = keys[3:]
                continue
            key, keys = keys[0], keys[1:]
            if key == _CTRL_C or (key == _CTRL_D and not self.text):
                raise EOFError
            if key in "\r\n":
                line, self.text = self.text, ""
                if line:
                    self._before.append(line)
                self._at = len(self._before)
                yield line
            elif key in "\x7f\b":
                self.text = self.text[:-1]
            elif key == _CTRL_U:
                self.text = ""
            elif key == "\x1b":
                keys = ""  # some other key that sends several characters
            elif key.isprintable():
                self.text += key

    def _recall(self, step: int) -> None:
        self._at = min(max(self._at + step, 0), len(self._before))
        self.text = self._before[self._at] if self._at < len(self._before) else ""


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Give the nodes as a table, without what is known of none of them."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    keys = [key for key in (rows[0] if rows else ()) if key not in _LEFT_OUT and any(r[key] is not None for r in rows)]
    for key in keys:
        title = _TITLES.get(key, key.upper().replace("_", " "))
        made.add_column(title, justify="right" if key in _NUMBERS else "left", no_wrap=True)
    for row in rows:
        style = _STATES.get(str(row["state"]), "")
        made.add_row(*(Text("-" if row[k] is None else str(row[k]), style if k == "state" else "") for k in keys))
    return made


def print_answer(console: Console, answer: Answer) -> None:
    """Show what came of a command."""
    if answer.error:
        console.print(answer.error, style="red")
    if answer.rows:
        console.print(table(answer.rows))
    if answer.text:
        console.print(answer.text)


def run_screen(supervisor: Supervisor) -> None:
    """Show the table and do what is typed, until `stop`, Ctrl-C, or somebody else stops the cluster."""
    console = Console(highlight=False, markup=False)
    editor = LineEditor()

    def picture() -> Group:
        watch = supervisor.watch
        return Group(table(watch.rows()), Text(watch.summary()), Text(f"{_PROMPT}{editor.text}\u2588"))

    with _keys_at_once(), Live(picture(), console=console, auto_refresh=False) as live:
        while not supervisor.over.is_set():
            try:
                for line in editor.feed(_typed()):
                    live.update(picture(), refresh=True)
                    console.print(f"{_PROMPT}{line}", style="bold")
                    if line.split() in (["quit"], ["exit"]):
                        return
                    print_answer(console, supervisor.handle(line.split()))
            except EOFError:
                return
            live.update(picture(), refresh=True)


def _typed() -> str:
    ready, _, _ = select.select([sys.stdin], [], [], _LOOK_SECONDS)
    if not ready:
        return ""
    found = os.read(sys.stdin.fileno(), 1024).decode(errors="ignore")
    if not found:
        raise EOFError
    return found


@contextmanager
def _keys_at_once() -> Iterator[None]:
    """Get each key as it is pressed, Ctrl-C too: its signal would go to every node at once."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    without_signals = termios.tcgetattr(keyboard)
    without_signals[3] &= ~termios.ISIG
    termios.tcsetattr(keyboard, termios.TCSADRAIN, without_signals)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
