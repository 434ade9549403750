"""New leader epochs for what brokers in ZooKeeper mode would not look at otherwise.

They take a state from LeaderAndIsr only when its leader epoch is one that they have not heard yet. In a metadata log
the partition's epoch is enough, and decisions, the same in both modes, keep the leader's where the leader stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeVar

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition import NO_LEADER_CHANGE
from barnabas.core.metadata.partition_index import PlaceId
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.wire.messages.alter_partition import AlterPartitionResponse
from barnabas.wire.records.partition_change_record import PartitionChangeRecord

R = TypeVar("R")
_ASSIGNMENT: Final = ("replicas", "adding_replicas", "removing_replicas")


def in_new_epochs(image: MetadataImage, decision: Decision[R]) -> Iterator[VersionedRecord]:
    """Give the records of a decision, with a new leader epoch for each partition that replicas are told of.

    What a leader has asked for by AlterPartition it hears in the answer, and nobody else acts on it: an ISR. The end
    of a reassignment, which may follow from that, is for all replicas.
    """
    asked_by_leader = isinstance(decision.response, AlterPartitionResponse)
    leaders: dict[PlaceId, int] = {}
    for record, version in decision.records:
        if isinstance(record, PartitionChangeRecord):
            place = (record.topic_id, record.partition_id)
            if record.leader != NO_LEADER_CHANGE:
                leaders[place] = record.leader
            elif not asked_by_leader or any(getattr(record, name) is not None for name in _ASSIGNMENT):
                leader = leaders.get(place, image.topics.by_id[record.topic_id].partitions[record.partition_id].leader)
                record = replace(record, leader=leader)
        yield VersionedRecord(record, version)
