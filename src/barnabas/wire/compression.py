"""The codecs of record batches, framed as Kafka's Java client frames them, with a bound on what comes out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import Buffer


class Compression(IntEnum):
    """The codec in the three lowest bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def parse(cls, text: str) -> Compression:
        """Give the codec of a configuration value (`none`, `uncompressed`, `gzip`, ...); ValueError for others."""
        name = "NONE" if text == "uncompressed" else text.upper()
        if name not in cls.__members__:
            raise ValueError(f"{text!r} is no compression type: want one of none, gzip, snappy, lz4, zstd")
        return cls[name]


MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
"""Default bound: what a batch of a few kilobytes may blow up to before we call it an attack."""
DEFAULT_LEVELS: Final = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}
"""Kafka's default for each codec that has levels."""
LEVELS: Final = {Compression.GZIP: (1, 9), Compression.LZ4: (1, 17), Compression.ZSTD: (-131072, 22)}
"""The levels Kafka takes, both ends included; gzip takes -1 as well."""

_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER: Final = _SNAPPY_MAGIC + b"\x00\x00\x00\x01" * 2
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAGS: Final = 0b1110_0011
"""Version, independence of blocks, reserved bits."""
_LZ4_FLAGS_WANTED: Final = 0b0110_0000
_LZ4_MAX_FAST_LEVEL: Final = 2
_LZ4_MAX_LEVEL: Final = 12


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Give data compressed; level: one of LEVELS, None for Kafka's default."""
    if codec is Compression.NONE:
        return bytes(data)
    if level is None:
        level = DEFAULT_LEVELS.get(codec, 0)
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Compression, data: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Give data decompressed; ProtocolError when it is damaged or would be larger than max_size."""
    if codec is Compression.NONE:
        return bytes(data)
    try:
        return _DECOMPRESSORS[codec](data, max_size)
    except (cramjam.DecompressionError, zlib.error) as e:
        raise ProtocolError(f"{codec.name.lower()} data is damaged: {e}") from None


def _gzip(data: Buffer, level: int) -> bytes:
    writer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return writer.compress(data) + writer.flush()


def _gunzip(data: Buffer, max_size: int) -> bytes:
    out = b""
    while True:
        reader = zlib.decompressobj(31)
        # One byte more than allowed tells "too large" from "exactly full".
        out += reader.decompress(data, max_size - len(out) + 1)
        if len(out) > max_size:
            raise _too_large(max_size)
        if not reader.eof:
            raise ProtocolError("gzip data ends too early")
        data = reader.unused_data
        if not data.startswith(b"\x1f\x8b"):
            return out


def _snappy(data: Buffer, _level: int) -> bytes:
    out = bytearray(_SNAPPY_HEADER)
    for start in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _unsnappy(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    if not _is_xerial(view, 0):
        return _unsnappy_block(view, max_size, max_size)
    out: list[bytes] = []
    pos, left = 0, max_size
    while pos < len(view):
        if _is_xerial(view, pos):
            pos += len(_SNAPPY_HEADER)  # streams may be joined end to end
            continue
        size = int.from_bytes(view[pos : pos + 4], "big")
        pos += 4
        if size > len(view) - pos:
            raise ProtocolError("snappy data ends too early")
        out.append(_unsnappy_block(view[pos : pos + size], left, max_size))
        left -= len(out[-1])
        pos += size
    return b"".join(out)


def _is_xerial(view: memoryview, pos: int) -> bool:
    return bytes(view[pos : pos + len(_SNAPPY_MAGIC)]) == _SNAPPY_MAGIC


def _unsnappy_block(block: memoryview, left: int, max_size: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > left:
        raise _too_large(max_size)
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: Buffer, level: int) -> bytes:
    # Kafka's default level means the fast compressor; above that cramjam and Kafka both count as lz4's HC does.
    fast = level == DEFAULT_LEVELS[Compression.LZ4] or level <= _LZ4_MAX_FAST_LEVEL
    writer = cramjam.lz4.Compressor(0 if fast else min(level, _LZ4_MAX_LEVEL), False, False)
    writer.compress(data)
    return bytes(writer.finish())


def _unlz4(data: Buffer, max_size: int) -> bytes:
    if len(data) < 7 or bytes(data[:4]) != _LZ4_MAGIC:
        raise ProtocolError("lz4 data does not begin with a frame")
    if data[4] & _LZ4_FLAGS != _LZ4_FLAGS_WANTED:
        # cramjam could read it, but no Java client could: Kafka refuses blocks that lean on earlier ones.
        raise ProtocolError("lz4 frame of a kind that Kafka does not read")
    return _into_growing(cramjam.lz4.decompress_into, data, max_size)


def _zstd(data: Buffer, level: int) -> bytes:
    return bytes(cramjam.zstd.compress(data, level))


def _unzstd(data: Buffer, max_size: int) -> bytes:
    return _into_growing(cramjam.zstd.decompress_into, data, max_size)


def _into_growing(read: Callable[[Buffer, bytearray], int], data: Buffer, max_size: int) -> bytes:
    """Decompress into a buffer of a guessed size, larger ones when it proves too small, never above max_size."""
    room = min(max(8 * len(data), 4096), max_size)
    while True:
        out = bytearray(room)
        try:
            size = read(data, out)
        except cramjam.DecompressionError as e:
            if "whole buffer" not in str(e):
                raise
            if room >= max_size:
                raise _too_large(max_size) from None
            room = min(room * 8, max_size)
            continue
        return bytes(memoryview(out)[:size])


def _too_large(max_size: int) -> ProtocolError:
    return ProtocolError(f"compressed data grows beyond the {max_size} bytes allowed")


_COMPRESSORS: Final[dict[Compression, Callable[[Buffer, int], bytes]]] = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESSORS: Final[dict[Compression, Callable[[Buffer, int], bytes]]] = {
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
