"""Progress where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console

from barnabas.demo import steps


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    console = Console(file=io.StringIO(), width=40, record=True)
    with steps.shown(console) as shown:
        with shown.step("a step [of some length]"):
            pass
        count = shown.counter("flights", 10_000)
        for done in (0, 100, 2500, 2600, 9999, 10_000, 10_000):
            count(done)
    step, *counts = console.export_text().splitlines()
    assert step.startswith("a step [of some length] (")
    assert counts == ["flights: 2,500 of 10,000", "flights: 9,999 of 10,000", "flights: 10,000 of 10,000"]


def test_on_a_terminal_it_is_bars() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, record=True)
    with steps.shown(console) as shown:
        with shown.step("a step"):
            pass
        shown.counter("flights", 10)(7)
    shows = console.export_text()
    assert "7/10" in shows
    assert "a step (" in shows
