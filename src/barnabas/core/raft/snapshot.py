"""When to write a snapshot, and which old ones may go: the rules, on numbers alone (KIP-630)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.model.topic_partition import OffsetAndEpoch


@dataclass(slots=True)
class SnapshotTrigger:
    """Counts what was committed since the last snapshot. max_interval_ms: 0 for no snapshots by time."""

    max_bytes: int
    max_interval_ms: int
    bytes_since: int = 0
    since_ms: int = 0

    def committed(self, size_bytes: int) -> None:
        """Count committed bytes."""
        self.bytes_since += size_bytes

    def due(self, now_ms: int) -> str | None:
        """Give the reason why a snapshot is due now, or None. now_ms: a monotonic clock."""
        if self.bytes_since >= self.max_bytes:
            return f"we have replayed at least {self.max_bytes} bytes"
        waited = now_ms - self.since_ms
        if self.max_interval_ms and self.bytes_since and waited >= self.max_interval_ms:
            return f"we have waited at least {self.max_interval_ms} ms"
        return None

    def written(self, now_ms: int) -> None:
        """Start to count anew."""
        self.bytes_since = 0
        self.since_ms = now_ms


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A snapshot on disk. timestamp_ms: of the last record it contains."""

    id: OffsetAndEpoch
    size_bytes: int
    timestamp_ms: int


def oldest_to_keep(
    snapshots: Sequence[KeptSnapshot], log_bytes: int, now_ms: int, max_bytes: int, max_age_ms: int
) -> OffsetAndEpoch | None:
    """Give the snapshot before which snapshots and log may go, or None when all stay.

    snapshots: oldest first. The newest is always kept. max_bytes, max_age_ms: below 0 is no limit; both are
    Kafka's soft limits, `metadata.max.retention.bytes` (snapshots and log together) and `metadata.max.retention.ms`.
    """
    total = log_bytes + sum(s.size_bytes for s in snapshots)
    keep_from = 0
    while keep_from < len(snapshots) - 1:
        oldest = snapshots[keep_from]
        too_big = 0 <= max_bytes < total
        too_old = 0 <= max_age_ms < now_ms - oldest.timestamp_ms
        if not (too_big or too_old):
            break
        total -= oldest.size_bytes
        keep_from += 1
    return snapshots[keep_from].id if keep_from else None
