"""Which partition a group belongs to: Java's String.hashCode, as `java` printed it."""

from __future__ import annotations

import pytest

from barnabas.core.groups.partitioning import partition_for


@pytest.mark.parametrize(
    ("group_id", "count", "want"),
    [
        ("", 50, 0),
        ("a", 50, 47),
        ("test", 1_000_000, 556_498),  # hash 3556498
        ("my-consumer-group", 2**31, 1_513_705_513),
        ("polygenelubricants", 50, 0),  # hash -2147483648, which has no positive twin
        ("äöü€", 2**31, 7_044_930),
        ("\N{PARTY POPPER}", 2**31, 1_773_261),
    ],
)
def test_partition(group_id: str, count: int, want: int) -> None:
    assert partition_for(group_id, count) == want
