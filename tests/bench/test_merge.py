"""A part that is measured anew takes its own place and leaves the others as they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench.__main__ import failed_rows, keep
from bench.goals import CONNECT, LOGINS, Measured, Row
from bench.loads import QUICK

from bench import report, store


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give where the document is written, with nothing measured yet."""
    readme, document = tmp_path / "README.md", tmp_path / "benchmarks.md"
    readme.write_text(f"before {report.BEGIN}{report.END} after")
    monkeypatch.setattr(report, "README", readme)
    monkeypatch.setattr(report, "DOCUMENT", document)
    monkeypatch.setattr(store, "FILE", tmp_path / "benchmarks.json")
    return document


def measured(rows: Sequence[Row], value: float) -> dict[str, Measured]:
    """Give the same value for each of the rows."""
    return {row.key: Measured([value]) for row in rows}


def test_other_parts_keep_their_figures_and_their_day(document: Path) -> None:
    logins, first, second = measured(LOGINS, 11), measured(CONNECT, 22), measured(CONNECT, 33)
    keep("connect", store.Part("a day", first, first), QUICK)
    keep("logins", store.Part("another day", logins, logins), QUICK)
    before = json.loads(store.FILE.read_text())
    keep("connect", store.Part("a third day", second, second), QUICK)
    after = json.loads(store.FILE.read_text())
    assert after["logins"] == before["logins"]
    assert after["connect"]["barnabas"]["connect-start"]["values"] == [33]
    written = document.read_text()
    assert "- connect: a third day" in written
    assert "- logins: another day" in written
    assert "a day" not in written.replace("another day", "")


def test_rows_that_failed_are_in_the_document(document: Path) -> None:
    rest = measured(CONNECT[1:], 1)
    assert failed_rows([]) == ""
    part = store.Part("a day", rest, rest, text=failed_rows(["connect-sink-1, Barnabas: TimeoutError: waited"]))
    keep("connect", part, QUICK)
    written = document.read_text()
    assert "- connect-sink-1, Barnabas: TimeoutError: waited" in written
    assert CONNECT[0].title not in written
    assert CONNECT[1].title in written
