"""A consumer's membership of a classic group: which topics it wants, and how partitions are shared out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.client.admin.groups import CONSUMER, GroupMember, assigned_partitions
from barnabas.client.assignors import ASSIGNORS, assignor_names
from barnabas.client.classic_group import ClassicMembership, Election, GroupTimes
from barnabas.client.cluster import Cluster
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.message import decode_from, encode
from barnabas.wire.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.records.consumer_protocol_assignment import TopicPartition as AssignedTopic
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription

_PROTOCOL_VERSION: Final = 1


class GroupMembership(ClassicMembership):
    """One consumer in one group. The owner calls `ensure_joined` before each poll; `partitions` are then its own."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str]) -> None:
        config = cluster.config
        self._subscription = _Subscription(cluster, sorted(topics))
        times = GroupTimes(
            config.integer("session.timeout.ms"),
            config.integer("max.poll.interval.ms"),
            config.integer("heartbeat.interval.ms"),
        )
        super().__init__(cluster, group, self._subscription, times, instance_id=config.text("group.instance.id"))

    @property
    def topics(self) -> Sequence[str]:
        """Give the topics subscribed to, in order of their names."""
        return self._subscription.topics

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Give what the latest generation assigned."""
        return self._subscription.partitions

    def as_member(self) -> GroupMember:
        """Give this member as others see it."""
        client_id = self._cluster.config["client.id"]
        return GroupMember(self.member_id, self._instance_id, client_id, "", self.partitions)


class _Subscription:
    """What consumers tell each other when they join."""

    type: Final = CONSUMER

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self.topics = topics
        self.partitions: tuple[TopicPartition, ...] = ()
        self._strategies = assignor_names(cluster.config["partition.assignment.strategy"])

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        message = ConsumerProtocolSubscription(topics=list(self.topics))
        subscription = _PROTOCOL_VERSION.to_bytes(2, "big") + encode(message, _PROTOCOL_VERSION)
        return [(name, subscription) for name in self._strategies]

    async def assign(self, election: Election) -> Mapping[str, bytes]:
        subscriptions = {member: _topics_of(metadata) for member, metadata in election.members.items()}
        wanted = {topic for topics in subscriptions.values() for topic in topics}
        known = await self._cluster.topics()
        partitions = {name: len(known[name].partitions) for name in wanted if name in known}
        given = ASSIGNORS[election.protocol or "range"](subscriptions, partitions)
        return {member: _assignment(mine) for member, mine in given.items()}

    def assigned(self, protocol: str, generation: int, assignment: bytes) -> None:
        self.partitions = assigned_partitions(assignment)


def _topics_of(metadata: bytes) -> list[str]:
    version = min(int.from_bytes(metadata[:2], "big", signed=True), ConsumerProtocolSubscription.MAX_VERSION)
    subscription, _ = decode_from(ConsumerProtocolSubscription, max(version, 0), metadata, 2)
    return subscription.topics


def _assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic=t, partitions=ps) for t, ps in by_topic.items()]
    )
    return _PROTOCOL_VERSION.to_bytes(2, "big") + encode(message, _PROTOCOL_VERSION)
