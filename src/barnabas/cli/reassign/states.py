"""How far a plan is: the state of each partition's move and of each replica's move between directories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.cli.reassign.documents import Plan
from barnabas.client.admin import Admin
from barnabas.client.admin.reassignments import Replica, ReplicaLogDir
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_partition_reassignments import OngoingPartitionReassignment


class Progress(NamedTuple):
    """How far a plan is. rows: for people; anything_moves: of this plan or of others, where throttles still count."""

    rows: list[dict[str, Any]]
    moving: int
    failed: int
    anything_moves: bool


async def progress_of(admin: Admin, plan: Plan) -> Progress:
    """Give how far a plan is."""
    ongoing = await admin.list_partition_reassignments()
    current = await _current(admin, {p.topic for p in plan.replicas})
    rows = [_partition_row(p, ongoing, current, list(target)) for p, target in sorted(plan.replicas.items())]
    live = {node.id for node in await admin.nodes()} if plan.log_dirs else set()
    where = await admin.describe_replica_log_dirs(r for r in plan.log_dirs if r.broker in live)
    rows += [_replica_row(r, where.get(r), path) for r, path in sorted(plan.log_dirs.items())]
    moving = sum(row["state"] == "moving" for row in rows)
    return Progress(rows, moving, sum(row["state"] == "failed" for row in rows), bool(ongoing) or moving > 0)


async def _current(admin: Admin, topics: set[str]) -> Mapping[TopicPartition, list[int]]:
    described = await admin.describe_topics(topics)
    return {
        TopicPartition(topic.name or "", p.partition_index): list(p.replica_nodes)
        for topic in described
        if topic.error_code == ErrorCode.NONE
        for p in topic.partitions
    }


def _partition_row(
    partition: TopicPartition,
    ongoing: Mapping[TopicPartition, OngoingPartitionReassignment],
    current: Mapping[TopicPartition, list[int]],
    target: list[int],
) -> dict[str, Any]:
    now = current.get(partition, [])
    if partition in ongoing:
        state, remark = "moving", ""
    elif now == target:
        state, remark = "complete", ""
    else:
        state, remark = "failed", "nothing moves, and it is elsewhere" if now else "there is no such partition"
    return {"what": str(partition), "state": state, "now": now, "target": target, "remark": remark}


def _replica_row(replica: Replica, where: ReplicaLogDir | None, target: str) -> dict[str, Any]:
    now, future = where or ReplicaLogDir(None, None)
    state, remark = "failed", ""
    if now is None:
        remark = "no log directory in service holds it" if where else f"broker {replica.broker} is down"
    elif future is not None:
        state, remark = "moving", "" if future == target else f"to {future} instead"
    elif now == target:
        state = "complete"
    else:
        remark = "nothing moves, and it is elsewhere"
    return {"what": f"replica {replica}", "state": state, "now": now, "target": target, "remark": remark}
