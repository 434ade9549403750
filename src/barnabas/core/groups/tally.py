"""What group coordinators count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts since the node began, of all shards that share it. Offsets count once for each partition.

    consumer_rebalances: epochs that heartbeats began of groups of the consumer protocol.
    """

    rebalances_completed: int = 0
    consumer_rebalances: int = 0
    offsets_committed: int = 0
    offsets_expired: int = 0
    offsets_deleted: int = 0
