"""Which partition a record goes to, as Kafka's Java producer decides it: murmur2 of the key."""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Give Kafka's 32-bit murmur2 hash, unsigned."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if size != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Give the partition that every record with this key goes to."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
