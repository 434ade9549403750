"""What transaction coordinators count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts since the node began, of all shards that share it: of decisions, before they are committed."""

    commits: int = 0
    aborts: int = 0
    time_outs: int = 0
    ids_expired: int = 0
