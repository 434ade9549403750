"""What a node shows of its replica of the metadata log, under Kafka's names (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.core.raft.candidate import Candidate
from barnabas.core.raft.follower import Follower
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.prospective import Prospective
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.voters import ReplicaKey
from barnabas.model.metrics import Metrics, Number, mbean
from barnabas.server.raft.driver import RaftDriver

_NOBODY = ReplicaKey(-1)


def publish_raft_metrics(registry: Metrics, driver: RaftDriver) -> None:
    """Publish `raft-metrics` and those of snapshots."""
    name = mbean("kafka.server", type="raft-metrics")
    node, measures = driver.node, driver.measures
    read: dict[str, Callable[[], Number | str]] = {
        "current-state": lambda: current_state(node),
        "current-leader": lambda: -1 if driver.leader.node_id is None else driver.leader.node_id,
        "current-vote": lambda: _voted(driver).node_id,
        "current-vote-directory-id": lambda: str(_voted(driver).directory_id),
        "current-epoch": lambda: node.epoch,
        "high-watermark": lambda: -1 if node.high_watermark is None else node.high_watermark,
        "log-end-offset": lambda: driver.files.end.offset,
        "log-end-epoch": lambda: driver.files.end.epoch,
        "number-unknown-voter-connections": lambda: 0,
        "number-of-voters": lambda: len(node.control.voters.last.value),
        "number-of-observers": lambda: len(node.role.observers) if isinstance(node.role, Leader) else 0,
        "uncommitted-voter-change": lambda: _is_uncommitted(node),
        "commit-latency-avg": lambda: measures.commit_latency.mean,
        "commit-latency-max": lambda: measures.commit_latency.top,
        "election-latency-avg": lambda: measures.election_latency.mean,
        "election-latency-max": lambda: measures.election_latency.top,
        "fetch-records-rate": lambda: measures.fetched_records.rate,
        "append-records-rate": lambda: measures.appended_records.rate,
        "poll-idle-ratio-avg": measures.idle_ratio,
    }
    for attribute, gauge in read.items():
        registry.gauge(name, gauge, attribute)
    snapshots = driver.snapshots
    registry.gauge(
        mbean("kafka.server", type="SnapshotEmitter", name="LatestSnapshotGeneratedBytes"),
        lambda: snapshots.newest_bytes,
    )
    registry.gauge(
        mbean("kafka.server", type="SnapshotEmitter", name="LatestSnapshotGeneratedAgeMs"), snapshots.newest_age_ms
    )


def current_state(node: RaftNode) -> str:
    """Give the word that Kafka has for what a replica is."""
    role = node.role
    if isinstance(role, Leader):
        return "leader"
    if isinstance(role, Prospective):
        return "prospective" if role.voted is None else "prospective-voted"
    if isinstance(role, Candidate):
        return "candidate"
    if isinstance(role, Unattached) and role.voted is not None:
        return "unattached-voted"
    if isinstance(role, Follower):
        return "follower" if node.is_voter else "observer"
    return "unattached"


def _voted(driver: RaftDriver) -> ReplicaKey:
    role = driver.node.role
    return driver.me.key if isinstance(role, Leader) else role.election().voted or _NOBODY


def _is_uncommitted(node: RaftNode) -> int:
    changed_at = node.control.voters.last.offset
    return int(isinstance(node.role, Leader) and changed_at >= (node.high_watermark or 0))
