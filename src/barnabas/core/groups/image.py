"""All that a shard of `__consumer_offsets` says: which groups there are, and their offsets.

An image is frozen and its maps are persistent, so that the committed one can be kept beside the newest. A
group of the classic protocol in it is live: what happens between two of its records is soft state. A group of the
consumer protocol is frozen as well. A group id stands in one of both maps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from immutables import Map

from barnabas.core.coordinators.shard import NO_PRODUCER, At
from barnabas.core.groups import records
from barnabas.core.groups.classic import ClassicGroup
from barnabas.core.groups.consumer import replaying
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.offsets import CommittedOffset, OffsetsImage, Place
from barnabas.core.replicated import ReplayTable, replays
from barnabas.wire.records.group_metadata_key import GroupMetadataKey
from barnabas.wire.records.group_metadata_value import GroupMetadataValue
from barnabas.wire.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from barnabas.wire.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from barnabas.wire.records.offset_commit_key import OffsetCommitKey
from barnabas.wire.records.offset_commit_value import OffsetCommitValue


@dataclass(frozen=True, slots=True)
class ShardImage:
    """Groups by id, and their offsets. groups: those of the classic protocol, and those that only commit."""

    groups: Map[str, ClassicGroup] = field(default_factory=Map)
    offsets: OffsetsImage = field(default_factory=OffsetsImage)
    consumers: Map[str, ConsumerGroup] = field(default_factory=Map)

    def with_group(self, group: ClassicGroup) -> ShardImage:
        """Give the image with the group in it, in the place of one of the other protocol."""
        consumers = self.consumers.delete(group.group_id) if group.group_id in self.consumers else self.consumers
        return ShardImage(self.groups.set(group.group_id, group), self.offsets, consumers)

    def with_consumer_group(self, group_id: str, group: ConsumerGroup | None) -> ShardImage:
        """Give the image with the group in it, in the place of a classic one; without it when it is None."""
        if group is None:
            return replace(self, consumers=self.consumers.delete(group_id)) if group_id in self.consumers else self
        groups = self.groups.delete(group_id) if group_id in self.groups else self.groups
        return ShardImage(groups, self.offsets, self.consumers.set(group_id, group))


@replays(GroupMetadataKey)
def group_metadata(image: ShardImage, key: GroupMetadataKey, value: GroupMetadataValue | None, at: At) -> ShardImage:
    """A generation of a group, or the end of the group."""
    if value is not None:
        return image.with_group(records.group_from(key.group, value))
    if key.group not in image.groups:
        return image
    return replace(image, groups=image.groups.delete(key.group))


@replays(OffsetCommitKey)
def offset_commit(image: ShardImage, key: OffsetCommitKey, value: OffsetCommitValue | None, at: At) -> ShardImage:
    """A committed offset, or its end. A group that only commits comes to be by that."""
    place = Place(key.group, key.topic, key.partition)
    if value is None:
        return replace(image, offsets=image.offsets.remove(place))
    if key.group not in image.groups and key.group not in image.consumers:
        image = image.with_group(ClassicGroup(key.group, at.now_ms))
    committed = CommittedOffset.from_record(at.offset, value)
    if at.producer_id == NO_PRODUCER:
        return ShardImage(image.groups, image.offsets.put(place, committed), image.consumers)
    return replace(image, offsets=image.offsets.put_pending(place, at.producer_id, committed))


@replays(LegacyOffsetCommitKey)
def legacy_offset_commit(
    image: ShardImage, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None, at: At
) -> ShardImage:
    """The same from before Kafka 0.9, under another key."""
    modern = None
    if value is not None:
        modern = OffsetCommitValue(
            offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
        )
    return offset_commit(image, OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition), modern, at)


def _of_consumer_groups(key_class: type) -> Callable[..., ShardImage]:
    @replays(key_class)
    def consumer_group(image: ShardImage, key: Any, value: Any, at: At) -> ShardImage:
        group = replaying.replay(image.consumers.get(key.group_id), key, value)
        return image.with_consumer_group(key.group_id, group)

    return consumer_group


REPLAYS: Final = ReplayTable[ShardImage](
    (group_metadata, offset_commit, legacy_offset_commit, *map(_of_consumer_groups, replaying.KEYS))
)


def end_transaction(image: ShardImage, producer_id: int, *, commit: bool) -> ShardImage:
    """Give the image after a transaction's marker."""
    return replace(image, offsets=image.offsets.end_transaction(producer_id, commit=commit))
