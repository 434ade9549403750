"""Topics on their way out: each is gone when the logs of all its replicas are, also those of brokers that are down.

Images are without a topic from the decision on. Its znodes stay, with the mark that it is to go, until every replica's
broker has answered: a broker that comes back is told again, and so it is by the next controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from immutables import Map

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.topics import TopicImage
from barnabas.core.zookeeper.control_requests import DURING_DELETE
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

Replica = tuple[int, int]
"""A broker and the number of a partition."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """The topics that are going, by name, and the replicas of each whose logs may be there still."""

    topics: Map[str, TopicImage] = field(default_factory=Map)
    left: Map[str, frozenset[Replica]] = field(default_factory=Map)

    def __contains__(self, name: str) -> bool:
        return name in self.topics

    def begun(self, topics: Iterable[TopicImage]) -> Deletions:
        """Give these and more topics that are to go."""
        found = self
        for topic in topics:
            left = frozenset((b, number) for number, p in topic.partitions.items() for b in p.replicas)
            found = Deletions(found.topics.set(topic.name, topic), found.left.set(topic.name, left))
        return found

    def answered(self, broker: int, request: StopReplicaRequest, answer: StopReplicaResponse) -> Deletions:
        """Take a broker's answer: logs are gone where it names no error."""
        if answer.error_code:
            return self
        failed = {(e.topic_name, e.partition_index) for e in answer.partition_errors if e.error_code}
        found = self.left
        for topic in request.topic_states:
            gone = {
                (broker, state.partition_index)
                for state in topic.partition_states
                if state.leader_epoch == DURING_DELETE and (topic.topic_name, state.partition_index) not in failed
            }
            if topic.topic_name in found:
                found = found.set(topic.topic_name, found[topic.topic_name] - gone)
        return replace(self, left=found)

    def told(self, brokers: Iterable[int]) -> Deletions:
        """Take it for done by brokers whose answers nobody hears."""
        found = self.left
        for name, left in self.left.items():
            found = found.set(name, frozenset(replica for replica in left if replica[0] not in brokers))
        return replace(self, left=found)

    def finished(self) -> tuple[list[str], Deletions]:
        """Give the names of the topics of which nothing is left, and the others."""
        names = sorted(name for name, left in self.left.items() if not left)
        found = self
        for name in names:
            found = Deletions(found.topics.delete(name), found.left.delete(name))
        return names, found

    def delta(self, image: MetadataImage) -> MetadataDelta:
        """Give the change by which they went, against an image that is without them."""
        by_id = image.topics.by_id.update({topic.id: topic for topic in self.topics.values()})
        before = replace(image, topics=replace(image.topics, by_id=by_id))
        return MetadataDelta(before, image, deleted_topics={t.id: t.name for t in self.topics.values()})
