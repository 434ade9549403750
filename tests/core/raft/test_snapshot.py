from __future__ import annotations

from barnabas.core.raft.snapshot import KeptSnapshot, SnapshotTrigger, oldest_to_keep
from barnabas.model.topic_partition import OffsetAndEpoch


def kept(*sizes: int) -> list[KeptSnapshot]:
    return [KeptSnapshot(OffsetAndEpoch(10 * (i + 1), 1), size, 1000 * (i + 1)) for i, size in enumerate(sizes)]


def test_bytes_make_a_snapshot_due() -> None:
    trigger = SnapshotTrigger(max_bytes=100, max_interval_ms=0)
    trigger.committed(99)
    assert trigger.due(10**9) is None
    trigger.committed(1)
    assert "100 bytes" in (trigger.due(0) or "")
    trigger.written(5)
    assert trigger.due(10**9) is None


def test_time_makes_a_snapshot_due_only_when_something_was_committed() -> None:
    trigger = SnapshotTrigger(max_bytes=100, max_interval_ms=50, since_ms=1000)
    assert trigger.due(2000) is None
    trigger.committed(1)
    assert trigger.due(1049) is None
    assert trigger.due(1050) is not None


def test_the_newest_snapshot_always_stays() -> None:
    assert oldest_to_keep(kept(10**9), 10**9, 10**12, 1, 1) is None
    assert oldest_to_keep([], 10**9, 10**12, 1, 1) is None


def test_old_ones_go_by_size_until_it_fits() -> None:
    three = kept(10, 10, 10)
    assert oldest_to_keep(three, 70, 0, 100, -1) is None
    assert oldest_to_keep(three, 75, 0, 100, -1) == three[1].id
    assert oldest_to_keep(three, 85, 0, 100, -1) == three[2].id
    assert oldest_to_keep(three, 10**6, 0, -1, -1) is None


def test_old_ones_go_by_age() -> None:
    three = kept(1, 1, 1)
    assert oldest_to_keep(three, 0, 2500, -1, 1000) == three[1].id
    assert oldest_to_keep(three, 0, 10**6, -1, 1000) == three[2].id
