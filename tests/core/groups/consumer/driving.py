"""A shard, a cluster of topics, and members that speak the consumer protocol as Kafka's client does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.world import Topic, World
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.core.groups.driving import Driver

HOST = "/1.2.3.4"
Partition = tuple[Uuid, int]


def uuid(number: int) -> Uuid:
    return Uuid((1 << 64 | number).to_bytes(16, "big"))


@dataclass
class Patterns:
    """Patterns over the topics of a cluster; denied: what the principal may not describe."""

    names: Iterable[str]
    denied: frozenset[str] = frozenset()

    def check(self, regex: str) -> None:
        try:
            re.compile(regex)
        except re.error as e:
            raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION) from e

    def match(self, regex: str) -> frozenset[str]:
        return frozenset(n for n in self.names if re.fullmatch(regex, n)) - self.denied


@dataclass
class Cluster:
    """Topics that come, grow and go."""

    topics: dict[str, Topic] = field(default_factory=dict)
    version: int = 0
    new_topics_version: int = 0
    denied: frozenset[str] = frozenset()

    def create(self, name: str, partitions: int) -> Uuid:
        self.version += 1
        self.new_topics_version = self.version
        topic_id = uuid(self.version)
        self.topics[name] = Topic(topic_id, name, ((),) * partitions)
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        self.topics[name] = Topic(self.topics[name].topic_id, name, ((),) * partitions)

    def delete(self, name: str) -> None:
        self.version += 1
        del self.topics[name]

    def counts(self) -> dict[str, int]:
        return {name: len(topic.racks) for name, topic in self.topics.items()}

    def world(self) -> World:
        topics = list(self.topics.values())
        return World.of(topics, self.version, self.new_topics_version, Patterns(list(self.topics), self.denied))


@dataclass(eq=False)
class Consumer:
    """What a client knows: its epoch, and what it holds."""

    member_id: str
    group: str = "g"
    instance: str | None = None
    names: list[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 30_000
    epoch: int = 0
    held: set[Partition] = field(default_factory=set)
    wanted: set[Partition] = field(default_factory=set)

    def request(self, *, full: bool = False) -> ConsumerGroupHeartbeatRequest:
        """Say everything when joining (or when asked to), else only what is held."""
        everything = full or self.epoch == 0
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=self.rebalance_ms if everything else -1,
            subscribed_topic_names=self.names if everything else None,
            subscribed_topic_regex=self.regex if everything else None,
            server_assignor=self.assignor if everything else None,
            topic_partitions=listed(self.held),
        )

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Take an answer in: give up at once what is not wanted any more, take what is new."""
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.wanted = {(t.topic_id, p) for t in response.assignment.topic_partitions for p in t.partitions}
        self.held = set(self.wanted)

    def fenced(self) -> None:
        self.epoch, self.held, self.wanted = 0, set(), set()


def listed(partitions: set[Partition]) -> list[TopicPartitions]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=t, partitions=p) for t, p in by_topic.items()]


@dataclass
class ConsumerDriver(Driver):
    """The driver of a shard, with a cluster of topics."""

    cluster: Cluster = field(default_factory=Cluster)

    def send(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> Any:
        step = self.shard.consumer_heartbeat(request, version, "client", HOST, self.now, self.cluster.world())
        return self.carry(step)

    def beat(self, consumer: Consumer, *, full: bool = False) -> Any:
        response = self.send(consumer.request(full=full))
        consumer.take(response)
        return response

    def away(self, consumer: Consumer, epoch: int = -1) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=consumer.group, member_id=consumer.member_id, instance_id=consumer.instance, member_epoch=epoch
        )
        response = self.send(request)
        consumer.fenced()
        return response

    def settle_all(self, *consumers: Consumer, rounds: int = 8) -> None:
        for _ in range(rounds):
            self.advance(1_000)
            for consumer in consumers:
                self.beat(consumer)

    def group(self, group_id: str = "g") -> ConsumerGroup:
        return self.shard.image.consumers[group_id]
