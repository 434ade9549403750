"""Admin: topics, partitions, and where their logs begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from barnabas.client.admin.outcome import ClusterAdmin, check, refusal
from barnabas.client.cluster import TopicInfo, backoffs
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from barnabas.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

R = TypeVar("R")
_MISSING: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class OffsetSpec(IntEnum):
    """Special timestamps of ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_SPEC_VERSION: Final = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


class ListedOffset(NamedTuple):
    """Where something is in a log. offset: -1 when there is nothing; timestamp: ms, -1 when it was not asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. partitions, replication_factor: -1 takes the cluster's default.

    assignments: partition -> brokers, the preferred leader first; then the two numbers stay -1.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


class TopicsAdmin(ClusterAdmin):
    """Operations on topics."""

    async def topics(self) -> Mapping[str, TopicInfo]:
        """Give every topic that this client may see, by name."""
        return await self.cluster.topics()

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Create topics; give how each went."""
        results = await self.create_topics_described(topics, validate_only=validate_only)
        return {t.name: refusal(t.error_code, t.error_message) for t in results}

    async def create_topics_described(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[CreatableTopicResult]:
        """Create topics; give the node's own words on each: id, partitions, configs."""
        request = CreateTopicsRequest(
            topics=[_creatable(t) for t in topics], timeout_ms=self.timeout_ms, validate_only=validate_only
        )
        response: CreateTopicsResponse = await self.cluster.call_any(request)
        for topic in topics:
            self.cluster.forget_topic(topic.name)
        return response.topics

    async def delete_topics(self, names: Sequence[str]) -> dict[str, ApiError | None]:
        """Delete topics; give how each went."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=self.timeout_ms,
        )
        version = (await self.cluster.any_channel()).versions(request)
        if version < 6:
            request.topics = []
        response: DeleteTopicsResponse = await self.cluster.call_any(request, version=version)
        for name in names:
            self.cluster.forget_topic(name)
        return {t.name or "": refusal(t.error_code, t.error_message) for t in response.responses}

    async def create_partitions(
        self, topic: str, count: int, assignments: Sequence[Sequence[int]] | None = None, *, validate_only: bool = False
    ) -> None:
        """Raise the number of partitions of a topic to `count`. assignments: brokers of each new partition."""
        placed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=list(a)) for a in assignments]
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=placed)],
            timeout_ms=self.timeout_ms,
            validate_only=validate_only,
        )
        response: CreatePartitionsResponse = await self.cluster.call_any(request)
        self.cluster.forget_topic(topic)
        for result in response.results:
            check(result.error_code, result.error_message)

    async def describe_topics(
        self, names: Iterable[str], *, partition_limit: int = 2000
    ) -> list[DescribeTopicPartitionsResponseTopic]:
        """Give topics with all their partitions, in the order of their names; error_code is set per topic."""
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in sorted(set(names))],
            response_partition_limit=partition_limit,
        )
        found: dict[str, DescribeTopicPartitionsResponseTopic] = {}
        while request.topics:
            response: DescribeTopicPartitionsResponse = await self.cluster.call_any(request)
            for topic in response.topics:
                known = found.setdefault(topic.name or "", topic)
                if known is not topic:
                    known.partitions.extend(topic.partitions)
            cursor = request.cursor = response.next_cursor
            if cursor is None:
                break
            request.topics = [t for t in request.topics if t.name >= cursor.topic_name]
        return list(found.values())

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False, patient: bool = False
    ) -> dict[TopicPartition, ListedOffset | ApiError]:
        """Give for each partition the offset that goes with a timestamp in ms, or with an `OffsetSpec`.

        patient: a topic that is not there may be just about to be, and is waited for.
        """

        async def ask(node: int, partitions: list[TopicPartition]) -> dict[TopicPartition, ListedOffset | ApiError]:
            return await self._list_offsets_of(node, {p: wanted[p] for p in partitions}, read_committed)

        return await self._of_leaders(wanted, ask, patient=patient)

    async def _of_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, R | ApiError]]],
        *,
        patient: bool = False,
    ) -> dict[TopicPartition, R | ApiError]:
        """Ask the leader of each partition; leaders that have moved are looked for again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.cluster.config.integer("default.api.timeout.ms") / 1000
        final = frozenset() if patient else _MISSING
        found: dict[TopicPartition, R | ApiError] = {}
        left = list(partitions)
        for wait_s in backoffs(self.cluster.config):
            placed: dict[int, list[TopicPartition]] = {}
            for partition in left:
                try:
                    placed.setdefault(await self.cluster.leader(partition), []).append(partition)
                except ApiError as e:
                    found[partition] = e
            for node, group in placed.items():
                found |= await ask(node, group)
            left = [p for p in left if _may_mend(found.get(p), final)]
            if not left or loop.time() + wait_s > deadline:
                break
            for topic in {p.topic for p in left}:
                self.cluster.forget_topic(topic)
            await asyncio.sleep(wait_s)
        return found

    async def _list_offsets_of(
        self, node: int, wanted: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, ListedOffset | ApiError]:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=p.partition, timestamp=wanted[p])
                        for p in wanted
                        if p.topic == topic
                    ],
                )
                for topic in sorted({p.topic for p in wanted})
            ],
            timeout_ms=self.timeout_ms,
        )
        channel = await self.cluster.channel(node)
        version = channel.versions(request)
        for timestamp in wanted.values():
            if timestamp in _SPEC_VERSION and version < _SPEC_VERSION[OffsetSpec(timestamp)]:
                raise ApiError(
                    ErrorCode.UNSUPPORTED_VERSION, f"node {node} is too old for {OffsetSpec(timestamp).name}"
                )
        response: ListOffsetsResponse = await self.cluster.call_node(node, request, version=version)
        return {
            TopicPartition(t.name, p.partition_index): refusal(p.error_code)
            or ListedOffset(p.offset, p.timestamp, p.leader_epoch)
            for t in response.topics
            for p in t.partitions
        }

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ApiError]:
        """Delete the records before an offset (-1: the high watermark); give each new log start offset."""

        async def ask(node: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int | ApiError]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=p.partition, offset=before[p])
                            for p in partitions
                            if p.topic == topic
                        ],
                    )
                    for topic in sorted({p.topic for p in partitions})
                ],
                timeout_ms=self.timeout_ms,
            )
            response: DeleteRecordsResponse = await self.cluster.call_node(node, request)
            return {
                TopicPartition(t.name, p.partition_index): refusal(p.error_code) or p.low_watermark
                for t in response.topics
                for p in t.partitions
            }

        return await self._of_leaders(before, ask)


def _may_mend(found: object, final: frozenset[ErrorCode]) -> bool:
    return isinstance(found, ApiError) and found.code.retriable and found.code not in final


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=p, broker_ids=list(brokers))
            for p, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
    )
