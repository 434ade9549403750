"""The hash of what a group's topics look like: XXH3 (64 bits, no seed) over Kafka's layout of the fields (KIP-1101).

The coordinator before us, or after us, may be Kafka's: with another hash every hand-over would cost a rebalance.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.model.uuid import Uuid

_MASK: Final = (1 << 64) - 1
_P32_1: Final = 0x9E3779B1
_P32_2: Final = 0x85EBCA77
_P32_3: Final = 0xC2B2AE3D
_P64_1: Final = 0x9E3779B185EBCA87
_P64_2: Final = 0xC2B2AE3D27D4EB4F
_P64_3: Final = 0x165667B19E3779F9
_P64_4: Final = 0x85EBCA77C2B2AE63
_P64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_IN_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8


def topic_hash(topic_id: Uuid, name: str, racks: Iterable[Iterable[str]]) -> int:
    """Give the hash of a topic, a signed 64-bit number as records have it; racks: of each partition."""
    most, least = struct.unpack(">qq", topic_id)
    partitions = list(racks)
    out = bytearray(struct.pack("<bqq", 0, most, least))
    _put_string(out, name)
    out += struct.pack("<i", len(partitions))
    for index, of_partition in enumerate(partitions):
        out += struct.pack("<i", index)
        for rack in sorted(of_partition):
            out += struct.pack("<i", len(rack.encode("utf-16-le")) // 2)
            _put_string(out, rack)
    return _signed(xxh3(bytes(out)))


def group_hash(topics: Mapping[str, int]) -> int:
    """Give the hash of a group from those of its topics; 0 when it reads none."""
    if not topics:
        return 0
    hashes = [topics[name] for name in sorted(topics, key=lambda one: one.encode("utf-16-be"))]
    return _signed(xxh3(struct.pack(f"<{len(hashes)}q", *hashes)))


def _put_string(out: bytearray, text: str) -> None:
    units = text.encode("utf-16-le")
    out += units
    out += struct.pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def xxh3(data: bytes) -> int:
    """Give XXH3's 64 bits of some bytes, seed 0."""
    length = len(data)
    if length > 240:
        return _long(data)
    if length > 128:
        return _middle(data)
    if length > 16:
        return _short(data)
    return _tiny(data)


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _MASK) ^ (product >> 64)


def _avalanche(h: int) -> int:
    h ^= h >> 37
    h = h * _PRIME_MX1 & _MASK
    return h ^ (h >> 32)


def _avalanche64(h: int) -> int:
    h ^= h >> 33
    h = h * _P64_2 & _MASK
    h ^= h >> 29
    h = h * _P64_3 & _MASK
    return h ^ (h >> 32)


def _swapped(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _tiny(data: bytes) -> int:
    length = len(data)
    if length > 8:
        low = _u64(data, 0) ^ (_u64(_SECRET, 24) ^ _u64(_SECRET, 32))
        high = _u64(data, length - 8) ^ (_u64(_SECRET, 40) ^ _u64(_SECRET, 48))
        return _avalanche((length + _swapped(low) + high + _fold(low, high)) & _MASK)
    if length >= 4:
        keyed = (_u32(data, length - 4) + (_u32(data, 0) << 32)) ^ (_u64(_SECRET, 8) ^ _u64(_SECRET, 16))
        keyed ^= ((keyed << 49 | keyed >> 15) ^ (keyed << 24 | keyed >> 40)) & _MASK
        keyed = keyed * _PRIME_MX2 & _MASK
        keyed ^= (keyed >> 35) + length
        keyed = keyed * _PRIME_MX2 & _MASK
        return keyed ^ (keyed >> 28)
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
        return _avalanche64(combined ^ (_u32(_SECRET, 0) ^ _u32(_SECRET, 4)))
    return _avalanche64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix16(data: bytes, at: int, secret: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret), _u64(data, at + 8) ^ _u64(_SECRET, secret + 8))


def _short(data: bytes) -> int:
    length = len(data)
    h = length * _P64_1
    for i in range((length - 1) // 32, -1, -1):
        h += _mix16(data, 16 * i, 32 * i) + _mix16(data, length - 16 * (i + 1), 32 * i + 16)
    return _avalanche(h & _MASK)


def _middle(data: bytes) -> int:
    length = len(data)
    h = length * _P64_1
    for i in range(8):
        h += _mix16(data, 16 * i, 16 * i)
    h = _avalanche(h & _MASK)
    for i in range(8, length // 16):
        h += _mix16(data, 16 * i, 16 * (i - 8) + 3)
    h += _mix16(data, length - 16, 136 - 17)
    return _avalanche(h & _MASK)


def _long(data: bytes) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    length = len(data)
    block = _STRIPE * _STRIPES_IN_BLOCK
    blocks = (length - 1) // block
    for b in range(blocks):
        for stripe in range(_STRIPES_IN_BLOCK):
            _accumulate(lanes, data, b * block + stripe * _STRIPE, stripe * 8)
        for i, key in enumerate(struct.unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE)):
            lane = lanes[i]
            lanes[i] = (lane ^ (lane >> 47) ^ key) * _P32_1 & _MASK
    for stripe in range((length - 1 - block * blocks) // _STRIPE):
        _accumulate(lanes, data, blocks * block + stripe * _STRIPE, stripe * 8)
    _accumulate(lanes, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    h = length * _P64_1
    for i in range(4):
        h += _fold(lanes[2 * i] ^ _u64(_SECRET, 11 + 16 * i), lanes[2 * i + 1] ^ _u64(_SECRET, 11 + 16 * i + 8))
    return _avalanche(h & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret: int) -> None:
    values = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", _SECRET, secret)
    for i in range(8):
        keyed = values[i] ^ keys[i]
        lanes[i ^ 1] += values[i]
        lanes[i] = (lanes[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK
    for i in range(8):
        lanes[i] &= _MASK
