"""What a controller in ZooKeeper mode notices by watches: topics that others make, ISRs, disks, and tools that ask.

A topic's znode has one watch, as it has with Kafka. One watch over the whole tree would come true with each state that
this controller writes itself, and those are the more by far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import structlog

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.asked import Refused, elect_preferred, reassign, under_way
from barnabas.core.zookeeper.errors import NoNodeError
from barnabas.core.zookeeper.membership import complete_reassignments, first_states
from barnabas.core.zookeeper.paths import child
from barnabas.core.zookeeper.seen import has_more, partitions_seen, states_seen
from barnabas.core.zookeeper.values import Delete, Operation, SetData, WatchEvent
from barnabas.core.zookeeper.znodes import topics
from barnabas.core.zookeeper.znodes.admin import (
    ELECTIONS,
    REASSIGNMENTS,
    Reassignments,
    asked_elections,
    asked_reassignments,
    reassignments,
)
from barnabas.core.zookeeper.znodes.configs import CONFIG, Passwords
from barnabas.core.zookeeper.znodes.notifications import ISR_CHANGES, LOG_DIR_EVENTS, changed_isrs, failed_broker
from barnabas.core.zookeeper.znodes.reading import Tree, states
from barnabas.core.zookeeper.znodes.updates import config_update
from barnabas.core.zookeeper.znodes.znode import Znode, ZnodeError
from barnabas.model.uuid import Uuid
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.walk import each
from barnabas.server.zookeeper.reading import read_znodes
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.controller")

R = TypeVar("R")
T = TypeVar("T")


class Office(Protocol):
    """What a controller lets its watches do."""

    @property
    def image(self) -> MetadataImage:
        """Give the newest metadata."""

    def is_going(self, topic: str) -> bool:
        """Say whether a topic is on its way out: its znodes are there, and it is in no image."""

    async def write(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Decide and write."""

    def take_in(self, seen: Iterable[Znode], records: Iterable[VersionedRecord]) -> None:
        """Take what others have written to these znodes for metadata."""

    def identify(self, names: Sequence[str]) -> None:
        """Write the ids of topics that have none in their znodes."""

    async def change(self, operations: Sequence[Operation]) -> None:
        """Change znodes that are no metadata."""

    def ask_for_replicas(self, broker: int) -> None:
        """Have a broker say which of its replicas it has."""


class Watching:
    """The watches of one term of office: each of its coroutines is a task, but for `committed`.

    Each also does what was left by those who were the controller before.
    """

    def __init__(
        self,
        zk: ZooKeeperClient,
        office: Office,
        schema: ConfigSchema,
        passwords: Passwords,
        new_uuid: Callable[[], Uuid],
    ) -> None:
        self._zk = zk
        self._office = office
        self._schema = schema
        self._passwords = passwords
        self._new_uuid = new_uuid
        self._topics = _Topics(zk, office)
        self._reassigning: Reassignments = {}
        self._reassignments_moved = asyncio.Event()

    def committed(self, delta: MetadataDelta) -> None:
        """Take note of a change: a reassignment that was asked for may be at its end."""
        if self._reassigning and (delta.topics or delta.deleted_topics):
            self._reassignments_moved.set()

    # -- topics

    async def topics(self) -> None:
        """Take up topics and partitions that others make: their first leaders are ours to elect."""
        while True:
            found = await self._topics.changed()
            names = [znode.name for znode in found]
            below = [path for name in names for path in (topics.partitions_path(name), _configs_path(name))]
            tree = Tree(await read_znodes(self._zk, below))
            for znode in found:
                try:
                    self._take_topic(znode, tree)
                except ZnodeError as e:
                    log.error("a topic that others have made cannot be read", topic=znode.name, why=str(e))
            if found:
                await self._office.write(partial(first_states, schema=self._schema))

    def _take_topic(self, znode: Znode, tree: Tree) -> None:
        image, name = self._office.image, znode.name
        if self._office.is_going(name):
            return
        found = list(partitions_seen(image, znode, self._new_uuid(), states(tree, name)))
        if not found:
            return
        log.info("others have made partitions", topic=name)
        configs = tree.at(_configs_path(name))
        if name not in image.topics.by_name:
            found += config_update(image, f"topics/{name}", configs, self._passwords)
        below = tree.within(topics.partitions_path(name))
        self._office.take_in([znode, *below, *([] if configs is None else [configs])], found)
        if topics.topic_id(znode) is None:
            self._office.identify([name])

    # -- what brokers tell

    async def isr_changes(self) -> None:
        """Take up the states that brokers of before 2.7 write themselves."""
        async for told in _Told(self._zk, ISR_CHANGES):
            named = {partition for znode in told for partition in _read(changed_isrs, znode) or ()}
            by_path = {topics.state_path(*partition): partition for partition in named}
            found: list[Znode] = []
            await each(by_path, partial(_add, self._zk, found))
            now = {by_path[znode.path]: znode for znode in found}
            self._office.take_in(found, states_seen(self._office.image, now))
            await self._office.write(partial(complete_reassignments, schema=self._schema))
            await self._office.change([Delete(znode.path) for znode in told])

    async def log_dirs(self) -> None:
        """Ask brokers of which a log directory has failed for all their replicas; their answers say which are lost."""
        async for told in _Told(self._zk, LOG_DIR_EVENTS):
            brokers = {_read(failed_broker, znode) for znode in told}
            for broker in sorted(broker for broker in brokers if broker is not None):
                log.warning("a log directory of a broker has failed", broker=broker)
                self._office.ask_for_replicas(broker)
            await self._office.change([Delete(znode.path) for znode in told])

    # -- what tools ask for

    async def reassignments(self) -> None:
        """Do what `/admin/reassign_partitions` asks for, and take out of it what is done, refused or replaced."""
        while True:
            changed = asyncio.Event()
            znode = await _read_or_wait(self._zk, REASSIGNMENTS, changed)
            if znode is None:
                await changed.wait()
                continue
            asked = _read(asked_reassignments, znode)
            if asked is None:
                await changed.wait()
                continue
            await self._decide("reassignment", partial(reassign, schema=self._schema, asked=asked))
            await self._until_done(asked)

    async def _until_done(self, asked: Reassignments) -> None:
        self._reassigning = asked
        while True:
            self._reassignments_moved.clear()
            left = under_way(self._office.image, self._reassigning)
            if not left:
                self._reassigning = {}
                await self._office.change([Delete(REASSIGNMENTS)])
                return
            if left != self._reassigning:
                self._reassigning = left
                await self._office.change([SetData(REASSIGNMENTS, reassignments(left))])
            await self._reassignments_moved.wait()

    async def elections(self) -> None:
        """Do what `/admin/preferred_replica_election` asks for, once."""
        while True:
            changed = asyncio.Event()
            znode = await _read_or_wait(self._zk, ELECTIONS, changed)
            if znode is None:
                await changed.wait()
                continue
            asked = _read(asked_elections, znode) or ()
            await self._decide("election", partial(elect_preferred, schema=self._schema, asked=asked))
            await self._office.change([Delete(ELECTIONS)])

    async def _decide(self, what: str, decide: Callable[[MetadataImage], Decision[Refused]]) -> None:
        try:
            refused = await self._office.write(decide)
        except ApiError as e:
            log.warning(f"a tool's {what} is refused", why=e.message)
            return
        for partition, why in refused.items():
            log.warning(f"a tool's {what} is refused", partition=str(partition), why=why)


