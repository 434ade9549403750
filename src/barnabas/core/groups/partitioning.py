"""Which partition of `__consumer_offsets`, and so which broker, looks after a group."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)  # every request of a group asks; so few that names of any length take little memory
def partition_for(group_id: str, partition_count: int) -> int:
    """Give the partition as Kafka does: Java's String.hashCode, made positive, modulo the count."""
    units = group_id.encode("utf-16-be", "surrogatepass")
    h = 0
    for i in range(0, len(units), 2):
        h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    if h == 0x80000000:
        return 0
    return (0x1_0000_0000 - h if h > 0x80000000 else h) % partition_count
