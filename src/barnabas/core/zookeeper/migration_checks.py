"""What to know before a cluster's znodes are secured or opened: what forbids it, and what is worth a warning.

Asked of the same znodes that the plan is made from, so that the answers are those of a dry run as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from barnabas.core.zookeeper.migration import Change, SetAcls, Target, Znode
from barnabas.core.zookeeper.paths import ROOT, SECURE_ROOTS, is_covered, parent
from barnabas.core.zookeeper.security import ZnodeAcls, holders, is_open, is_super, may_administer
from barnabas.core.zookeeper.values import ZnodeId

BROKER_IDS: Final = "/brokers/ids"
_ZOOKEEPERS_OWN: Final = "zookeeper"
_NOT_KAFKAS: Final = frozenset({_ZOOKEEPERS_OWN, "consumers"})


@dataclass(frozen=True, slots=True)
class LockOut:
    """Somebody who has rights now and would have none but to read. path: one of the znodes; count: how many."""

    who: ZnodeId
    path: str
    count: int


def lock_outs(changes: Iterable[Change], target: Target) -> list[LockOut]:
    """Give those whom securing would take rights from that they hold by their own name; most znodes first (H-34).

    That is what happens where every broker logs in by a name of its own, as Kerberos principals with a host are.
    """
    counted: Counter[ZnodeId] = Counter()
    example: dict[ZnodeId, str] = {}
    for acls, paths in _by_acls(changes).items() if target.secure else ():
        for who in holders(acls) - set(target.owners):
            counted[who] += len(paths)
            example.setdefault(who, paths[0])
    return [LockOut(who, example[who], count) for who, count in counted.most_common()]


def _by_acls(changes: Iterable[Change]) -> dict[ZnodeAcls, list[str]]:
    """Give the paths whose ACL changes by the ACL that they have: many znodes, few ACLs."""
    paths: defaultdict[ZnodeAcls, list[str]] = defaultdict(list)
    for change in changes:
        if isinstance(change, SetAcls):
            paths[change.before].append(change.path)
    return paths


def is_nobody_elses(target: Target) -> bool:
    """Say whether the wanted owners are ZooKeeper's super user alone, whom no broker logs in as."""
    return target.secure and all(map(is_super, target.owners))


def names_host(who: ZnodeId) -> bool:
    """Say whether an id is a Kerberos principal with a host or a realm in it, as `kafka/one.example@EXAMPLE`."""
    return who.scheme == "sasl" and ("/" in who.id or "@" in who.id)


def out_of_reach(changes: Iterable[Change], ours: Sequence[ZnodeId]) -> list[str]:
    """Give the paths whose ACL these ids may not change."""
    return [path for acls, paths in _by_acls(changes).items() if not may_administer(ours, acls) for path in paths]


def whose(found: Iterable[Znode], paths: Iterable[str]) -> set[ZnodeId]:
    """Give who has rights by their name on some of the paths."""
    wanted = set(paths)
    return {who for znode in found if znode.path in wanted for who in holders(znode.acls)}


def missing_roots(found: Iterable[Znode]) -> list[str]:
    """Give the covered tops that are not there: one or two are usual, all of them is another chroot than Kafka's."""
    there = {znode.path for znode in found}
    return [path for path in SECURE_ROOTS if path not in there]


def standing_open(found: Iterable[Znode]) -> list[str]:
    """Give the covered paths that anybody may change (H-35)."""
    opened = cache(is_open)  # many znodes, few ACLs
    return [znode.path for znode in found if opened(znode.acls) and is_covered(znode.path)]


def brokers_that_differ(found: Iterable[Znode], *, secure: bool) -> list[str]:
    """Give the ids of the brokers whose registration is as they made it, and made with the other `zookeeper.set.acl`.

    What such a broker makes after the run is as little as wanted as what it made before (H-35).
    """
    theirs = (znode for znode in found if parent(znode.path) == BROKER_IDS and not znode.stat.acl_version)
    return sorted(znode.path.rpartition("/")[2] for znode in theirs if is_open(znode.acls) is secure)


def left_empty(found: Iterable[Znode]) -> list[str]:
    """Give the tops that hold nothing and stop whoever reads them."""
    return [znode.path for znode in found if znode.is_left_empty]


def neighbours(tops: Iterable[str]) -> list[str]:
    """Give the names below `/` that are neither Kafka's nor ZooKeeper's: others live in the same tree (Z-24)."""
    return sorted(name for name in tops if name not in _NOT_KAFKAS and not is_covered(f"{ROOT}{name}"))


def kafka_trees(children: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Give those of the paths that look like Kafka's chroot. children: paths, each with the names below it."""
    return (path for path, names in children if "brokers" in names)