class _Topics:
    """The znodes of topics, each with a watch of its own."""

    def __init__(self, zk: ZooKeeperClient, office: Office) -> None:
        self._zk = zk
        self._office = office
        self._watched: set[str] = set()
        self._changed: set[str] = set()
        self._listed = False
        self._woken = asyncio.Event()
        self._woken.set()

    async def changed(self) -> list[Znode]:
        """Wait for a change, and give the topics that the metadata lacks, or lacks partitions of."""
        await self._woken.wait()
        self._woken.clear()
        if not self._listed:
            self._listed = True
            names = set(await self._zk.children(topics.TOPICS, self._list_again))
            self._changed |= names - self._watched
            self._watched &= names
        changed, self._changed = self._changed, set()
        found: list[Znode] = []
        await each(changed, partial(self._read, found))
        return sorted(found)

    async def _read(self, found: list[Znode], name: str) -> Iterable[str]:
        was_known = self._is_known(name)
        try:
            data, stat = await self._zk.get(topics.topic_path(name), partial(self._again, name))
        except NoNodeError:
            self._watched.discard(name)
            return ()
        self._watched.add(name)
        znode = Znode(topics.topic_path(name), data, stat.version, stat.czxid)
        if name in self._office.image.topics.by_name:
            is_news = bool(_read(partial(has_more, self._office.image), znode))
        else:
            # One that was known when we asked, and is not any more, is not new: its znodes have gone meanwhile.
            is_news = not was_known and not self._office.is_going(name)
        if is_news:
            found.append(znode)
        return ()

    def _is_known(self, name: str) -> bool:
        return name in self._office.image.topics.by_name or self._office.is_going(name)

    def _again(self, name: str, event: WatchEvent) -> None:
        self._watched.discard(name)
        self._changed.add(name)
        self._woken.set()

    def _list_again(self, event: WatchEvent) -> None:
        self._listed = False
        self._woken.set()


class _Told:
    """The znodes below a parent, each time that there are some; they are taken away after each turn."""

    def __init__(self, zk: ZooKeeperClient, parent: str) -> None:
        self._zk = zk
        self._parent = parent

    def __aiter__(self) -> _Told:
        return self

    async def __anext__(self) -> list[Znode]:
        while True:
            changed = asyncio.Event()
            names = await self._zk.children(self._parent, partial(_set, changed))
            found: list[Znode] = []
            await each([child(self._parent, name) for name in names], partial(_add, self._zk, found))
            if found:
                return sorted(found)
            await changed.wait()


async def _add(zk: ZooKeeperClient, found: list[Znode], path: str) -> Iterable[str]:
    try:
        data, stat = await zk.get(path)
    except NoNodeError:
        return ()
    found.append(Znode(path, data, stat.version, stat.czxid))
    return ()


async def _read_or_wait(zk: ZooKeeperClient, path: str, changed: asyncio.Event) -> Znode | None:
    """Give a znode, None when it is not there; `changed` is set when it comes, changes or goes."""
    found: list[Znode] = []
    if await zk.exists(path, partial(_set, changed)) is not None:
        await _add(zk, found, path)
    return found[0] if found else None


def _read(read: Callable[[Znode], T], znode: Znode) -> T | None:
    try:
        return read(znode)
    except ZnodeError as e:
        log.error("a znode that others have written is left out", why=str(e))
        return None


def _configs_path(topic: str) -> str:
    return f"{CONFIG}/topics/{topic}"


def _set(changed: asyncio.Event, event: WatchEvent) -> None:
    changed.set()
