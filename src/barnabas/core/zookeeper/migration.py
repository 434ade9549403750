"""Securing a cluster's znodes, or opening them: what to change, decided from what is there (KIP-38).

The results are those of ZkSecurityMigrator of Kafka 3.9.1 with two differences. Nothing is made empty that readers
expect to be filled; and where such an empty one was left by somebody, it is removed, so that its owner makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.core.zookeeper.paths import CREATED_ROOTS, FILLED_ROOTS, parent
from barnabas.core.zookeeper.security import ZnodeAcls, acls_for, same
from barnabas.core.zookeeper.values import OPEN_ACLS, Stat, ZnodeId


@dataclass(frozen=True, slots=True)
class Znode:
    """One that was found: its path below the chroot, its ACL, and what else ZooKeeper keeps of it."""

    path: str
    acls: ZnodeAcls
    stat: Stat

    @property
    def is_left_empty(self) -> bool:
        """Say whether it is a top that stops its readers: its maker would have filled it, and it holds nothing."""
        stat = self.stat
        return self.path in FILLED_ROOTS and not (stat.data_bytes or stat.children or stat.ephemeral_owner)


@dataclass(frozen=True, slots=True)
class SetAcls:
    """The ACL of a znode changes."""

    path: str
    before: ZnodeAcls
    after: ZnodeAcls


@dataclass(frozen=True, slots=True)
class Make:
    """A znode without data is made, as brokers would."""

    path: str
    after: ZnodeAcls


@dataclass(frozen=True, slots=True)
class Remove:
    """A znode without data or children is removed, if its data still has this version."""

    path: str
    before: ZnodeAcls
    version: int


Change = SetAcls | Make | Remove


@dataclass(frozen=True, slots=True)
class Target:
    """What is wanted. owners: who gets all rights when secured: who we are, and those who are granted the same."""

    secure: bool
    owners: tuple[ZnodeId, ...] = ()

    def acls(self, path: str) -> ZnodeAcls:
        """Give the wanted ACL of a path."""
        return acls_for(path, secure=self.secure, owners=self.owners)


def plan(found: Iterable[Znode], target: Target) -> list[Change]:
    """Give the changes that lead from what is there to what is wanted; none where it is so already.

    found: `/` and all at or below the tops that are covered.
    """
    by_path = {znode.path: znode for znode in found}
    changes: list[Change] = []
    for znode in by_path.values():
        wanted = target.acls(znode.path)
        if znode.is_left_empty:
            changes.append(Remove(znode.path, znode.acls, znode.stat.version))
        elif not same(znode.acls, wanted):
            changes.append(SetAcls(znode.path, znode.acls, wanted))
    missing = (path for path in CREATED_ROOTS if path not in by_path)
    return changes + [Make(path, target.acls(path)) for path in missing]


@dataclass(frozen=True, slots=True)
class Before:
    """What a run found at a path before it changed it, as an undo file keeps it. acls: None where nothing was."""

    path: str
    acls: ZnodeAcls | None


def before(change: Change) -> Before:
    """Give what to keep of a change so that it can be undone."""
    return Before(change.path, None if isinstance(change, Make) else change.before)


def plan_undo(kept: Mapping[str, Before], found: Iterable[Znode]) -> list[Change]:
    """Give the changes that bring back what was before; what removes comes last, the deepest first.

    Znodes that are gone stay gone, the empty ones that were removed on purpose too. Those that were made go as well;
    where somebody has used one since, it stays and gets what its parent had.
    """
    by_path = {znode.path: znode for znode in found}
    changes: list[Change] = []
    for path in sorted(kept, key=lambda path: (kept[path].acls is None, -path.count("/"))):
        znode, was = by_path.get(path), kept[path].acls
        if znode is None:
            continue
        if was is None and not _is_used(znode, kept, by_path):
            changes.append(Remove(path, znode.acls, znode.stat.version))
            continue
        wanted = was or _inherited(path, kept, by_path)
        if not same(znode.acls, wanted):
            changes.append(SetAcls(path, znode.acls, wanted))
    return changes


def _is_used(znode: Znode, kept: Mapping[str, Before], by_path: Mapping[str, Znode]) -> bool:
    made_below = [p for p, was in kept.items() if was.acls is None and p in by_path and parent(p) == znode.path]
    return znode.stat.data_bytes > 0 or znode.stat.children > len(made_below)


def _inherited(path: str, kept: Mapping[str, Before], by_path: Mapping[str, Znode]) -> ZnodeAcls:
    above = parent(path)
    was = kept.get(above)
    if was is None:
        return by_path[above].acls if above in by_path else OPEN_ACLS
    return was.acls or _inherited(above, kept, by_path)
