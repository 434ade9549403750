"""Topics: one znode with the replicas of all partitions, and one below it for the state of each.

The number of times that a state was set is the partition's epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.core.metadata.directories import MIGRATING
from barnabas.core.metadata.partition import NO_LEADER, RECOVERED, PartitionRegistration
from barnabas.core.metadata.topics import TopicImage
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes.znode import Fields, Znode, ZnodeError, json_of
from barnabas.model.uuid import Uuid
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.topic_record import TopicRecord

TOPICS: Final = "/brokers/topics"
DELETIONS: Final = "/admin/delete_topics"
_VERSION: Final = 3
_STATE_VERSION: Final = 1


def topic_path(name: str) -> str:
    """Give where a topic's replicas stand."""
    return f"{TOPICS}/{name}"


def deletion_path(name: str) -> str:
    """Give where it stands that a topic is to go."""
    return f"{DELETIONS}/{name}"


def partitions_path(name: str) -> str:
    """Give below what the states of a topic's partitions lie."""
    return f"{topic_path(name)}/partitions"


def state_path(name: str, partition: int) -> str:
    """Give where the state of a partition stands."""
    return f"{partitions_path(name)}/{partition}/state"


def states_below(znode: Znode) -> list[str]:
    """Give where the states of a topic's partitions stand, those included that have none yet."""
    return [f"{znode.path}/partitions/{number}/state" for number in Fields(znode).mapping("partitions")]


def assignment(topic: TopicImage) -> bytes:
    """Give what the topic's znode holds."""
    partitions = sorted(topic.partitions.items())
    return json_of(
        {
            "removing_replicas": {str(n): list(p.removing_replicas) for n, p in partitions if p.removing_replicas},
            "partitions": {str(n): list(p.replicas) for n, p in partitions},
            "topic_id": str(topic.id),
            "adding_replicas": {str(n): list(p.adding_replicas) for n, p in partitions if p.adding_replicas},
            "version": _VERSION,
        }
    )


def state(partition: PartitionRegistration, controller_epoch: int) -> bytes:
    """Give what a partition's state holds; the controller's epoch is of whoever decided on it."""
    found: dict[str, Any] = {
        "controller_epoch": controller_epoch,
        "leader": partition.leader,
        "version": _STATE_VERSION,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
    }
    if partition.leader_recovery_state != RECOVERED:
        found["leader_recovery_state"] = partition.leader_recovery_state
    return json_of(found)


def topic_id(znode: Znode) -> Uuid | None:
    """Give the id of a topic; None when it was made before topics had ids, and has got none yet."""
    found = Fields(znode).all.get("topic_id")
    if found is None:
        return None
    try:
        return Uuid.parse(found)
    except (ValueError, TypeError):
        raise ZnodeError(znode.path, f"{found!r} is not a topic id") from None


def records(znode: Znode, given: Uuid, states: Mapping[int, Znode]) -> Iterator[VersionedRecord]:
    """Give the records that make a topic and its partitions; ZnodeError for what Kafka does not write.

    given: the topic's id. states: of the partitions that have one; one without was never led and has no ISR.
    """
    fields = Fields(znode)
    fields.version(_VERSION)
    adding, removing = fields.mapping("adding_replicas"), fields.mapping("removing_replicas")
    yield VersionedRecord(TopicRecord(name=znode.name, topic_id=given), 0)
    for number, replicas in sorted(fields.mapping("partitions").items(), key=lambda item: _number(znode, item[0])):
        record = PartitionRecord(
            partition_id=int(number),
            topic_id=given,
            replicas=list(fields.listed(replicas, "partitions")),
            adding_replicas=list(fields.listed(adding.get(number, []), "adding_replicas")),
            removing_replicas=list(fields.listed(removing.get(number, []), "removing_replicas")),
            directories=[MIGRATING] * len(replicas),
        )
        state = states.get(int(number))
        if state is None:
            record.leader = NO_LEADER  # and both epochs stay -1: the first state is to be that of 0
        yield VersionedRecord(record if state is None else with_state(record, state), 1)


def _number(znode: Znode, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ZnodeError(znode.path, f"{text!r} is not the number of a partition")
    return int(text)


def with_state(record: PartitionRecord, found: Znode) -> PartitionRecord:
    """Have a partition's record say what the znode of its state does; give the record."""
    fields = Fields(found)
    record.isr = list(fields.wholes("isr"))
    record.leader, record.leader_epoch = fields.whole("leader"), fields.whole("leader_epoch")
    recovery = "leader_recovery_state"
    record.leader_recovery_state = fields.whole(recovery) if recovery in fields.all else RECOVERED
    record.partition_epoch = found.version
    return record
