"""`barnabas quorum describe`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from barnabas.cli.connection import (
    Bootstrap,
    BootstrapController,
    CommandConfig,
    Connection,
    exactly_one,
    run_admin,
)
from barnabas.cli.tables import Output, OutputFormat, show, show_json
from barnabas.client.admin.quorum import Quorum
from barnabas.wire.messages.describe_quorum import ReplicaState


def describe(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    status: Annotated[bool, typer.Option("--status", help="Leader, epoch, voters in short.")] = False,
    replication: Annotated[bool, typer.Option("--replication", help="Each replica, and how far it lags.")] = False,
    human_readable: Annotated[bool, typer.Option("--human-readable", help="Times as they were, not as ms.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the state of the metadata quorum.

    Examples:

      barnabas quorum describe --bootstrap-server localhost:9092 --status

      barnabas quorum --command-config client.properties describe --replication --human-readable
    """
    action = exactly_one({"--status": status, "--replication": replication})
    config = Connection(bootstrap_server, bootstrap_controller, command_config).config(ctx)

    async def work(admin: Any) -> tuple[str, Quorum]:
        return (await admin.describe_cluster()).cluster_id, await admin.describe_quorum()

    cluster_id, quorum = run_admin(config, work, needs="Describe on the cluster")
    if action == "--replication":
        show(_replication(quorum, human_readable), output)
        return
    facts = _status(cluster_id, quorum)
    if output is OutputFormat.JSON:
        show_json(facts)
    else:
        show([{"what": k.replace("_", " "), "is": v} for k, v in facts.items()], output)


def _status(cluster_id: str, quorum: Quorum) -> dict[str, Any]:
    partition = quorum.partition
    voters = partition.current_voters
    followers = [v for v in voters if v.replica_id != partition.leader_id]
    leader = next((v for v in voters if v.replica_id == partition.leader_id), None)
    lag = max((_lag(v, leader) for v in followers), default=0)
    now = int(time.time() * 1000)
    caught_up = [v.last_caught_up_timestamp for v in followers]
    return {
        "cluster_id": cluster_id,
        "leader_id": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_time_ms": max((now - t for t in caught_up), default=0) if -1 not in caught_up else -1,
        "current_voters": [_voter(quorum, v) for v in voters],
        "current_observers": [
            {"id": o.replica_id, "directory_id": str(o.replica_directory_id)} for o in partition.observers
        ],
    }


def _voter(quorum: Quorum, voter: ReplicaState) -> dict[str, Any]:
    node = next((n for n in quorum.nodes if n.node_id == voter.replica_id), None)
    return {
        "id": voter.replica_id,
        "directory_id": str(voter.replica_directory_id),
        "endpoints": [f"{e.name}://{e.host}:{e.port}" for e in (node.listeners if node else ())],
    }


def _replication(quorum: Quorum, human_readable: bool) -> list[dict[str, Any]]:
    partition = quorum.partition
    leader = next((v for v in partition.current_voters if v.replica_id == partition.leader_id), None)
    groups: Sequence[tuple[str, Sequence[ReplicaState]]] = (
        ("Leader", [leader] if leader else []),
        ("Follower", [v for v in partition.current_voters if v is not leader]),
        ("Observer", partition.observers),
    )
    return [
        {
            "node_id": r.replica_id,
            "directory_id": str(r.replica_directory_id),
            "log_end_offset": r.log_end_offset,
            "lag": _lag(r, leader),
            "last_fetch_timestamp": _time(r.last_fetch_timestamp, human_readable),
            "last_caught_up_timestamp": _time(r.last_caught_up_timestamp, human_readable),
            "status": status,
        }
        for status, replicas in groups
        for r in replicas
    ]


def _lag(replica: ReplicaState, leader: ReplicaState | None) -> int:
    return 0 if leader is None else leader.log_end_offset - replica.log_end_offset


def _time(timestamp: int, human_readable: bool) -> int | str:
    if not human_readable or timestamp < 0:
        return timestamp
    return f"{int(time.time() * 1000) - timestamp} ms ago"
