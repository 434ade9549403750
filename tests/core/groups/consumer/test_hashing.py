"""The hash of topics: XXH3 as its own library computes it, over the fields as Kafka lays them out."""

from __future__ import annotations

import pytest

from barnabas.core.groups.consumer.hashing import group_hash, topic_hash, xxh3
from barnabas.core.groups.consumer.world import Topic, World
from tests.core.groups.consumer.driving import Patterns, uuid


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, 0x2D06800538D394C2),
        (1, 0xC44BDFF4074EECDB),
        (3, 0xC3489259E968AD9E),
        (4, 0xD3D60C1519014E89),
        (8, 0xB88DEE77F6BF6980),
        (9, 0x3688DCAD730D826),
        (16, 0x9DA23836ADF2BE1E),
        (17, 0xF34C3C9CF5A112D1),
        (128, 0x65F3C2C00FA93185),
        (129, 0x28065C6EC25F5B25),
        (240, 0x4917A75C0EF8EED7),
        (241, 0x541B19226F0052E8),
        (1024, 0xDC5ACF0B043C445B),
        (1025, 0xE1D9CD946277AE26),
    ],
)
def test_xxh3_is_what_libxxhash_0_8_gives(length: int, expected: int) -> None:
    assert xxh3(bytes(i * 7 & 255 for i in range(length))) == expected


def test_whatever_a_group_could_notice_changes_the_hash() -> None:
    hashes = [
        topic_hash(uuid(1), "t", [["a"], ["b"]]),
        topic_hash(uuid(2), "t", [["a"], ["b"]]),
        topic_hash(uuid(1), "u", [["a"], ["b"]]),
        topic_hash(uuid(1), "t", [["a"], ["b"], []]),
        topic_hash(uuid(1), "t", [["a", "b"], []]),
        topic_hash(uuid(1), "t", [["ab"], []]),
    ]
    assert len(set(hashes)) == len(hashes)
    assert topic_hash(uuid(1), "t", [["b", "a"]]) == topic_hash(uuid(1), "t", [["a", "b"]])
    assert all(-(1 << 63) <= one < 1 << 63 for one in hashes)


def test_the_order_of_topics_does_not() -> None:
    assert group_hash({}) == 0
    assert group_hash({"a": 1, "b": 2}) == group_hash({"b": 2, "a": 1}) != group_hash({"a": 2, "b": 1})
    world = World.of([Topic(uuid(1), "t", ((),))], 1, 1, Patterns(["t"]))
    assert world.hashes_of(["t", "gone"]).keys() == {"t"}
