"""The offset and time index against obvious twins, and as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.index import OffsetIndex, TimeIndex
from barnabas.storage.memory_fs import MemoryFileSystem

BASE = 1_000
DIR = Path("/log")
Entries = list[tuple[int, int]]


def offset_index(fs: MemoryFileSystem, max_bytes: int = 1 << 20) -> OffsetIndex:
    fs.make_dirs(DIR)
    return OffsetIndex(fs, DIR / "i.index", BASE, max_bytes)


def time_index(fs: MemoryFileSystem, max_bytes: int = 1 << 20) -> TimeIndex:
    fs.make_dirs(DIR)
    return TimeIndex(fs, DIR / "i.timeindex", BASE, max_bytes)


@st.composite
def growing(draw: st.DrawFn) -> Entries:
    steps = draw(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40))
    entries, first, second = [], 0, 0
    for a, b in steps:
        first, second = first + a, second + b
        entries.append((first, second))
    return entries


@given(growing(), st.integers(BASE - 5, BASE + 2100), st.booleans())
def test_offset_lookup_is_the_last_entry_at_or_before(entries: Entries, offset: int, reopened: bool) -> None:
    fs = MemoryFileSystem()
    index = offset_index(fs)
    for relative, position in entries:
        index.append(BASE + relative, position)
    index.save()
    if reopened:
        index = offset_index(fs)
    at_or_before = [p for r, p in entries if BASE + r <= offset]
    assert index.lookup(offset) == (at_or_before[-1] if at_or_before else 0)
    assert len(index) == len(entries)


@given(growing(), st.integers(BASE, BASE + 2100))
def test_truncated_offset_index_holds_the_entries_before(entries: Entries, offset: int) -> None:
    fs = MemoryFileSystem()
    index = offset_index(fs)
    for relative, position in entries:
        index.append(BASE + relative, position)
    index.save()
    index.truncate_to(offset)
    index.save()
    left = [(BASE + r, p) for r, p in entries if BASE + r < offset]
    for seen in (index, offset_index(fs)):
        assert [seen.entry(n) for n in range(len(seen))] == left


@given(growing(), st.integers(-1, 250_000))
def test_time_lookup_is_the_last_entry_at_or_before(entries: Entries, timestamp: int) -> None:
    fs = MemoryFileSystem()
    index = time_index(fs)
    for relative, time in entries:
        index.maybe_append(time, BASE + relative)
    index.unload()
    at_or_before = [BASE + r for r, t in entries if t <= timestamp]
    assert index.lookup(timestamp) == (at_or_before[-1] if at_or_before else BASE)


def test_the_files_are_kafkas() -> None:
    fs = MemoryFileSystem()
    offsets, times = offset_index(fs), time_index(fs)
    offsets.append(BASE + 7, 4200)
    times.maybe_append(0x0102030405060708, BASE + 7)
    offsets.save()
    times.save()
    assert fs.read_bytes(offsets.path).hex() == "00000007" + "00001068"
    assert fs.read_bytes(times.path).hex() == "0102030405060708" + "00000007"


def test_reserved_zeros_of_a_dead_writer_are_no_entries() -> None:
    fs = MemoryFileSystem()
    fs.make_dirs(DIR)
    fs.open(DIR / "i.index", create=True).pwrite(bytes.fromhex("0000000700001068") + bytes(80), 0)
    fs.open(DIR / "i.timeindex", create=True).pwrite(bytes.fromhex("000000000000000900000007") + bytes(120), 0)
    assert (len(offset_index(fs)), offset_index(fs).last_offset) == (1, BASE + 7)
    assert (len(time_index(fs)), time_index(fs).last) == (1, (9, BASE + 7))


def test_entries_that_do_not_grow_are_refused() -> None:
    index = offset_index(MemoryFileSystem())
    index.append(BASE + 3, 10)
    with pytest.raises(ValueError, match="does not follow"):
        index.append(BASE + 3, 20)
    with pytest.raises(ValueError, match="does not follow"):
        index.append(BASE + 2**31, 20)


def test_time_index_keeps_one_entry_back_for_the_end() -> None:
    index = time_index(MemoryFileSystem(), max_bytes=36)
    for n in range(5):
        index.maybe_append(n, BASE + n)
    assert index.is_full
    assert index.last == (1, BASE + 1)
    index.maybe_append(9, BASE + 9, closing=True)
    assert index.last == (9, BASE + 9)


def test_upper_bound_is_the_first_entry_past_the_bytes() -> None:
    index = offset_index(MemoryFileSystem())
    for n in range(1, 4):
        index.append(BASE + 10 * n, 100 * n)
    assert index.upper_bound_offset(50, 100) == BASE + 20
    assert index.upper_bound_offset(250, 100) is None
