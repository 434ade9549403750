"""Which partitions a broker, a directory or a lack concerns: kept with every change, so that nobody has to look at all.

Persistent like the images: an index is a frozen value, and the next one shares nearly all with it. Cost follows what
differs between a partition before and after, not the number of partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
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
_ALL: Final = (None,)
"""The one key of a set that has no keys."""
_Change = tuple[PartitionRegistration | None, PartitionRegistration | None]


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

    def with_changes(self, changes: Mapping[PlaceId, _Change]) -> PartitionIndex:
        """Give the index after many partitions have changed, each from its first state here to its last."""
        led_by, in_sync, eligible, in_directory = _Moves(), _Moves(), _Moves(), _Moves()
        imbalanced, reassigning = _Moves(), _Moves()
        count = self.count
        for place, (before, after) in changes.items():
            old, new = _entry(before), _entry(after)
            led_by.note(place, old.leader, new.leader)
            in_sync.note(place, old.isr, new.isr)
            eligible.note(place, old.elr, new.elr)
            in_directory.note(place, _real(old.directories), _real(new.directories))
            imbalanced.note(place, _ALL if old.imbalanced else (), _ALL if new.imbalanced else ())
            reassigning.note(place, _ALL if old.reassigning else (), _ALL if new.reassigning else ())
            count += (before is None) - (after is None)
        return PartitionIndex(
            led_by=led_by.applied(self.led_by),
            in_sync_on=in_sync.applied(self.in_sync_on),
            eligible_on=eligible.applied(self.eligible_on),
            in_directory=in_directory.applied(self.in_directory),
            imbalanced=imbalanced.applied_to_one(self.imbalanced),
            reassigning=reassigning.applied_to_one(self.reassigning),
            count=count,
        )

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


class _Moves:
    """Which places come under a key and which leave it, noted first and applied in one go for each key."""

    __slots__ = ("_moves",)

    def __init__(self) -> None:
        self._moves: dict[Any, dict[PlaceId, bool]] = {}

    def note(self, place: PlaceId, old: Collection[Hashable], new: Collection[Hashable]) -> None:
        if old == new:
            return
        for key in old:
            if key not in new:
                self._moves.setdefault(key, {})[place] = False
        for key in new:
            if key not in old:
                self._moves.setdefault(key, {})[place] = True

    def applied(self, places: Map[Any, _Places]) -> Map[Any, _Places]:
        if not self._moves:
            return places
        after = places.mutate()
        for key, moves in self._moves.items():
            found = _applied(places.get(key, _NOWHERE), moves)
            if found:
                after[key] = found
            else:
                after.pop(key, None)
        return after.finish()

    def applied_to_one(self, places: _Places) -> _Places:
        return _applied(places, self._moves[None]) if self._moves else places


def _applied(places: _Places, moves: Mapping[PlaceId, bool]) -> _Places:
    after = places.mutate()
    for place, comes in moves.items():
        if comes:
            after[place] = None
        else:
            after.pop(place, None)
    return after.finish()


def _flagged(places: _Places, place: PlaceId, was: bool, is_now: bool) -> _Places:
    if was == is_now:
        return places
    return places.set(place, None) if is_now else places.delete(place)
