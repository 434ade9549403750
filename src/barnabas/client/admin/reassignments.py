"""Admin: where replicas are: reassignments, moves between log directories, leader elections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.client.admin.outcome import ClusterAdmin, check, refusal
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)


class ElectionType(IntEnum):
    """What an election is for; the numbers are the wire's."""

    PREFERRED = 0
    UNCLEAN = 1


class Replica(NamedTuple):
    """One copy of a partition; prints as Kafka prints it, `topic-partition-broker`."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class ReplicaLogDir(NamedTuple):
    """Where a replica lies. future: where it is being moved to on the same broker."""

    current: str | None
    future: str | None


class ReassignmentsAdmin(ClusterAdmin):
    """Operations on replicas."""

    async def list_partition_reassignments(self) -> dict[TopicPartition, OngoingPartitionReassignment]:
        """Give the partitions that are on the move."""
        response: ListPartitionReassignmentsResponse = await self.cluster.call_any(
            ListPartitionReassignmentsRequest(timeout_ms=self.timeout_ms, topics=None)
        )
        check(response.error_code, response.error_message)
        return {TopicPartition(t.name, p.partition_index): p for t in response.topics for p in t.partitions}

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, ApiError | None]:
        """Move partitions to these brokers, or call their move off (None); give how each went.

        Keeping the replication factor needs nodes of Kafka 4.1 or later, else UnsupportedVersionError (KIP-860).
        """
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self.timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(partition_index=n, replicas=None if to is None else list(to))
                        for n, to in numbers.items()
                    ],
                )
                for topic, numbers in _by_topic(targets).items()
            ],
        )
        response: AlterPartitionReassignmentsResponse = await self.cluster.call_any(request)
        check(response.error_code, response.error_message)
        return {
            TopicPartition(t.name, p.partition_index): refusal(p.error_code, p.error_message)
            for t in response.responses
            for p in t.partitions
        }

    async def elect_leaders(
        self, kind: ElectionType, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ApiError | None]:
        """Elect leaders anew, of every partition that can do with it when None; give how each went."""
        named = None
        if partitions is not None:
            by_topic = _by_topic(dict.fromkeys(partitions))
            named = [TopicPartitions(topic=topic, partitions=sorted(numbers)) for topic, numbers in by_topic.items()]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=named, timeout_ms=self.timeout_ms)
        response: ElectLeadersResponse = await self.cluster.call_any(request)
        check(response.error_code)
        return {
            TopicPartition(t.topic, p.partition_id): refusal(p.error_code, p.error_message)
            for t in response.replica_election_results
            for p in t.partition_result
        }

    async def describe_replica_log_dirs(self, replicas: Iterable[Replica]) -> dict[Replica, ReplicaLogDir]:
        """Give where replicas lie; one that its broker does not have has no directory at all."""
        wanted = set(replicas)
        found = dict.fromkeys(wanted, ReplicaLogDir(None, None))
        for broker in sorted({r.broker for r in wanted}):
            by_topic = _by_topic({TopicPartition(r.topic, r.partition): None for r in wanted if r.broker == broker})
            topics = [DescribableLogDirTopic(topic=topic, partitions=sorted(ns)) for topic, ns in by_topic.items()]
            response: DescribeLogDirsResponse = await self.cluster.call_node(
                broker, DescribeLogDirsRequest(topics=topics)
            )
            check(response.error_code)
            for directory in response.results:
                for topic in directory.topics:
                    for p in topic.partitions:
                        replica = Replica(topic.name, p.partition_index, broker)
                        where = found.get(replica, ReplicaLogDir(None, None))
                        change = {"future" if p.is_future_key else "current": directory.log_dir}
                        found[replica] = where._replace(**change)
        return found

    async def alter_replica_log_dirs(self, moves: Mapping[Replica, str]) -> dict[Replica, ApiError | None]:
        """Move replicas to other directories of their brokers; give how each went."""
        results: dict[Replica, ApiError | None] = {}
        for broker in sorted({r.broker for r in moves}):
            here = {TopicPartition(r.topic, r.partition): path for r, path in moves.items() if r.broker == broker}
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=topic, partitions=sorted(numbers))
                            for topic, numbers in _by_topic({p: None for p, to in here.items() if to == path}).items()
                        ],
                    )
                    for path in sorted(set(here.values()))
                ]
            )
            response: AlterReplicaLogDirsResponse = await self.cluster.call_node(broker, request)
            for topic in response.results:
                for p in topic.partitions:
                    results[Replica(topic.topic_name, p.partition_index, broker)] = refusal(p.error_code)
        return results


def _by_topic(partitions: Mapping[TopicPartition, Sequence[int] | None]) -> dict[str, dict[int, Sequence[int] | None]]:
    grouped: dict[str, dict[int, Sequence[int] | None]] = {}
    for partition, value in partitions.items():
        grouped.setdefault(partition.topic, {})[partition.partition] = value
    return grouped
