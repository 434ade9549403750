"""What was measured last, in docs/benchmarks.json: a part can be measured anew without the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from bench.goals import Measured, Results

FILE: Final = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.json"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the comparison. circumstances: day, machine and load; counts: what titles of rows name.

    text: Markdown of what is measured without rows.
    """

    circumstances: str
    kafka: Results = field(default_factory=dict)
    barnabas: Results = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    text: str = ""


def load() -> dict[str, Part]:
    """Give the parts by name, none when nothing was ever measured."""
    if not FILE.exists():
        return {}
    return {name: _part(**found) for name, found in json.loads(FILE.read_text(encoding="utf-8")).items()}


def save(parts: Mapping[str, Part]) -> None:
    """Keep these parts, and no others."""
    FILE.write_text(json.dumps({name: asdict(part) for name, part in parts.items()}, indent=1) + "\n", encoding="utf-8")


def rows(parts: Iterable[Part]) -> tuple[Results, Results, dict[str, int]]:
    """Give Kafka's rows, ours and all counts of several parts together."""
    kafka: Results = {}
    barnabas: Results = {}
    counts: dict[str, int] = {}
    for part in parts:
        kafka |= part.kafka
        barnabas |= part.barnabas
        counts |= part.counts
    return kafka, barnabas, counts


def _part(
    *, kafka: dict[str, dict[str, list[float]]], barnabas: dict[str, dict[str, list[float]]], **more: object
) -> Part:
    return Part(kafka=_results(kafka), barnabas=_results(barnabas), **more)  # type: ignore[arg-type]


def _results(found: Mapping[str, Mapping[str, list[float]]]) -> Results:
    return {key: Measured(**measured) for key, measured in found.items()}
