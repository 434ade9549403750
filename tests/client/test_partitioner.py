"""Keys go where Java's producer puts them."""

from __future__ import annotations

import pytest

from barnabas.client.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hash_"),
    [  # given by org.apache.kafka.common.utils.Utils.murmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, hash_: int) -> None:
    assert murmur2(key) == hash_ & 0xFFFFFFFF


def test_a_partition_is_never_negative() -> None:
    assert {partition_for_key(b"%d" % n, 7) for n in range(500)} == set(range(7))
