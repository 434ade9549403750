"""What a trace of a failure comes to, for where there is a line for it."""

from __future__ import annotations

from typing import Final

_PYTHONS: Final = "Traceback (most recent call last):"


def gist(trace: str) -> str:
    """Give the line of a trace that says what was raised: Java's first one; Python's after its last frames."""
    lines = [line for line in trace.splitlines() if line.strip()]
    begins = [number for number, line in enumerate(lines) if line == _PYTHONS]
    after = lines[begins[-1] + 1 :] if begins else lines
    return next((line for line in after if not line.startswith((" ", "\t"))), lines[0] if lines else "")
