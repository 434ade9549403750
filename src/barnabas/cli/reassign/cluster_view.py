"""What a reassignment must know of a cluster first: where partitions are now, and which brokers there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.cli.errors import CliError
from barnabas.cli.reassign.documents import Plan
from barnabas.client.admin import Admin
from barnabas.client.admin.reassignments import Replica
from barnabas.client.cluster import topic_error
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode


async def assignment_of(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """Give the replicas of every partition of these topics; ApiError when one is not there."""
    found = {}
    for topic in await admin.describe_topics(topics):
        if topic.error_code != ErrorCode.NONE:
            raise topic_error(topic.error_code, topic.name or "")
        for p in topic.partitions:
            found[TopicPartition(topic.name or "", p.partition_index)] = list(p.replica_nodes)
    return found


async def with_log_dirs(admin: Admin, replicas: Mapping[TopicPartition, list[int]]) -> Plan:
    """Give the assignment with the directories in which it lies; brokers that are down say nothing."""
    live = {node.id for node in await admin.nodes()}
    wanted = {Replica(*p, broker) for p, brokers in replicas.items() for broker in brokers if broker in live}
    found = await admin.describe_replica_log_dirs(wanted)
    return Plan(replicas, {replica: where.current for replica, where in found.items() if where.current is not None})


async def check_brokers(admin: Admin, brokers: Iterable[int]) -> None:
    """Refuse brokers that are not there."""
    live = {node.id for node in await admin.nodes()}
    missing = sorted(set(brokers) - live)
    if missing:
        raise CliError(f"There is no live broker {missing[0]}; there are {', '.join(map(str, sorted(live)))}.")
