"""Which replica a consumer reads from (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple


class ReplicaView(NamedTuple):
    """A replica that holds what the consumer wants. behind_ms: for how long it has not been caught up; leader: 0."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_ms: int


ReplicaSelector = Callable[[str, ReplicaView, Iterable[ReplicaView]], int]
"""Gives the broker to read from: (client's rack, the leader, followers in sync) -> id."""


def leader_selector(rack: str, leader: ReplicaView, followers: Iterable[ReplicaView]) -> int:
    """Choose the leader, always."""
    return leader.broker_id


def rack_aware_selector(rack: str, leader: ReplicaView, followers: Iterable[ReplicaView]) -> int:
    """Choose a replica in the client's rack, the leader before others, then the one that is ahead of them."""
    if not rack or leader.rack == rack:
        return leader.broker_id
    near = [f for f in followers if f.rack == rack]
    if not near:
        return leader.broker_id
    # Within a rack the most caught up wins: the longer its log, then the less it lags.
    return max(near, key=lambda f: (f.log_end_offset, -f.behind_ms, f.broker_id)).broker_id


SELECTORS: Final[Mapping[str, ReplicaSelector]] = {
    "org.apache.kafka.common.replica.LeaderSelector": leader_selector,
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": rack_aware_selector,
}
"""By the class names that `replica.selector.class` takes."""
