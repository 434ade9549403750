"""Offset checkpoints: Kafka's text, replaced whole, damage reported."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from barnabas.model.topic_partition import TopicPartition
from barnabas.storage.checkpoint import CheckpointError, read_offsets, write_offsets
from barnabas.storage.memory_fs import MemoryFileSystem

PATH = Path("/data/recovery-point-offset-checkpoint")


@pytest.fixture
def fs() -> MemoryFileSystem:
    made = MemoryFileSystem()
    made.make_dirs(PATH.parent)
    return made


def test_the_file_is_kafkas_and_reads_back(fs: MemoryFileSystem) -> None:
    offsets = {TopicPartition("b", 0): 7, TopicPartition("a.b-c", 12): 2**40}
    write_offsets(fs, PATH, offsets)
    assert fs.read_bytes(PATH) == b"0\n2\na.b-c 12 1099511627776\nb 0 7\n"
    assert read_offsets(fs, PATH) == offsets


def test_no_file_is_no_offsets(fs: MemoryFileSystem) -> None:
    assert read_offsets(fs, PATH) == {}


@pytest.mark.parametrize("text", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\nx\n", b"0\n1\na b c\n"])
def test_damage_is_reported_with_the_path(fs: MemoryFileSystem, text: bytes) -> None:
    fs.open(PATH, create=True).pwrite(text, 0)
    with pytest.raises(CheckpointError, match=str(PATH)):
        read_offsets(fs, PATH)


def test_a_failed_write_leaves_the_old_file(fs: MemoryFileSystem) -> None:
    old = {TopicPartition("a", 0): 1}
    write_offsets(fs, PATH, old)
    fs.fault = lambda operation, path: OSError(errno.EIO, "bad") if operation == "fsync" else None
    with pytest.raises(OSError, match="bad"):
        write_offsets(fs, PATH, {TopicPartition("a", 0): 2})
    fs.fault = lambda operation, path: None
    assert read_offsets(fs, PATH) == old
