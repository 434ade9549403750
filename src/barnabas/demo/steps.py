"""How far the demonstration is: bars on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Counter = Callable[[int], None]
"""Told how many of a known number are done."""
_LINES: Final = 4
"""How many lines a count takes."""


class Steps(Protocol):
    """console: where else to print."""

    console: Console

    def step(self, name: str) -> AbstractContextManager[None]:
        """Show a step of unknown length while it runs, and then how long it took."""

    def counter(self, name: str, total: int) -> Counter:
        """Show a step that counts."""


@contextmanager
def shown(console: Console) -> Iterator[Steps]:
    """Give what shows steps on this console."""
    if not console.is_terminal:
        yield Lines(console)
        return
    with Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        yield Bars(progress)


class Bars:
    """Steps as bars beneath what is printed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.console = progress.console

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show a bar that moves to and fro."""
        task = self._progress.add_task(name, total=None)
        started = time.monotonic()
        yield
        self._progress.update(task, total=1, completed=1, description=_took(name, started))

    def counter(self, name: str, total: int) -> Counter:
        """Show a bar that fills."""
        task = self._progress.add_task(name, total=total)
        return lambda done: self._progress.update(task, completed=done)


class Lines:
    """Steps as lines, each when it is done; a count at every quarter of the way."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Print a line at the end."""
        started = time.monotonic()
        yield
        self._print(_took(name, started))

    def counter(self, name: str, total: int) -> Counter:
        """Print a line now and then."""
        said = 0

        def count(done: int) -> None:
            nonlocal said
            if done * _LINES // total > said:
                said = done * _LINES // total
                self._print(f"{name}: {done:,} of {total:,}")

        return count

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _took(name: str, started: float) -> str:
    return f"{name} ({time.monotonic() - started:.1f} s)"
