"""Offsets as Spark's Kafka source writes them: JSON `{"topic": {"0": 23, "1": -2}}`, and the bounds of a read.

The same JSON is what a checkpoint holds, so it is formatted in one order only: equal offsets give equal text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.model.topic_partition import TopicPartition

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1

PartitionOffsets = dict[TopicPartition, int]
"""The next offset to read, by partition."""

OffsetsJson = dict[str, dict[str, int]]
"""`[topic][partition as text] -> offset`, what Spark stores for us."""


class OptionError(ValueError):
    """An option that cannot be used as given; the message names the option, its value and what is right."""


class Edge(Enum):
    """An end of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for every partition; -2 stands for the earliest and -1 for the latest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or after a time, ms since the epoch: one for all partitions, or one for each."""

    everywhere_ms: int | None = None
    by_partition_ms: Mapping[TopicPartition, int] | None = None
    latest_when_none: bool = False

    def of(self, partition: TopicPartition) -> int | None:
        """Give the time asked for this partition; None when the option leaves it out."""
        if self.by_partition_ms is not None:
            return self.by_partition_ms.get(partition)
        return self.everywhere_ms


Bound = Edge | SpecificOffsets | AtTimestamp


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Give the offsets as Spark stores them, topics and partitions in order."""
    result: OffsetsJson = {}
    for partition in sorted(offsets):
        result.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return result


def offsets_from_json(value: Mapping[str, Mapping[str, int]]) -> PartitionOffsets:
    """Give what `offsets_to_json` wrote."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
    }


def parse_partition_numbers(option: str, text: str) -> PartitionOffsets:
    """Parse `{"topic": {"0": 23}}`; OptionError when it is anything else."""
    try:
        value = json.loads(text)
        return offsets_from_json(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f'{option} is {text!r}, want JSON like {{"topicA": {{"0": 23, "1": -2}}, "topicB": {{"0": -1}}}}'
        ) from error


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse `{"topicA": [0, 1], "topicB": [2]}` into its partitions, in order; OptionError when it is not that."""
    try:
        value = json.loads(text)
        found = {TopicPartition(topic, int(number)) for topic, numbers in value.items() for number in numbers}
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(f'{option} is {text!r}, want JSON like {{"topicA": [0, 1], "topicB": [2]}}') from error
    if not found:
        raise OptionError(f"{option} names no partition")
    return tuple(sorted(found))


def describe_partitions(partitions: Iterable[TopicPartition], most: int = 10) -> str:
    """Name partitions for an error message, the first few of many."""
    ordered = sorted(partitions)
    names = ", ".join(str(partition) for partition in ordered[:most])
    return f"{names} and {len(ordered) - most} more" if len(ordered) > most else names
