"""The name of a partition, and numbers that must not be mixed up."""

from __future__ import annotations

from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)


class TopicPartition(NamedTuple):
    """A partition of a topic; prints as its directory is called, `topic-partition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndEpoch(NamedTuple):
    """A point in a log: the offset of a record and the leader epoch in which it was written."""

    offset: int
    epoch: int
