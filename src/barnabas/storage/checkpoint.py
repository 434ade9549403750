"""Kafka's small text files of numbers: offsets of a directory's partitions, leader epochs of one partition.

A version line, a line with the count, then a line an entry. They are replaced whole, through a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from barnabas.model.topic_partition import TopicPartition
from barnabas.storage.fs import FileSystem

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

_VERSION: Final = 0


class CheckpointError(Exception):
    """A checkpoint file does not read as one; says which and why."""


def write_lines(fs: FileSystem, path: Path, lines: Iterable[str]) -> None:
    """Replace a checkpoint file by these entries, durably."""
    entries = list(lines)
    fs.write_durably(path, "\n".join([str(_VERSION), str(len(entries)), *entries, ""]).encode())


def read_lines(fs: FileSystem, path: Path) -> list[str]:
    """Give the entries of a checkpoint file; none when it is missing or empty, CheckpointError when damaged."""
    try:
        lines = fs.read_bytes(path).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    if len(lines) < 2:
        return []
    if lines[0] != str(_VERSION):
        raise CheckpointError(f"{path}: version {lines[0]!r} is not {_VERSION}")
    if not lines[1].isdigit() or int(lines[1]) != len(lines) - 2:
        raise CheckpointError(f"{path}: {lines[1]!r} entries announced, {len(lines) - 2} there")
    return lines[2:]


def write_offsets(fs: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint of a log directory."""
    write_lines(fs, path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())))


def read_offsets(fs: FileSystem, path: Path) -> dict[TopicPartition, int]:
    """Give the offsets by partition; CheckpointError when a line is not `topic partition offset`."""
    offsets = {}
    for line in read_lines(fs, path):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CheckpointError(f"{path}: {line!r} is not `topic partition offset`") from None
    return offsets


def write_epochs(fs: FileSystem, path: Path, epochs: Iterable[tuple[int, int]]) -> None:
    """Replace a partition's leader-epoch checkpoint; entries are (epoch, start offset) in order."""
    write_lines(fs, path, (f"{epoch} {start}" for epoch, start in epochs))


def read_epochs(fs: FileSystem, path: Path) -> list[tuple[int, int]]:
    """Give (epoch, start offset) pairs; CheckpointError when a line is not two numbers."""
    epochs = []
    for line in read_lines(fs, path):
        try:
            epoch, start = line.split()
            epochs.append((int(epoch), int(start)))
        except ValueError:
            raise CheckpointError(f"{path}: {line!r} is not `epoch start-offset`") from None
    return epochs
