"""Znodes of topics that others have written, as records: what an image lacks of them is taken in.

Brokers of before 2.7 write the states of the partitions that they lead themselves; before 2.8, and by tools, a topic
is made by its znode alone, and gets more partitions by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes import topics
from barnabas.core.zookeeper.znodes.projection import Written
from barnabas.core.zookeeper.znodes.znode import Fields, Znode
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.wire.records.partition_record import PartitionRecord


def partitions_seen(
    image: MetadataImage, znode: Znode, given: Uuid, states: Mapping[int, Znode]
) -> Iterator[VersionedRecord]:
    """Give the records for what a topic's znode has and the image has not: the topic, or partitions.

    given: the topic's id when the znode has none; states: of partitions that have one.
    """
    known = image.topics.by_name.get(znode.name)
    topic_id = known.id if known is not None else topics.topic_id(znode) or given
    there = known.partitions if known is not None else {}
    for versioned in topics.records(znode, topic_id, states):
        is_partition = isinstance(versioned.record, PartitionRecord)
        if versioned.record.partition_id not in there if is_partition else known is None:
            yield versioned


def has_more(image: MetadataImage, znode: Znode) -> bool:
    """Say whether a topic's znode has partitions that the image has not; the topic is there."""
    there = image.topics.by_name[znode.name].partitions
    return any(int(number) not in there for number in Fields(znode).mapping("partitions") if number.isdigit())


def identified(image: MetadataImage, names: Iterable[str]) -> Iterator[Written]:
    """Give the changes that write the ids of topics whose znodes have none yet."""
    by_name = image.topics.by_name
    for name in names:
        yield Written(topics.topic_path(name), topics.assignment(by_name[name]))


def states_seen(image: MetadataImage, states: Mapping[TopicPartition, Znode]) -> Iterator[VersionedRecord]:
    """Give the records for states that were set since the image took them in last."""
    for (name, number), znode in sorted(states.items()):
        topic = image.topics.by_name.get(name)
        partition = None if topic is None else topic.partitions.get(number)
        if topic is None or partition is None or znode.version <= partition.partition_epoch:
            continue
        versioned = partition.record(topic.id, number, image.levels)
        yield VersionedRecord(topics.with_state(versioned.record, znode), versioned.version)
