"""What the members of a group ask for, counted, so that no request walks over all members (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from immutables import Map

from barnabas.core.groups.consumer.member import ConsumerMember

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Asked:
    """names, regexes, assignors: how many members ask for each.

    classic_protocols: how many of the members that speak the classic protocol can do each of its assignors;
    classic_members: how many these are.
    """

    names: Map[str, int] = field(default_factory=Map)
    regexes: Map[str, int] = field(default_factory=Map)
    assignors: Map[str, int] = field(default_factory=Map)
    classic_protocols: Map[str, int] = field(default_factory=Map)
    classic_members: int = 0

    def after(self, old: ConsumerMember | None, new: ConsumerMember | None) -> Asked:
        """Give the counts when a member says something else than before; None: it was not there, or is not now."""
        if old is not None and new is not None and _said(old) == _said(new):
            return self
        return Asked(
            _recounted(self.names, old.names if old else (), new.names if new else ()),
            _recounted(self.regexes, _one(old.regex if old else None), _one(new.regex if new else None)),
            _recounted(
                self.assignors, _one(old.server_assignor if old else None), _one(new.server_assignor if new else None)
            ),
            _recounted(self.classic_protocols, _classic_names(old), _classic_names(new)),
            self.classic_members + (new is not None and new.uses_classic) - (old is not None and old.uses_classic),
        )


def _said(member: ConsumerMember) -> tuple[object, ...]:
    return member.names, member.regex, member.server_assignor, member.classic


def _classic_names(member: ConsumerMember | None) -> Iterable[str]:
    return () if member is None or member.classic is None else (name for name, _ in member.classic.protocols)


def _one(value: str | None) -> tuple[str, ...]:
    return (value,) if value else ()


def _recounted(counts: Map[K, int], gone: Iterable[K], come: Iterable[K]) -> Map[K, int]:
    gone, come = set(gone), set(come)
    for key in gone - come:
        left = counts[key] - 1
        counts = counts.set(key, left) if left else counts.delete(key)
    for key in come - gone:
        counts = counts.set(key, counts.get(key, 0) + 1)
    return counts
