"""Who votes in a quorum: replica keys, endpoints, voter sets, and their text and record forms (KIP-853)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.records.voters_record import Endpoint as EndpointRecord
from barnabas.wire.records.voters_record import KRaftVersionFeature, VotersRecord
from barnabas.wire.records.voters_record import Voter as VoterRecord


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node and one directory of it; ZERO_UUID when the directory is not known."""

    node_id: int
    directory_id: Uuid = ZERO_UUID


class Endpoint(NamedTuple):
    """Where a listener of a controller is reached."""

    host: str
    port: int


Endpoints = tuple[tuple[str, Endpoint], ...]
"""Endpoints of one replica, by listener name in upper case."""


def endpoint_on(endpoints: Endpoints, listener: str) -> Endpoint | None:
    """Give where the listener of that name is reached, None when it is not there."""
    wanted = listener.upper()
    return next((endpoint for name, endpoint in endpoints if name == wanted), None)


SUPPORTED_KRAFT_VERSIONS: Final = (0, 1)
"""The lowest and the highest kraft.version that this code runs."""


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter. endpoints: by listener name in upper case; versions: the kraft.versions it runs, (low, high)."""

    key: ReplicaKey
    endpoints: Endpoints
    versions: tuple[int, int] = SUPPORTED_KRAFT_VERSIONS

    @property
    def node_id(self) -> int:
        """Its node id."""
        return self.key.node_id

    def is_replica(self, key: ReplicaKey) -> bool:
        """Say whether `key` is this voter; a voter without a directory id is told by its node id alone."""
        if self.key.node_id != key.node_id:
            return False
        return self.key.directory_id in (ZERO_UUID, key.directory_id)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of a quorum, ordered by node id."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        """Give the set of these; ValueError when a node id stands twice."""
        ordered = tuple(sorted(voters, key=lambda v: v.node_id))
        for one, other in pairwise(ordered):
            if one.node_id == other.node_id:
                raise ValueError(f"node {one.node_id} stands among the voters more than once")
        return cls(ordered)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    def get(self, node_id: int) -> Voter | None:
        """Give the voter of that node, or None."""
        return next((v for v in self.voters if v.node_id == node_id), None)

    def has(self, key: ReplicaKey) -> bool:
        """Say whether this replica votes."""
        return any(v.is_replica(key) for v in self.voters)

    def is_only(self, key: ReplicaKey) -> bool:
        """Say whether this replica is the only voter there is."""
        return len(self.voters) == 1 and self.voters[0].is_replica(key)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Give the set in which `voter` stands instead of what its node was."""
        return VoterSet.of([*(v for v in self.voters if v.node_id != voter.node_id), voter])

    def without(self, key: ReplicaKey) -> VoterSet | None:
        """Give the set without exactly this replica; None when it does not vote, or nobody would be left."""
        voter = self.get(key.node_id)
        if voter is None or voter.key != key or len(self.voters) == 1:
            return None
        return VoterSet(tuple(v for v in self.voters if v is not voter))

    def endpoints_of(self, node_id: int) -> Endpoints:
        """Give where a voter is reached; none of a node that is no voter."""
        voter = self.get(node_id)
        return () if voter is None else voter.endpoints

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The voters' node ids, ascending."""
        return tuple(v.node_id for v in self.voters)

    def to_record(self) -> VotersRecord:
        """Give the KRaftVoters control record."""
        return VotersRecord(
            version=0,
            voters=[
                VoterRecord(
                    voter_id=v.node_id,
                    voter_directory_id=v.key.directory_id,
                    endpoints=[EndpointRecord(name=n, host=e.host, port=e.port) for n, e in v.endpoints],
                    kraft_version_feature=KRaftVersionFeature(
                        min_supported_version=v.versions[0], max_supported_version=v.versions[1]
                    ),
                )
                for v in self.voters
            ],
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        """Give the set that a KRaftVoters control record holds."""
        return cls.of(
            Voter(
                ReplicaKey(v.voter_id, v.voter_directory_id),
                tuple((e.name, Endpoint(e.host, e.port)) for e in v.endpoints),
                (
                    v.kraft_version_feature.min_supported_version,
                    v.kraft_version_feature.max_supported_version,
                ),
            )
            for v in record.voters
        )


_DYNAMIC: Final = re.compile(r"(?P<id>[^@]*)@(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:\[]+)):(?P<port>\d+):(?P<dir>.+)")


def _dynamic_voter(text: str, listener: str) -> Voter:
    match = _DYNAMIC.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a voter: want id@host:port:directory-id")
    if not match["id"].isdecimal():
        raise ValueError(f"{text!r} is not a voter: {match['id']!r} is not a node id")
    port = int(match["port"])
    if port > 65535:
        raise ValueError(f"{text!r} is not a voter: port {port} is above 65535")
    endpoint = Endpoint(match["v6"] or match["host"], port)
    return Voter(ReplicaKey(int(match["id"]), Uuid.parse(match["dir"])), ((listener.upper(), endpoint),))


def parse_dynamic_voters(text: str, listener: str) -> VoterSet:
    """Give the voters of `id@host:port:directory-id,...`, reached at `listener`; ValueError says what is wrong."""
    voters = [_dynamic_voter(part, listener) for part in text.split(",") if part.strip()]
    if not voters:
        raise ValueError("there are no voters in the list")
    return VoterSet.of(voters)


def static_voters(addresses: Mapping[int, Endpoint], listener: str) -> VoterSet:
    """Give the voters of `controller.quorum.voters`: no directory ids, kraft.version 0 only."""
    return VoterSet.of(
        Voter(ReplicaKey(node_id), ((listener.upper(), endpoint),), (0, 0)) for node_id, endpoint in addresses.items()
    )


def parse_static_voters(items: Iterable[str], listener: str) -> VoterSet:
    """Give the voters of `id@host:port` items; ValueError says which one is wrong."""
    addresses: dict[int, Endpoint] = {}
    for item in items:
        node_id, at, address = item.partition("@")
        host, colon, port = address.rpartition(":")
        if not (at and colon and node_id.isdecimal() and port.isdecimal() and host):
            raise ValueError(f"{item!r} is not a voter: want id@host:port")
        if int(node_id) in addresses:
            raise ValueError(f"node {node_id} stands among the voters more than once")
        addresses[int(node_id)] = Endpoint(host.strip("[]"), int(port))
    return static_voters(addresses, listener)
