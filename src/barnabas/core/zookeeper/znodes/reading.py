"""A tree of znodes as the records of a whole image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.topics import TopicImage
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes import acls, brokers, clients, configs, control, tokens, topics
from barnabas.core.zookeeper.znodes.configs import CONFIG, Passwords
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.uuid import ZERO_UUID, Uuid

ROOTS: Final = (
    brokers.IDS,
    topics.TOPICS,
    topics.DELETIONS,
    *(f"{CONFIG}/{kind}" for kind in configs.KINDS),
    clients.USERS,
    clients.CLIENTS,
    clients.IPS,
    control.PRODUCER_IDS,
    acls.LITERAL,
    acls.PREFIXED,
    tokens.TOKENS,
    control.FEATURES,
)
"""Where to read: these znodes and all that lies below them are the metadata."""
_CLIENTS: Final = ((clients.USERS, 1), (clients.USERS, 3), (clients.CLIENTS, 1), (clients.IPS, 1))


class Tree:
    """Znodes by their place: each below its parent, whether or not that was read itself."""

    def __init__(self, znodes: Iterable[Znode]) -> None:
        self._by_path = {znode.path: znode for znode in znodes}
        self._names: dict[str, set[str]] = {}
        for path in self._by_path:
            while path:
                path, _, name = path.rpartition("/")
                self._names.setdefault(path, set()).add(name)

    def at(self, path: str) -> Znode | None:
        """Give the znode there, None when none was read."""
        return self._by_path.get(path)

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def within(self, path: str) -> Iterator[Znode]:
        """Give the znode there and all below it."""
        if path in self._by_path:
            yield self._by_path[path]
        for name in self.names_below(path):
            yield from self.within(f"{path}/{name}")

    def names_below(self, path: str) -> list[str]:
        """Give the names of a znode's children, in their order."""
        return sorted(self._names.get(path, ()))

    def below(self, path: str, depth: int = 1) -> Iterator[Znode]:
        """Give the znodes that lie that many steps below a path."""
        for name in self.names_below(path):
            child = f"{path}/{name}"
            if depth > 1:
                yield from self.below(child, depth - 1)
            elif child in self._by_path:
                yield self._by_path[child]


def records(tree: Tree, passwords: Passwords, id_of: Callable[[str], Uuid]) -> Iterator[VersionedRecord]:
    """Give the records that make the image of what was read below `ROOTS`; ZnodeError names what cannot be read.

    id_of: gives an id to a topic that has none, by its name. Topics that are marked to go are gone: see `going`.
    """
    for znode in tree.below(brokers.IDS):
        yield brokers.record(znode)
    yield from _topics(tree, id_of)
    for kind, resource_type in configs.KINDS.items():
        for znode in tree.below(f"{CONFIG}/{kind}"):
            yield from configs.records(resource_type, znode, passwords)
    for root, depth in _CLIENTS:
        for znode in tree.below(root, depth):
            yield from clients.records(znode)
    for root in (acls.LITERAL, acls.PREFIXED):
        for znode in tree.below(root, 2):
            yield from acls.records(znode)
    for znode in tree.below(tokens.TOKENS):
        yield from tokens.records(znode)
    yield from _of_one(tree.at(control.PRODUCER_IDS), control.producer_id_records)
    yield from _of_one(tree.at(control.FEATURES), control.feature_records)


def _topics(tree: Tree, id_of: Callable[[str], Uuid]) -> Iterator[VersionedRecord]:
    for znode in tree.below(topics.TOPICS):
        if topics.deletion_path(znode.name) not in tree:
            yield from topics.records(znode, topics.topic_id(znode) or id_of(znode.name), states(tree, znode.name))


def going(tree: Tree) -> list[TopicImage]:
    """Give the topics that are marked to go, and are not gone yet."""
    found = []
    for name in tree.names_below(topics.DELETIONS):
        znode = tree.at(topics.topic_path(name))
        if znode is not None:
            given = topics.topic_id(znode) or ZERO_UUID
            made = replay(MetadataImage.EMPTY, topics.records(znode, given, states(tree, name)))
            found.append(made.topics.by_name[name])
    return found


def states(tree: Tree, topic: str) -> dict[int, Znode]:
    """Give the states of a topic's partitions, by number."""
    numbers = (int(name) for name in tree.names_below(topics.partitions_path(topic)) if name.isdigit())
    found = {number: tree.at(topics.state_path(topic, number)) for number in numbers}
    return {number: znode for number, znode in found.items() if znode is not None}


def _of_one(znode: Znode | None, read: Callable[[Znode], Iterator[VersionedRecord]]) -> Iterator[VersionedRecord]:
    return iter(()) if znode is None else read(znode)
