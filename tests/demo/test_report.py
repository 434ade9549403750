"""The report of a small lake."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from barnabas.demo import report


@pytest.fixture
def delays() -> pd.DataFrame:
    """Give two airlines, the smaller one first."""
    rows = [
        ("Small Airlines Inc.", 6, 1, 30.0),
        ("Big Air Lines Inc.", 6, 3, -2.0),
        ("Big Air Lines Inc.", 20, 1, 22.0),
    ]
    return pd.DataFrame(rows, columns=["airline", "hour", "flights", "delay"])


def test_the_table_weighs_by_flights_and_puts_the_largest_airline_first(delays: pd.DataFrame) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(report.table(delays))
    lines = console.export_text().splitlines()
    big, small, everybody = (
        next(i for i, line in enumerate(lines) if name in line) for name in ("Big Air Lines", "Small", "all airlines")
    )
    assert big < small < everybody
    assert [cell.strip() for cell in lines[big].split("│")[2:-1]] == ["4", "-2.0", "-", "-", "22.0", "-", "4.0"]
    assert "9.2" in lines[everybody]  # (3 * -2 + 22 + 30) / 5 flights


def test_the_picture_is_a_png(delays: pd.DataFrame, tmp_path: Path) -> None:
    report.picture(delays, tmp_path / "delays.png")
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_delays_are_those_of_flights_that_left() -> None:
    rows = [("A", 6, 10.0), ("A", 6, 20.0), ("A", 7, None), ("B", 6, -4.0)]
    lake = pd.DataFrame(rows, columns=["airline", "hour", "dep_delay"])
    assert report.delays(lake).to_dict("records") == [
        {"airline": "A", "hour": 6, "flights": 2, "delay": 15.0},
        {"airline": "B", "hour": 6, "flights": 1, "delay": -4.0},
    ]
