"""What tools ask of the controller by a znode: reassignments and preferred leaders, as before there were requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.core.zookeeper.znodes.znode import Fields, Znode, ZnodeError, json_of
from barnabas.model.topic_partition import TopicPartition

REASSIGNMENTS: Final = "/admin/reassign_partitions"
"""There until all that it asks for is done, with what is left of it."""
ELECTIONS: Final = "/admin/preferred_replica_election"
"""There until the elections were tried."""
_VERSION: Final = 1

Reassignments = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas that partitions are to have."""


def reassignments(asked: Reassignments) -> bytes:
    """Give what is still to be done, as it stands in the znode."""
    rows = [{"topic": p.topic, "partition": p.partition, "replicas": list(to)} for p, to in asked.items()]
    return json_of({"version": _VERSION, "partitions": rows})


def asked_reassignments(znode: Znode) -> dict[TopicPartition, tuple[int, ...]]:
    """Give the replicas that partitions are to have; ZnodeError for what no tool writes."""
    fields = Fields(znode)
    return {partition: fields.listed(row.get("replicas"), "replicas") for partition, row in _partitions(znode, fields)}


def asked_elections(znode: Znode) -> list[TopicPartition]:
    """Give the partitions whose preferred replica is to lead; ZnodeError for what no tool writes."""
    return [partition for partition, _ in _partitions(znode, Fields(znode))]


def _partitions(znode: Znode, fields: Fields) -> Iterator[tuple[TopicPartition, dict[str, Any]]]:
    for row in fields.objects("partitions"):
        topic, partition = row.get("topic"), row.get("partition")
        if not isinstance(topic, str) or type(partition) is not int:
            raise ZnodeError(znode.path, "names what is not a partition")
        yield TopicPartition(topic, partition), row
