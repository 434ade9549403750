"""The report can be written whatever was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.goals import ROWS, Measured
from bench.loads import QUICK
from bench.store import Part

from bench import report

COUNTS = (
    "topics", "partitions", "dead_partitions", "rules", "session_s", "sessions_rules", "znodes", "zk_partitions",
    "members", "groups", "sink_records", "sink_small",
)  # fmt: skip


def test_every_row_has_its_own_key() -> None:
    assert len({row.key for row in ROWS}) == len(ROWS)


def test_every_row_gets_into_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before {report.BEGIN}{report.END} after")
    monkeypatch.setattr(report, "README", readme)
    monkeypatch.setattr(report, "DOCUMENT", tmp_path / "benchmarks.md")
    measured = {row.key: Measured([1.0], [1.0]) for row in ROWS}
    part = Part("a day", measured, measured, dict.fromkeys(COUNTS, 7))
    report.write({"all": part}, QUICK, "peers", warm_s=1, partitions=3)
    written = report.DOCUMENT.read_text()
    assert written.count("\n| ") >= 3 * len(ROWS)
    assert "{" not in written
    assert readme.read_text().startswith("before ")
