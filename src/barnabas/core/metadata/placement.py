"""Where the replicas of new partitions go: striped over racks and brokers, so that load and failures spread.

The leaders of successive partitions go round the brokers; the replicas of one partition go to different racks as far
as there are racks; fenced brokers never lead a new partition, but may hold one of its further replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from barnabas.core.metadata.cluster import BrokerRegistration, ClusterImage
from barnabas.core.metadata.directories import MIGRATING, UNASSIGNED
from barnabas.core.metadata.levels import Levels
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode

RandomBelow = Callable[[int], int]
"""Gives a random number from 0 to one below its argument; lent by the shell."""
T = TypeVar("T")


class UsableBroker(NamedTuple):
    """A broker that may get replicas."""

    id: int
    rack: str | None
    fenced: bool


def usable_brokers(cluster: ClusterImage) -> list[UsableBroker]:
    """Give those that are not shutting down and have a log directory open for new replicas."""
    return [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for _, broker in sorted(cluster.brokers.items())
        if broker.takes_replicas and not _leaving(broker)
    ]


def _leaving(broker: BrokerRegistration) -> bool:
    return broker.in_controlled_shutdown and not broker.fenced


def default_directory(cluster: ClusterImage, levels: Levels, broker: int) -> Uuid:
    """Give the directory id for a new replica: the broker's only directory, or a reserved id."""
    if not levels.directories:
        return MIGRATING
    registration = cluster.brokers.get(broker)
    if registration is None:
        return UNASSIGNED
    if not registration.directories:
        return MIGRATING
    return registration.directories[0] if len(registration.directories) == 1 else UNASSIGNED


def _shuffle(items: list[T], random_below: RandomBelow) -> None:
    for i in range(len(items) - 1, 0, -1):
        j = random_below(i + 1)
        items[i], items[j] = items[j], items[i]


class _Ring:
    """Brokers taken in turn: each only once for a partition, the start moving on by one with each partition."""

    __slots__ = ("_brokers", "_offset", "_round", "_taken")

    def __init__(self, brokers: Iterable[int], random_below: RandomBelow) -> None:
        self._brokers = sorted(brokers)
        self._offset = random_below(len(self._brokers)) if self._brokers else 0
        self._round = 0
        self._taken = 0

    def next(self, round_: int) -> int | None:
        count = len(self._brokers)
        if not count:
            return None
        if self._round != round_:
            self._round, self._taken = round_, 0
            self._offset = (self._offset + 1) % count
        if self._taken >= count:
            return None
        broker = self._brokers[(self._taken + self._offset) % count]
        self._taken += 1
        return broker

    def shuffle(self, random_below: RandomBelow) -> None:
        _shuffle(self._brokers, random_below)


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: list[UsableBroker], random_below: RandomBelow) -> None:
        self.unfenced = _Ring((b.id for b in brokers if not b.fenced), random_below)
        self.fenced = _Ring((b.id for b in brokers if b.fenced), random_below)

    def next(self, round_: int) -> int | None:
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker is None else broker


class _Racks:
    __slots__ = ("_offset", "_racks", "_random_below", "_round", "_unfenced")

    def __init__(self, brokers: list[UsableBroker], random_below: RandomBelow) -> None:
        by_rack: dict[str, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault("" if broker.rack is None else f"rack {broker.rack}", []).append(broker)
        self._racks = [_Rack(by_rack[name], random_below) for name in sorted(by_rack)]
        self._random_below = random_below
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._round = 0
        self._offset = random_below(len(self._racks))

    def place(self, count: int) -> tuple[int, ...]:
        if self._round == self._unfenced and self._unfenced > 1:
            # Every broker has led once: mix, so that the same sets of replicas do not come again.
            _shuffle(self._racks, self._random_below)
            for rack in self._racks:
                rack.unfenced.shuffle(self._random_below)
                rack.fenced.shuffle(self._random_below)
            self._round = 0
        self._offset %= len(self._racks)
        leader_rack, leader = self._leader()
        replicas = [leader, *self._followers(count - 1, leader_rack)]
        self._round += 1
        self._offset += 1
        return tuple(replicas)

    def _leader(self) -> tuple[int, int]:
        index = self._offset
        while True:
            broker = self._racks[index].unfenced.next(self._round)
            if broker is not None:
                return index, broker
            index = (index + 1) % len(self._racks)

    def _followers(self, count: int, leader_rack: int) -> list[int]:
        followers: list[int] = []
        index = self._offset
        passed_leader = False
        while len(followers) < count:
            if index == leader_rack and not passed_leader:
                passed_leader = True  # the leader's rack sits out the first time round
            else:
                broker = self._racks[index].next(self._round)
                if broker is not None:
                    followers.append(broker)
            index = (index + 1) % len(self._racks)
        return followers


def place(
    brokers: list[UsableBroker], partitions: int, replication_factor: int, random_below: RandomBelow
) -> list[tuple[int, ...]]:
    """Give the replicas of each new partition, the leader first; ApiError INVALID_REPLICATION_FACTOR if impossible."""
    if all(broker.fenced for broker in brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "no broker can lead a new partition: all are fenced, shutting down, or have every log directory cordoned; "
            "wait until one is back",
        )
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} is not possible with {len(brokers)} usable broker(s): "
            f"ask for at most {len(brokers)}, or add brokers",
        )
    racks = _Racks(brokers, random_below)
    return [racks.place(replication_factor) for _ in range(partitions)]
