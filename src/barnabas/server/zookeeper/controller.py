"""The controller of a cluster in ZooKeeper mode: decides as the one of a metadata log does, and writes znodes (D11).

A decision sees the newest metadata, committed or not. What it changes goes to ZooKeeper in transactions that fail once
another controller was elected; it is published, told to brokers and answered when ZooKeeper has taken it. When one
fails, this controller knows nothing for sure any more: it gives the role up, and whoever follows reads everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.delta import DeltaBuilder, MetadataDelta, difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import Decision, Replicated, VersionedRecord
from barnabas.core.zookeeper.control_requests import ControllerIdentity, ControlRequest, requests
from barnabas.core.zookeeper.deletions import Deletions
from barnabas.core.zookeeper.epochs import in_new_epochs
from barnabas.core.zookeeper.errors import NoNodeError, ZooKeeperError
from barnabas.core.zookeeper.log_dirs import lost_replicas, replicas_asked, without_replicas
from barnabas.core.zookeeper.membership import brokers_seen, finish_deletions, take_over
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.seen import identified
from barnabas.core.zookeeper.values import Check, Delete, Operation, WatchEvent
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.configs import Passwords
from barnabas.core.zookeeper.znodes.operations import KnownZnodes, transactions
from barnabas.core.zookeeper.znodes.projection import ZnodeChange, changes, marking, removal
from barnabas.core.zookeeper.znodes.reading import Tree, going, records
from barnabas.core.zookeeper.znodes.topics import DELETIONS, deletion_path
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.features import METADATA_VERSION
from barnabas.model.uuid import Uuid
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.election import Seat
from barnabas.server.zookeeper.reading import read_brokers, read_metadata
from barnabas.server.zookeeper.watching import Watching
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.topic_record import TopicRecord

log = structlog.get_logger("kafka.controller")

R = TypeVar("R")
Records = Iterable[VersionedRecord]
Publish = Callable[[MetadataDelta], None]
Tell = Callable[[Mapping[int, Sequence[ControlRequest]]], None]


@dataclass(frozen=True)
class Surroundings:
    """What a controller has at hand. level: the metadata.version that the cluster's brokers are of the age of.

    layout: the znodes that are always there; tell: sends requests to brokers, in order for each; publish: takes up
    what is committed. answers: what brokers say to what they are told comes to `ZooKeeperController.answered`; without,
    those that live are taken to do it. deletes_topics: `delete.topic.enable`; where not, marks that topics are to go
    are taken away.
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
    answers: bool = False
    deletes_topics: bool = True


class _Waiter(NamedTuple):
    future: asyncio.Future[Any]
    response: Any


