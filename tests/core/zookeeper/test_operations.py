"""Changes of znodes as transactions that ZooKeeper takes, tried on a tree that keeps ZooKeeper's rules."""

from __future__ import annotations

import random

from barnabas.core.zookeeper.values import OPEN_ACLS, Check, Create, Delete, Operation, SetData
from barnabas.core.zookeeper.znodes.operations import MOST_BYTES, MOST_OPERATIONS, KnownZnodes, transactions
from barnabas.core.zookeeper.znodes.projection import Pruned, Removed, Told, Written, ZnodeChange
from barnabas.core.zookeeper.znodes.znode import Znode

GUARD = Check("/controller_epoch", 3)


class StrictTree:
    """A tree that refuses what ZooKeeper refuses: no parent, there already, not there, children left, other version."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[bytes | None, int]] = {}
        self.numbers = 0

    def take(self, operation: Operation) -> None:
        match operation:
            case Create(path, data, _, _, sequential):
                parent = path.rpartition("/")[0]
                assert not parent or parent in self.held, f"{path} has no parent"
                if sequential:
                    path, self.numbers = f"{path}{self.numbers:010}", self.numbers + 1
                assert path not in self.held
                self.held[path] = data, 0
            case SetData(path, data, version):
                _, now = self.held[path]
                assert version in (-1, now)
                self.held[path] = data, now + 1
            case Delete(path):
                assert not any(other.startswith(f"{path}/") for other in self.held)
                del self.held[path]

    def znodes(self) -> list[Znode]:
        return [Znode(path, data or b"", version) for path, (data, version) in self.held.items()]


def test_whatever_changes_zookeeper_takes_it_and_it_is_there() -> None:
    chance, tree = random.Random(5), StrictTree()
    known = KnownZnodes([])
    paths = [f"/{a}/{b}/{c}" for a in "xy" for b in "pq" for c in "12"] + ["/x/p", "/y"]
    for step in range(2_000):
        path = chance.choice(paths)
        data = b"%d" % step
        told = Told("/n/t_", b"")
        choices: list[ZnodeChange] = [Written(path, data), Written(path, data), Removed(path), Pruned(path), told]
        change = chance.choice(choices)
        there = path in tree.held
        for operation in known.operations([change], lambda _: OPEN_ACLS):
            tree.take(operation)
        match change:
            case Written():
                assert tree.held[path][0] == data
            case Removed(path):
                assert not any(p == path or p.startswith(f"{path}/") for p in tree.held)
            case Pruned(path) if there:
                assert (path in tree.held) == any(p.startswith(f"{path}/") for p in tree.held)
        if chance.random() < 0.02:
            known = KnownZnodes(tree.znodes())  # who begins anew knows the same
    assert known.version("/n") == 0
    assert all(known.version(p) == v for p, (_, v) in tree.held.items() if not p.startswith("/n/"))


def test_a_state_is_replaced_only_in_the_version_that_was_decided_on() -> None:
    known = KnownZnodes([Znode("/a", b"", 4)])
    (operation,) = known.operations([Written("/a", b"x", 4)], lambda _: OPEN_ACLS)
    assert operation == SetData("/a", b"x", 4)
    assert known.version("/a") == 5


def test_transactions_are_guarded_and_small_enough() -> None:
    large = [Create(f"/t{n}", b"x" * 100_000, OPEN_ACLS) for n in range(20)]
    small = [Delete(f"/d{n}") for n in range(2_000)]
    found = list(transactions([*large, *small], GUARD))
    assert [operation for group in found for operation in group[1:]] == [*large, *small]
    assert all(group[0] == GUARD and len(group) <= MOST_OPERATIONS + 1 for group in found)
    assert all(sum(len(o.data or b"") for o in g if isinstance(o, Create)) <= MOST_BYTES for g in found)
    assert list(transactions([], GUARD)) == []


def test_an_operation_beyond_all_measure_goes_alone() -> None:
    huge = Create("/t", b"x" * (MOST_BYTES + 1), OPEN_ACLS)
    assert [len(group) for group in transactions([huge, Delete("/d")], GUARD)] == [2, 2]
