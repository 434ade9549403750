from __future__ import annotations

import gzip
import tracemalloc
from random import Random

import cramjam
import pytest

from barnabas.wire.compression import LEVELS, Compression, compress, decompress
from barnabas.wire.errors import ProtocolError

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
SAMPLES = [b"", b"a", b"abc" * 50_000, Random(3).randbytes(100_000), b"\0" * 300_000]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_data_survives(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytearray(packed)), len(data)) == data


@pytest.mark.parametrize("codec", list(LEVELS))
def test_levels_are_taken(codec: Compression) -> None:
    text = b"departure,carrier,delay;" * 4000 + Random(1).randbytes(3000).hex().encode()
    low, high = (compress(codec, text, level) for level in LEVELS[codec])
    assert decompress(codec, low) == decompress(codec, high) == text
    assert len(high) < len(low)


@pytest.mark.parametrize("codec", CODECS)
def test_growth_is_bounded(codec: Compression) -> None:
    bomb = compress(codec, bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="1000000 bytes allowed"):
            decompress(codec, bomb, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_a_protocol_error(codec: Compression) -> None:
    packed = compress(codec, b"some text, some text, some text" * 100)
    with pytest.raises(ProtocolError):
        decompress(codec, packed[: len(packed) // 2])
    random = Random(5)
    for _ in range(300):
        broken = bytearray(packed)
        broken[random.randrange(len(broken))] ^= 1 << random.randrange(8)
        try:
            decompress(codec, broken, 100_000)
        except ProtocolError:
            pass


def test_snappy_is_read_raw_framed_and_joined() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"hello " * 100))
    assert decompress(Compression.SNAPPY, raw) == b"hello " * 100
    framed = compress(Compression.SNAPPY, b"hello ")
    assert framed.startswith(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01")
    assert decompress(Compression.SNAPPY, framed + framed) == b"hello hello "


def test_lz4_frames_are_those_that_java_takes() -> None:
    flags, block_size = compress(Compression.LZ4, b"x" * 100)[4:6]
    assert flags & 0b1110_1100 == 0b0110_0000  # version 1, independent blocks, neither content size nor checksum
    assert block_size == 0x40  # 64 KB


def test_lz4_blocks_that_lean_on_earlier_ones_are_refused() -> None:
    writer = cramjam.lz4.Compressor(0, False, True)
    writer.compress(b"x" * 200_000)
    with pytest.raises(ProtocolError, match="does not read"):
        decompress(Compression.LZ4, bytes(writer.finish()))


def test_gzip_members_may_follow_one_another() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_names() -> None:
    assert [Compression.parse(t) for t in ("none", "uncompressed", "zstd")] == [0, 0, 4]
    with pytest.raises(ValueError, match="brotli"):
        Compression.parse("brotli")
