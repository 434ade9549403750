"""The topics as groups of the consumer protocol know them, kept beside the metadata: its changes are all that it costs.

Nothing is kept before a group first asks, so that a cluster without such groups pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from immutables import Map

from barnabas.core.groups.consumer.world import Topic, World
from barnabas.core.groups.regex import TopicRegex
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.topics import TopicImage
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError

Allowed = Callable[[Iterable[str]], set[str]]
"""Gives those of some topics that the one who asks may describe."""
_PATTERNS_KEPT: Final = 256


def nobodys(names: Iterable[str]) -> set[str]:
    """Give nothing: of a world that is not asked for patterns."""
    return set()


_compiled: Final = lru_cache(_PATTERNS_KEPT)(TopicRegex)


class DescribableTopics:
    """Matches regular expressions against the topics that one principal may describe."""

    __slots__ = ("_allowed", "_names")

    def __init__(self, names: Iterable[str], allowed: Allowed) -> None:
        self._names = names
        self._allowed = allowed

    def check(self, regex: str) -> None:
        """Raise ApiError INVALID_REGULAR_EXPRESSION when this is none."""
        _compiled(regex)

    def match(self, regex: str) -> frozenset[str]:
        """Give the names that match as a whole; none for what another coordinator took as a pattern and we do not."""
        try:
            found = _compiled(regex).among(self._names)
        except ApiError:
            return frozenset()
        return frozenset(self._allowed(sorted(found))) if found else found


class GroupTopics:
    """Follows the topics, their partitions and the racks of the brokers.

    Versions are offsets of the metadata log, as in the records of a coordinator of Kafka: one that takes over compares
    them with its own.
    """

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        """image: gives the metadata as it is now."""
        self._image = image
        self._followed = False
        self._version = self._new_topics_version = -1
        self._by_name: Map[str, Topic] = Map()
        self._by_id: Map[Uuid, Topic] = Map()
        self._racks: Mapping[int, str] = {}

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up what a delta names."""
        if not self._followed:
            return
        racks = _racks(image) if delta.brokers or delta.snapshot else self._racks
        if delta.snapshot or racks != self._racks:
            self._racks = racks
            before = self._by_id
            self._take(image, list(image.topics.by_id), [gone for gone in before if gone not in image.topics.by_id])
            created = any(topic_id not in before for topic_id in image.topics.by_id)
        elif delta.topics or delta.deleted_topics:
            created = any(topic_id not in self._by_id for topic_id in delta.topics)
            self._take(image, delta.topics, delta.deleted_topics)
        else:
            return
        self._version = image.offset_epoch.offset
        if created:
            self._new_topics_version = self._version

    def world(self, allowed: Allowed) -> World:
        """Give the topics of now, and what patterns match of them for one who may describe `allowed`."""
        if not self._followed:
            self._follow()
        patterns = DescribableTopics(self._by_name, allowed)
        return World(self._version, self._by_name, self._by_id, self._new_topics_version, patterns)

    def _follow(self) -> None:
        image = self._image()
        self._racks = _racks(image)
        self._take(image, image.topics.by_id, ())
        self._version = self._new_topics_version = image.offset_epoch.offset
        self._followed = True

    def _take(self, image: MetadataImage, changed: Iterable[Uuid], deleted: Iterable[Uuid]) -> None:
        """Bring topics up to date; one that looks as before stays the value that it is, for its hash stands on it."""
        with self._by_id.mutate() as by_id, self._by_name.mutate() as by_name:
            for topic_id in deleted:
                gone = by_id.pop(topic_id, None)
                if gone is not None and by_name[gone.name] is gone:
                    del by_name[gone.name]
            for topic_id in changed:
                topic = self._topic(image.topics.by_id[topic_id])
                if by_id.get(topic_id) != topic:
                    by_id[topic_id] = by_name[topic.name] = topic
            self._by_id, self._by_name = by_id.finish(), by_name.finish()

    def _topic(self, topic: TopicImage) -> Topic:
        racks = self._racks
        if not racks:
            return Topic(topic.id, topic.name, ((),) * len(topic.partitions))
        partitions = [topic.partitions.get(number) for number in range(len(topic.partitions))]
        return Topic(
            topic.id,
            topic.name,
            tuple(tuple(racks[r] for r in p.replicas if r in racks) if p is not None else () for p in partitions),
        )


def _racks(image: MetadataImage) -> dict[int, str]:
    """Give the racks of the brokers that have one."""
    return {broker_id: b.rack for broker_id, b in image.cluster.brokers.items() if b.rack is not None}
