"""Which partitions a broker, a directory or a lack concerns: kept with every change, so that nobody has to look at all.

Persistent like the images: an index is a frozen value, and the next one shares nearly all with it. Cost follows what
differs between a partition before and after, not the number of partitions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from immutables import Map

from barnabas.core.metadata.directories import reserved
from barnabas.core.metadata.partition import NO_LEADER, PartitionRegistration
from barnabas.model.uuid import Uuid

PlaceId = tuple[Uuid, int]
"""A partition by its topic's id and its number."""
_Places = Map[PlaceId, None]
_NOWHERE: Final[_Places] = Map()


class _Entry(NamedTuple):
    """Under which keys one partition is found."""

    leader: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    directories: tuple[Uuid, ...]
    imbalanced: bool
    reassigning: bool


_ABSENT: Final = _Entry((), (), (), (), imbalanced=False, reassigning=False)


def _entry(partition: PartitionRegistration | None) -> _Entry:
    if partition is None:
        return _ABSENT
    return _Entry(
        (partition.leader,),
        partition.isr,
        partition.elr,
        partition.directories,
        partition.leader != partition.preferred_leader,
        partition.reassigning,
    )


@dataclass(frozen=True, slots=True)
class PartitionIndex:
    """See the module. Every set of places is a map to None: `immutables` has no sets. count: all partitions."""

    led_by: Map[int, _Places] = field(default_factory=Map)
    in_sync_on: Map[int, _Places] = field(default_factory=Map)
    eligible_on: Map[int, _Places] = field(default_factory=Map)
    in_directory: Map[Uuid, _Places] = field(default_factory=Map)
    imbalanced: _Places = _NOWHERE
    reassigning: _Places = _NOWHERE
    count: int = 0

    def leads_any(self, broker: int) -> bool:
        """Say whether the broker leads a partition."""
        return broker in self.led_by

    @property
    def offline_count(self) -> int:
        """How many partitions have no leader."""
        return len(self.led_by.get(NO_LEADER, _NOWHERE))

    def leaderless(self) -> Iterator[PlaceId]:
        """Give the partitions without a leader."""
        return iter(self.led_by.get(NO_LEADER, _NOWHERE))

    def with_isr_member(self, broker: int) -> Iterator[PlaceId]:
        """Give the partitions whose ISR the broker is in."""
        return iter(self.in_sync_on.get(broker, _NOWHERE))

    def with_elr_member(self, broker: int) -> Iterator[PlaceId]:
        """Give the partitions whose eligible leader replicas the broker is among."""
        return iter(self.eligible_on.get(broker, _NOWHERE))

    def with_directory(self, directory: Uuid) -> Iterator[PlaceId]:
        """Give the partitions that have a replica in the directory; reserved ids are not kept."""
        return iter(self.in_directory.get(directory, _NOWHERE))

    def changed(
        self, place: PlaceId, before: PartitionRegistration | None, after: PartitionRegistration | None
    ) -> PartitionIndex:
        """Give the index after one partition has come (before is None), changed, or gone (after is None)."""
        old, new = _entry(before), _entry(after)
        if old == new:
            return self
        return PartitionIndex(
            led_by=_moved(self.led_by, place, old.leader, new.leader),
            in_sync_on=_moved(self.in_sync_on, place, old.isr, new.isr),
            eligible_on=_moved(self.eligible_on, place, old.elr, new.elr),
            in_directory=_moved(self.in_directory, place, _real(old.directories), _real(new.directories)),
            imbalanced=_flagged(self.imbalanced, place, old.imbalanced, new.imbalanced),
            reassigning=_flagged(self.reassigning, place, old.reassigning, new.reassigning),
            count=self.count + (before is None) - (after is None),
        )


def _real(directories: tuple[Uuid, ...]) -> list[Uuid]:
    return [directory for directory in directories if not reserved(directory)]


def _moved(
    places: Map[Any, _Places], place: PlaceId, old: Iterable[Hashable], new: Iterable[Hashable]
) -> Map[Any, _Places]:
    if old == new:
        return places
    for key in set(old) - set(new):
        left = places[key].delete(place)
        places = places.set(key, left) if left else places.delete(key)
    for key in set(new) - set(old):
        places = places.set(key, places.get(key, _NOWHERE).set(place, None))
    return places


def _flagged(places: _Places, place: PlaceId, was: bool, is_now: bool) -> _Places:
    if was == is_now:
        return places
    return places.set(place, None) if is_now else places.delete(place)
