"""The controller of a cluster in ZooKeeper mode: decides as the one of a metadata log does, and writes znodes (D11).

A decision sees the newest metadata, committed or not. What it changes goes to ZooKeeper in transactions that fail once
another controller was elected; it is published, told to brokers and answered when ZooKeeper has taken it. When one
fails, this controller knows nothing for sure any more: it gives the role up, and whoever follows reads everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.delta import DeltaBuilder, MetadataDelta, difference
from barnabas.core.metadata.image import MetadataImage, replay
from barnabas.core.replicated import Decision, Replicated, VersionedRecord
from barnabas.core.zookeeper.control_requests import ControllerIdentity, ControlRequest, requests
from barnabas.core.zookeeper.errors import ZooKeeperError
from barnabas.core.zookeeper.membership import brokers_seen, finish_deletions, take_over
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.values import Check, WatchEvent
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.configs import Passwords
from barnabas.core.zookeeper.znodes.operations import KnownZnodes, transactions
from barnabas.core.zookeeper.znodes.projection import changes, removal
from barnabas.core.zookeeper.znodes.reading import ROOTS, Tree, records
from barnabas.core.zookeeper.znodes.topics import DELETIONS, deletion_path
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.features import METADATA_VERSION
from barnabas.model.uuid import Uuid
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.election import Seat
from barnabas.server.zookeeper.reading import read_brokers, read_znodes
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.feature_level_record import FeatureLevelRecord

log = structlog.get_logger("kafka.controller")

R = TypeVar("R")
Records = Iterable[VersionedRecord]
Publish = Callable[[MetadataDelta], None]
Tell = Callable[[Mapping[int, Sequence[ControlRequest]]], None]


@dataclass(frozen=True)
class Surroundings:
    """What a controller has at hand. level: the metadata.version that the cluster's brokers are of the age of.

    layout: the znodes that are always there; tell: sends requests to brokers, in order for each; publish: takes up
    what is committed.
    """

    schema: ConfigSchema
    passwords: Passwords
    acls_for: Callable[[str], ZnodeAcls]
    level: int
    listener: str
    layout: Sequence[str]
    new_uuid: Callable[[], Uuid]
    tell: Tell
    publish: Publish


class _Waiter(NamedTuple):
    future: asyncio.Future[Any]
    response: Any


class _Written(NamedTuple):
    """A change on its way to ZooKeeper."""

    offset: int
    delta: MetadataDelta
    done: Sequence[Awaitable[object]]


class ZooKeeperController:
    """One term of office: `lead` is its task; `write` is for those who want something changed meanwhile."""

    def __init__(self, zk: ZooKeeperClient, seat: Seat, around: Surroundings, publish: Publish | None = None) -> None:
        """publish: instead of that of the surroundings."""
        assert seat.guard is not None, "only who has the role leads"
        self._publish = publish or around.publish
        self._zk = zk
        self._guard: Check = seat.guard
        self._around = around
        self._identity = ControllerIdentity(seat.controller_id, seat.epoch, around.listener)
        self._epoch = seat.epoch
        self._replicated: Replicated[MetadataImage, _Waiter] = Replicated(MetadataImage.EMPTY)
        self._rules = RulesByPattern()
        self._known = KnownZnodes([])
        self._queue: asyncio.Queue[_Written] = asyncio.Queue()
        self._offset = 0
        self.is_active = False

    @property
    def image(self) -> MetadataImage:
        """Give the newest metadata, committed or not: what decisions see."""
        return self._replicated.newest

    async def write(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Decide on the newest metadata, write what was decided, and give its response when ZooKeeper has it.

        Raises what `decide` raises; ApiError NOT_CONTROLLER when this node has not the role, or loses it before: then
        it is not known whether the change will hold.
        """
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        decision = decide(self._replicated.newest)
        if decision.records:
            self._append(decision.records)
        waiter = _Waiter(asyncio.get_running_loop().create_future(), decision.response)
        if not self._replicated.wait(waiter):
            return decision.response
        response: R = await waiter.future
        return response

    def learn(self, path: str, version: int | None, update: Callable[[MetadataImage, RulesByPattern], Records]) -> None:
        """Take in what another broker has written to a znode, as those before the two-step upgrade do (KIP-590).

        version: of the znode, None when it is gone; update: gives the records that say the same.
        """
        if self.is_active:
            self._known.seen(path, version)
            found = list(update(self._replicated.newest, self._rules))
            if found:
                self._append(found, written=True)

    async def lead(self, before: MetadataImage, lost: asyncio.Event) -> None:
        """Read everything, do what was left undone, and lead until `lost` is set or ZooKeeper cannot be asked.

        before: what this node has published so far. Ends without an error then: the next election says who leads.
        """
        try:
            await self._begin(before)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._commit(), name="commits")
                group.create_task(self._watch_brokers(), name="brokers")
                group.create_task(self._watch_deletions(), name="deletions of topics")
                group.create_task(self._until(lost), name="controller role")
                await self.write(lambda image: take_over(image, self._around.schema))
        except BaseExceptionGroup as group:
            expected, other = group.split((_LostRoleError, ZooKeeperError))
            if other is not None:
                raise other from None
            assert expected is not None
            log.info("leads no more", epoch=self._epoch, because=str(expected.exceptions[0]))
        except ZooKeeperError as e:
            log.info("could not begin to lead", epoch=self._epoch, because=str(e))
        finally:
            self.is_active = False
            for waiter in self._replicated.roll_back():
                if not waiter.future.done():
                    waiter.future.set_exception(
                        ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller any more")
                    )

    async def _begin(self, before: MetadataImage) -> None:
        found = await read_znodes(self._zk, (*ROOTS, DELETIONS))
        image = replay(MetadataImage.EMPTY, image_records(found, self._around))
        first = difference(MetadataImage.EMPTY, image)
        self._known = KnownZnodes(found, self._around.layout)
        self._rules, _ = RulesByPattern().after(first)
        self._replicated.reset(image, self._offset)
        self.is_active = True
        self._publish(difference(before, image))
        self._around.tell(requests(first, self._identity))
        log.info("leads the cluster", epoch=self._epoch, brokers=sorted(image.cluster.brokers),
                 topics=len(image.topics.by_id))  # fmt: skip

    def _append(self, found: Iterable[VersionedRecord], *, written: bool = False) -> None:
        """Take a change for the newest metadata, and write it; written: ZooKeeper has it already."""
        builder = DeltaBuilder(self._replicated.newest)
        for versioned in found:
            builder.replay(versioned.record)
        self._offset += 1
        delta = builder.build(self._offset, self._epoch)
        todo, self._rules = changes(delta, self._rules, self._epoch, self._around.passwords)
        wanted = () if written else self._known.operations(todo, self._around.acls_for)
        asked = transactions(wanted, self._guard)
        done = [asyncio.ensure_future(self._zk.multi(transaction)) for transaction in asked]
        self._replicated.appended(self._offset, delta.after)
        self._queue.put_nowait(_Written(self._offset, delta, done))

    async def _commit(self) -> None:
        while True:
            written = await self._queue.get()
            await asyncio.gather(*written.done)
            waiters = self._replicated.commit(written.offset)
            self._publish(written.delta)
            self._around.tell(requests(written.delta, self._identity))
            for waiter in waiters:
                if not waiter.future.done():
                    waiter.future.set_result(waiter.response)

    async def _watch_brokers(self) -> None:
        while True:
            changed = asyncio.Event()
            found = await read_brokers(self._zk, changed)
            came, gone = await self.write(partial(brokers_seen, schema=self._around.schema, registrations=found))
            if came or gone:
                log.info("brokers have come or gone", came=sorted(came), gone=sorted(gone))
            await changed.wait()

    async def _watch_deletions(self) -> None:
        """Remove topics that are marked to go: by a controller that was cut off, or by a broker of before 2.8."""
        while True:
            changed = asyncio.Event()
            marked = await self._zk.children(DELETIONS, partial(_set, changed))
            await self._delete(sorted(marked))
            await changed.wait()

    async def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._known.seen(deletion_path(name), 0)
        deleted = await self.write(partial(finish_deletions, names=names))
        leftovers = (change for name in names if name not in deleted for change in removal(name))
        for transaction in transactions(self._known.operations(leftovers, self._around.acls_for), self._guard):
            await self._zk.multi(transaction)

    async def _until(self, lost: asyncio.Event) -> None:
        await lost.wait()
        raise _LostRoleError("another broker has the role")


def _set(changed: asyncio.Event, event: WatchEvent) -> None:
    changed.set()


class _LostRoleError(Exception):
    """Ends what a controller does."""


def image_records(found: Iterable[Znode], around: Surroundings) -> list[VersionedRecord]:
    """Give the records of the metadata that was read; ZnodeError names what cannot be read."""
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=around.level)
    return [VersionedRecord(level, 0), *records(Tree(found), around.passwords, lambda _: around.new_uuid())]
