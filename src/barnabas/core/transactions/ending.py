"""A transaction whose outcome stands in the log, and whose partitions are to be told of it."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.core.coordinators.step import Producer
from barnabas.model.topic_partition import TopicPartition


class Ending(NamedTuple):
    """What to tell the partitions. producer: with the epoch that the markers carry."""

    transactional_id: str
    producer: Producer
    commit: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    transaction_version: int
