"""Leader epochs: Kafka's answers to OffsetForLeaderEpoch, and what truncation leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.checkpoint import CheckpointError
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.memory_fs import MemoryFileSystem

DIR = Path("/log")


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    fs = MemoryFileSystem()
    fs.make_dirs(DIR)
    made = LeaderEpochs.load(fs, DIR)
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 35)), (5, (5, 50)), (6, (-1, -1))],
)
def test_end_offset_for_epoch(asked: int, answer: tuple[int, int]) -> None:
    assert epochs((2, 10), (4, 20), (5, 35)).end_offset_for(asked, 50) == answer


def test_no_epochs_no_answer() -> None:
    assert epochs().end_offset_for(0, 5) == (-1, -1)
    assert epochs().epoch_for_offset(0) is None


def test_an_epoch_without_records_is_replaced() -> None:
    made = epochs((1, 0), (2, 10), (3, 10))
    assert made.entries == [(1, 0), (3, 10)]


def test_an_older_epoch_later_drops_what_contradicts_it() -> None:
    made = epochs((1, 0), (2, 10), (4, 20))
    made.assign(3, 15)
    assert made.entries == [(1, 0), (2, 10), (3, 15)]


def test_the_file_is_kafkas_and_reads_back() -> None:
    fs = MemoryFileSystem()
    fs.make_dirs(DIR)
    made = LeaderEpochs.load(fs, DIR)
    made.assign(0, 0)
    made.assign(3, 17)
    made.save()
    assert fs.read_bytes(DIR / "leader-epoch-checkpoint") == b"0\n2\n0 0\n3 17\n"
    assert LeaderEpochs.load(fs, DIR).entries == [(0, 0), (3, 17)]


def test_a_new_epoch_reaches_the_disk_with_its_first_records() -> None:
    fs = MemoryFileSystem()
    fs.make_dirs(DIR)
    written: list[Path] = []
    fs.fault = lambda operation, path: written.append(path) if operation == "rename" else None
    made = LeaderEpochs.load(fs, DIR)
    for epoch in range(1000):
        made.assign(epoch, 0)
    made.truncate_from_end(0)
    made.assign(1000, 0)
    made.sync(0)
    assert written == []
    made.sync(1)
    made.assign(1001, 1)
    made.sync(1)
    assert len(written) == 1
    assert LeaderEpochs.load(fs, DIR).entries == [(1000, 0)]
    made.sync(2)
    assert LeaderEpochs.load(fs, DIR).entries == made.entries == [(1000, 0), (1001, 1)]


def test_an_epoch_that_contradicts_the_file_is_written_at_once() -> None:
    fs = MemoryFileSystem()
    fs.make_dirs(DIR)
    made = LeaderEpochs.load(fs, DIR)
    made.assign(1, 0)
    made.assign(7, 20)
    made.save()
    made.assign(3, 12)
    assert LeaderEpochs.load(fs, DIR).entries == [(1, 0), (3, 12)]
    made.assign(4, 15)
    assert LeaderEpochs.load(fs, DIR).entries == [(1, 0), (3, 12)]
    assert made.truncate_from_end(15) is False
    assert made.truncate_from_end(12) is True


def test_an_epoch_before_what_was_flushed_is_written_at_once() -> None:
    fs = MemoryFileSystem()
    fs.make_dirs(DIR)
    made = LeaderEpochs.load(fs, DIR, recovery_point=10)
    made.assign(1, 5)
    assert LeaderEpochs.load(fs, DIR).entries == [(1, 5)]
    made.assign(2, 10)
    assert LeaderEpochs.load(fs, DIR).entries == [(1, 5)]
    made.sync(20)
    made.assign(3, 19)
    assert LeaderEpochs.load(fs, DIR).entries == [(1, 5), (2, 10), (3, 19)]
    made.assign(4, 20)
    assert LeaderEpochs.load(fs, DIR).entries == [(1, 5), (2, 10), (3, 19)]


def test_a_damaged_file_is_reported() -> None:
    fs = MemoryFileSystem()
    fs.make_dirs(DIR)
    fs.open(DIR / "leader-epoch-checkpoint", create=True).pwrite(b"0\n2\n0 0\n", 0)
    with pytest.raises(CheckpointError, match="2' entries announced, 1 there"):
        LeaderEpochs.load(fs, DIR)


@given(st.lists(st.integers(1, 10), max_size=10), st.integers(0, 120), st.booleans())
def test_truncation_against_a_list_of_every_offset(lengths: list[int], cut: int, from_start: bool) -> None:
    entries, end, by_offset = [], 0, []
    for epoch, length in enumerate(lengths):
        entries.append((epoch, end))
        by_offset += [epoch] * length
        end += length
    made = epochs(*entries)
    if from_start:
        made.truncate_from_start(cut)
        left = range(cut, end)
    else:
        made.truncate_from_end(cut)
        left = range(min(cut, end))
    assert [made.epoch_for_offset(o) for o in left] == [by_offset[o] for o in left]
    if from_start and lengths and cut < end:
        assert made.earliest == (by_offset[cut], cut)
