"""The parts that the quorum's messages share: the one partition they are about, and the leader that answers name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voters import Endpoint, Endpoints, endpoint_on

TOPIC: Final = "__cluster_metadata"
PARTITION: Final = 0


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


P = TypeVar("P", bound=_Partition, covariant=True)


class _Topic(Protocol[P]):
    @property
    def topic_name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P]: ...


class _Endpoint(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class _Listener(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def the_partition(topics: Sequence[_Topic[P]]) -> P | None:
    """Give the one partition, when it is the metadata log's; None for anything else."""
    if len(topics) != 1 or topics[0].topic_name != TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == PARTITION else None


def has_valid_cluster(replica: Replica, cluster_id: str | None) -> bool:
    """Say whether a request is for this cluster; one that names none is."""
    return cluster_id is None or cluster_id == replica.cluster_id


def leader_id(replica: Replica) -> int:
    """Give who leads, as answers say it: -1 for nobody known."""
    leader = replica.role.leader_id
    return -1 if leader is None else leader


def leader_endpoint(replica: Replica, incoming: Incoming) -> Endpoint | None:
    """Give where the leader is reached, on the listener that the request came in on."""
    return None if replica.role.leader_id is None else endpoint_on(replica.role.leader_endpoints, incoming.listener)


def named_endpoints(listeners: Iterable[_Listener]) -> Endpoints:
    """Give the endpoints that a request lists by listener."""
    return tuple((found.name.upper(), Endpoint(found.host, found.port)) for found in listeners)


def answered_endpoints(replica: Replica, leader: int, nodes: Iterable[_Endpoint]) -> Endpoints:
    """Give where an answer says the leader is reached; where it says nothing, what the voters say."""
    for node in nodes:
        if node.node_id == leader:
            return ((replica.settings.listener, Endpoint(node.host, node.port)),)
    return replica.voters.endpoints_of(leader)
