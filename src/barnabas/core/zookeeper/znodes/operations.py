"""Changes of znodes as what is asked of ZooKeeper: made or written, parents first, deleted from the leaves up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from barnabas.core.zookeeper.values import ANY_VERSION, Check, Create, Delete, Operation, SetData, ZnodeAcl
from barnabas.core.zookeeper.znodes.projection import Pruned, Removed, Told, Written, ZnodeChange
from barnabas.core.zookeeper.znodes.znode import Znode

MOST_BYTES: Final = 512 * 1024
"""Of the operations that go to ZooKeeper in one transaction; its own limit is 1 MiB (`jute.maxbuffer`)."""
MOST_OPERATIONS: Final = 500
_ROOM: Final = 64
"""Bytes that an operation takes beside its path and data, about."""

AclsFor = Callable[[str], tuple[ZnodeAcl, ...]]


class KnownZnodes:
    """Which znodes there are and what version each has, as known to the one who alone writes them.

    When an operation fails this knowledge is worth nothing any more: read again and begin anew.
    """

    def __init__(self, found: Iterable[Znode], there: Iterable[str] = ()) -> None:
        """found: what was read, below what must be there too; there: what else is, without having been read."""
        self._versions: dict[str, int] = {}
        self._children: dict[str, set[str]] = {}
        for path in there:
            self._made(path, 0)
        for znode in found:
            self._made(znode.path, znode.version)
            parent = znode.path.rpartition("/")[0]
            while parent and parent not in self._versions:
                self._made(parent, 0)
                parent = parent.rpartition("/")[0]

    def __contains__(self, path: str) -> bool:
        return path in self._versions

    def version(self, path: str) -> int | None:
        """Give how often a znode was set since it was made; None when it is not there."""
        return self._versions.get(path)

    def seen(self, path: str, version: int | None) -> None:
        """Take note of a znode that somebody else has written; version: None when it is gone."""
        if version is not None:
            self._made(path, version)
        elif path in self._versions:
            self._deleted(path)

    def operations(self, changes: Iterable[ZnodeChange], acls_for: AclsFor) -> Iterator[Operation]:
        """Give what to ask of ZooKeeper, in order, and take it for done."""
        for change in changes:
            match change:
                case Written():
                    yield from self._written(change, acls_for)
                case Removed(path):
                    yield from self._removed(path)
                case Pruned(path):
                    if path in self._versions and not self._children.get(path):
                        yield self._deleted(path)
                case Told(path, data):
                    # Whoever hears of it looks at the numbers alone: it is not among what is known.
                    yield from self._parents(path, acls_for)
                    yield Create(path, data, acls_for(path), sequential=True)

    def _written(self, change: Written, acls_for: AclsFor) -> Iterator[Operation]:
        path = change.path
        if path not in self._versions:
            yield from self._parents(path, acls_for)
            self._made(path, 0)
            yield Create(path, change.data, acls_for(path))
            return
        self._versions[path] += 1
        yield SetData(path, change.data, ANY_VERSION if change.version is None else change.version)

    def _parents(self, path: str, acls_for: AclsFor) -> Iterator[Operation]:
        parent = path.rpartition("/")[0]
        if parent and parent not in self._versions:
            yield from self._parents(parent, acls_for)
            self._made(parent, 0)
            yield Create(parent, None, acls_for(parent))

    def _removed(self, path: str) -> Iterator[Operation]:
        for name in sorted(self._children.get(path, ())):
            yield from self._removed(f"{path}/{name}")
        if path in self._versions:
            yield self._deleted(path)

    def _made(self, path: str, version: int) -> None:
        self._versions[path] = version
        parent, _, name = path.rpartition("/")
        self._children.setdefault(parent, set()).add(name)

    def _deleted(self, path: str) -> Operation:
        del self._versions[path]
        parent, _, name = path.rpartition("/")
        self._children[parent].discard(name)
        return Delete(path)


def transactions(operations: Iterable[Operation], guard: Check) -> Iterator[Sequence[Operation]]:
    """Give the operations in transactions that ZooKeeper takes, in order.

    guard: stands in front of each, so that nothing is done once another controller was elected.
    """
    group: list[Operation] = [guard]
    size = 0
    for operation in operations:
        weight = _weight(operation)
        if len(group) > 1 and (size + weight > MOST_BYTES or len(group) > MOST_OPERATIONS):
            yield group
            group, size = [guard], 0
        group.append(operation)
        size += weight
    if len(group) > 1:
        yield group


def _weight(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else None
    return _ROOM + len(operation.path) + len(data or b"")