class _Written(NamedTuple):
    """A change on its way to ZooKeeper. delta: of the metadata, None when only znodes change."""

    offset: int
    delta: MetadataDelta | None
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
        self._deletions = Deletions()
        self._watching = Watching(zk, self, around.schema, around.passwords, around.new_uuid)
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
        it is not known whether the change will hold; TOPIC_ALREADY_EXISTS for a topic of which replicas of before are
        still to be deleted.
        """
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        decision = decide(self._replicated.newest)
        if decision.records:
            self._check_names(decision.records)
            self._append(in_new_epochs(self._replicated.newest, decision))
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

    def answered(self, broker: int, request: ControlRequest, answer: Message) -> None:
        """Take what a broker says to what it was told: which logs it has deleted, and which it cannot reach."""
        if not self.is_active or request.controller_epoch != self._epoch:
            return
        if isinstance(request, StopReplicaRequest) and isinstance(answer, StopReplicaResponse):
            self._deletions = self._deletions.answered(broker, request, answer)
            self._finish_deletions()
        elif isinstance(answer, LeaderAndIsrResponse):
            image = self._replicated.newest
            lost = lost_replicas(image, answer)
            decision = without_replicas(image, self._around.schema, broker, lost)
            if decision.records:
                log.warning("a broker has lost replicas", broker=broker, partitions=decision.response)
                self._append(in_new_epochs(image, decision))

    async def lead(self, before: MetadataImage, lost: asyncio.Event) -> None:
        """Read everything, do what was left undone, and lead until `lost` is set or ZooKeeper cannot be asked.

        before: what this node has published so far. Ends without an error then: the next election says who leads.
        """
        try:
            await self._begin(before)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._commit(), name="commits")
                group.create_task(self._watch_brokers(), name="brokers")
                group.create_task(self._until(lost), name="controller role")
                await self.write(lambda image: take_over(image, self._around.schema))
                group.create_task(self._watch_deletions(), name="deletions of topics")
                group.create_task(self._watching.topics(), name="topics that others make")
                group.create_task(self._watching.isr_changes(), name="ISRs that others change")
                group.create_task(self._watching.log_dirs(), name="log directories that fail")
                group.create_task(self._watching.reassignments(), name="reassignments that tools ask for")
                group.create_task(self._watching.elections(), name="elections that tools ask for")
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
        found = await read_metadata(self._zk)
        if not self._around.deletes_topics:
            found = [znode for znode in found if not znode.path.startswith(f"{DELETIONS}/")]
        nameless: list[str] = []
        image = replay(MetadataImage.EMPTY, image_records(found, self._around, nameless.append))
        first = difference(MetadataImage.EMPTY, image)
        self._known = KnownZnodes(found, self._around.layout)
        self._rules, _ = RulesByPattern().after(first)
        self._deletions = Deletions().begun(going(Tree(found)))
        self._replicated.reset(image, self._offset)
        self.is_active = True
        self._publish(difference(before, image))
        if nameless:
            self.identify(nameless)
        self._tell(first)
        self._tell(self._deletions.delta(image))
        log.info("leads the cluster", epoch=self._epoch, brokers=sorted(image.cluster.brokers),
                 topics=len(image.topics.by_id))  # fmt: skip

    def _append(self, found: Iterable[VersionedRecord], *, written: bool = False) -> None:
        """Take a change for the newest metadata, and write it; written: ZooKeeper has it already."""
        builder = DeltaBuilder(self._replicated.newest)
        for versioned in found:
            builder.replay(versioned.record)
        self._offset += 1
        delta = builder.build(self._offset, self._epoch)
        todo, self._rules = changes(delta, self._rules, self._epoch, self._around.passwords, marking)
        before = delta.before.topics.by_id
        self._deletions = self._deletions.begun(before[topic_id] for topic_id in delta.deleted_topics)
        self._replicated.appended(self._offset, delta.after)
        self._ask(() if written else todo, delta)

    def _ask(self, todo: Iterable[ZnodeChange], delta: MetadataDelta | None = None) -> None:
        asked = transactions(self._known.operations(todo, self._around.acls_for), self._guard)
        done = [asyncio.ensure_future(self._zk.multi(transaction)) for transaction in asked]
        self._queue.put_nowait(_Written(self._offset, delta, done))

    def _check_names(self, found: Iterable[VersionedRecord]) -> None:
        for versioned in found:
            if isinstance(versioned.record, TopicRecord) and versioned.record.name in self._deletions:
                raise ApiError(
                    ErrorCode.TOPIC_ALREADY_EXISTS,
                    f"topic {versioned.record.name} is marked for deletion, which ends when all its replicas are gone; "
                    f"start the brokers that have some, or wait",
                )

    async def _commit(self) -> None:
        while True:
            written = await self._queue.get()
            await asyncio.gather(*written.done)
            if written.delta is None:
                continue
            waiters = self._replicated.commit(written.offset)
            self._publish(written.delta)
            self._tell(written.delta)
            self._watching.committed(written.delta)
            for waiter in waiters:
                if not waiter.future.done():
                    waiter.future.set_result(waiter.response)

    def _tell(self, delta: MetadataDelta) -> None:
        """Tell brokers of a change; those that come, also which topics have gone without them."""
        self._around.tell(requests(delta, self._identity))
        before, after = delta.before.cluster.brokers, delta.after.cluster.brokers
        came = {b for b in delta.brokers if b in after and (b not in before or before[b].epoch != after[b].epoch)}
        if came and self._deletions.topics and not delta.snapshot:
            again = requests(self._deletions.delta(delta.after), self._identity)
            self._around.tell({broker: asked for broker, asked in again.items() if broker in came})
        if self._deletions.topics:  # this broker itself knows by what was published
            self._deletions = self._deletions.told({self._identity.id} if self._around.answers else after)
        self._finish_deletions()

    def _finish_deletions(self) -> None:
        names, self._deletions = self._deletions.finished()
        for name in names:
            log.info("a topic is gone with all its replicas", topic=name)
            self._ask(removal(name))

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
            await (self._delete if self._around.deletes_topics else self._keep)(sorted(marked))
            await changed.wait()

    async def _delete(self, names: Sequence[str]) -> None:
        new = [name for name in names if name not in self._deletions]
        for name in new:
            self._known.seen(deletion_path(name), 0)
        deleted = await self.write(partial(finish_deletions, names=new))
        self._ask(change for name in new if name not in deleted for change in removal(name))

    async def _keep(self, names: Sequence[str]) -> None:
        for name in names:
            log.warning("a topic is to go, and stays: delete.topic.enable=false", topic=name)
        await self.change([Delete(deletion_path(name)) for name in names])

    # -- what the watches may do

    def is_going(self, topic: str) -> bool:
        """Say whether a topic is on its way out: its znodes are there, and it is in no image."""
        return topic in self._deletions

    def take_in(self, seen: Iterable[Znode], records: Records) -> None:
        """Take what others have written to these znodes for metadata."""
        for znode in seen:
            self._known.seen(znode.path, znode.version)
        found = list(records)
        if found:
            self._append(found, written=True)

    def identify(self, names: Sequence[str]) -> None:
        """Write the ids of topics that have none in their znodes."""
        self._ask(identified(self._replicated.newest, names))

    async def change(self, operations: Sequence[Operation]) -> None:
        """Change znodes that are no metadata; those that are gone are left out."""
        for done in [asyncio.ensure_future(self._zk.multi([self._guard, one])) for one in operations]:
            with suppress(NoNodeError):
                await done

    def ask_for_replicas(self, broker: int) -> None:
        """Have a broker say which of its replicas it has: see `answered`."""
        asked = replicas_asked(self._replicated.committed, broker, self._identity)
        if asked:
            self._around.tell({broker: asked})

    async def _until(self, lost: asyncio.Event) -> None:
        await lost.wait()
        raise _LostRoleError("another broker has the role")


def _set(changed: asyncio.Event, event: WatchEvent) -> None:
    changed.set()


class _LostRoleError(Exception):
    """Ends what a controller does."""


def image_records(
    found: Iterable[Znode], around: Surroundings, nameless: Callable[[str], None] = lambda _: None
) -> list[VersionedRecord]:
    """Give the records of the metadata that was read; ZnodeError names what cannot be read.

    nameless: called with the names of topics that have no id yet; they get one here.
    """

    def new_id(topic: str) -> Uuid:
        nameless(topic)
        return around.new_uuid()

    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=around.level)
    return [VersionedRecord(level, 0), *records(Tree(found), around.passwords, new_id)]
