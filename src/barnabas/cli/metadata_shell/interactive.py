"""The metadata shell at a terminal: lines in, with history and completion, until the end of the input."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from typing import Final

from barnabas.cli.metadata_shell.commands import Session, completions, run
from barnabas.core.metadata.tree import Tree

PROMPT: Final = ">> "


def talk(session: Session, refresh: Callable[[], Tree]) -> None:
    """Read commands until `exit` or the end of the input. refresh: gives the tree as it is before each command."""
    terminal = sys.stdin.isatty()
    if terminal:
        _set_up_lines(session)
        session.echo("Metadata shell; `help` lists the commands.")
    while not session.over:
        try:
            line = input(PROMPT) if terminal else _next_line()
        except EOFError:
            return
        except KeyboardInterrupt:
            session.echo("^C")
            continue
        if line.strip():
            session.history.append(line)
            session.root = refresh()
            session.width = shutil.get_terminal_size().columns if terminal else None
            _run(session, line)


def _next_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _run(session: Session, line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError as e:
        session.complain(f"{e}.")
        return
    try:
        run(session, words)
    except KeyboardInterrupt:
        session.echo("^C")


def _set_up_lines(session: Session) -> None:
    import readline  # only where there is a terminal: importing it changes how input() works

    found: list[str] = []

    def completer(text: str, state: int) -> str | None:
        nonlocal found
        if state == 0:
            before = readline.get_line_buffer()[: readline.get_endidx()]
            found = completions(session, [*before[: len(before) - len(text)].split(), text])
            if len(found) == 1 and not found[0].endswith("/"):
                found = [found[0] + " "]
        return found[state] if state < len(found) else None

    readline.set_completer(completer)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")
