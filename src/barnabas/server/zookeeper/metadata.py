"""A broker's copy of the cluster's metadata in ZooKeeper mode; while the broker is the controller, the deciding one.

It begins with all znodes. From then on whoever is the controller tells it of topics and brokers (`hear`), and
notifications say which configs, rules and tokens to read anew. A session that ends is followed by another one, and
everything is read again. Once the broker wants to be one (`register`), each session begins with its znode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from barnabas.core.metadata.delta import DeltaBuilder, MetadataDelta, difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.control_records import check_sender, leader_and_isr_records, update_records
from barnabas.core.zookeeper.control_requests import ControlRequest
from barnabas.core.zookeeper.errors import NoNodeError, ZooKeeperError
from barnabas.core.zookeeper.znodes import acls, tokens
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.configs import CONFIG
from barnabas.core.zookeeper.znodes.notifications import CONFIG_CHANGES, changed_configs
from barnabas.core.zookeeper.znodes.reading import ROOTS
from barnabas.core.zookeeper.znodes.updates import config_update, rules_update, token_update
from barnabas.core.zookeeper.znodes.znode import Znode, ZnodeError
from barnabas.model.acl import ResourcePattern
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.cluster_metadata import Follower
from barnabas.server.forwarding.controller_channel import ActiveController
from barnabas.server.waiting import Progress
from barnabas.server.zookeeper.controller import Records, Surroundings, ZooKeeperController, image_records
from barnabas.server.zookeeper.direct_writes import DirectWrites
from barnabas.server.zookeeper.election import Election, Seat
from barnabas.server.zookeeper.notifications import Notifications
from barnabas.server.zookeeper.old_notifications import keep_few
from barnabas.server.zookeeper.reading import read_znodes
from barnabas.server.zookeeper.registration import IdTakenError, Registration
from barnabas.server.zookeeper.sessions import in_each_session
from barnabas.wire.declaration import Message
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

log = structlog.get_logger("kafka.metadata")

R = TypeVar("R")
Update = Callable[[MetadataImage, RulesByPattern, Znode | None], Records]


@dataclass(frozen=True, slots=True)
class _Named:
    """What a notification speaks of: where it stands, and what it means to an image."""

    path: str
    update: Update


class ZooKeeperMetadata:
    """See the module. `run` is its task; the rest may be called while it runs."""

    def __init__(
        self,
        zk: ZooKeeperClient,
        broker_id: int,
        around: Surroundings,
        now_ms: Callable[[], int],
        resigned: Callable[[], Awaitable[None]] | None = None,
        controller_listener: str | None = None,
    ) -> None:
        """zk: started; resigned: called when this broker has been the controller and is it no more;
        controller_listener: where brokers reach the controller, when not on the listener between brokers."""
        self._listener = controller_listener or around.listener
        self._zk = zk
        self._around = around
        self._election = Election(zk, broker_id, around.acls_for, now_ms)
        self._registration = Registration(zk, broker_id, around.acls_for)
        self._now_ms = now_ms
        self._resigned = resigned
        self.entities = DirectWrites(
            zk, around.acls_for, around.passwords, image=lambda: self.image, heard=self._hear_of
        )
        """Changes what any broker may: configs, quotas, users and tokens."""
        self._controller: ZooKeeperController | None = None
        self._rules = RulesByPattern()
        self._offset = 0
        self._led = -1
        """The epoch that this broker led last; an epoch is led once."""
        self._known = asyncio.Event()
        self._follower: Follower | None = None
        self._kept: list[MetadataDelta] = []
        self._hearing = asyncio.Lock()
        self._wanted: asyncio.Future[Callable[[], bytes]] = asyncio.get_running_loop().create_future()
        self._place: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._shown: ActiveController | None = None
        self.committed_image = MetadataImage.EMPTY
        """The committed metadata, as published."""
        self.seat: Seat | None = None
        """Who is the controller, as far as this broker knows."""

    # -- what is known

    @property
    def broker_epoch(self) -> int:
        """Give this broker's epoch, of its last registration; -1 before the first."""
        return self._registration.epoch

    @property
    def is_active(self) -> bool:
        """Say whether this broker is the controller and takes writes."""
        return self._controller is not None and self._controller.is_active

    @property
    def image(self) -> MetadataImage:
        """Give the newest metadata, which is not yet committed where this broker is the controller."""
        controller = self._controller
        return controller.image if controller is not None and controller.is_active else self.committed_image

    def active_controller(self) -> ActiveController | None:
        """Give who is the controller and where brokers reach it; None while either is unknown."""
        broker = None if self.seat is None else self.committed_image.cluster.brokers.get(self.seat.controller_id)
        endpoint = None if broker is None else broker.listeners.get(self._listener)
        if self.seat is None or endpoint is None:
            return None
        return ActiveController(self.seat.controller_id, self.seat.epoch, endpoint.host, endpoint.port)

    async def controller_changed(self) -> None:
        """Wait until another broker, or none, is the controller."""
        await asyncio.shield(self._turn)

    def progress(self) -> Progress:
        """Give how much is known while a broker waits for the rest."""
        leader = None if self.seat is None else self.seat.controller_id
        return Progress(leader, self._offset, None, "the znodes are being read")

    def own_records(self) -> Iterator[VersionedRecord]:
        """Give nothing: a broker keeps no metadata on its disk."""
        return iter(())

    async def caught_up(self) -> MetadataImage:
        """Wait until the metadata has been read once, and give it; what is new from then on waits for `follow`."""
        await self._known.wait()
        self._kept.clear()
        return self.committed_image

    def follow(self, follower: Follower) -> None:
        """Tell `follower` every delta from the image that `caught_up` gave on, in order."""
        self._follower = follower
        kept, self._kept = self._kept, []
        for delta in kept:
            follower(delta)

    # -- what is asked

    async def register(self, data: Callable[[], bytes]) -> int:
        """Have the broker's znode made, in each session that is to come as well; give its epoch.

        data: what the znode is to say. From then on this broker may be elected. IdTakenError when another has its id.
        """
        self._wanted.set_result(data)
        return await self._place

    async def write(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Decide and write, as `ZooKeeperController.write`; ApiError NOT_CONTROLLER when this broker is not it."""
        if self._controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
        return await self._controller.write(decide)

    def answered(self, broker: int, request: ControlRequest, answer: Message) -> None:
        """Take what a broker says to what it was told, while this one is the controller."""
        if self._controller is not None:
            self._controller.answered(broker, request, answer)

    async def hear(self, request: ControlRequest) -> None:
        """Take up what the controller tells; ApiError when it has been replaced, or takes us for an earlier run.

        Configs of topics that are new come from ZooKeeper: nobody tells of them.
        """
        async with self._hearing:
            check_sender(request, -1 if self.seat is None else self.seat.epoch, self.broker_epoch)
            if self.seat is None or request.controller_epoch > self.seat.epoch:
                self._sit(Seat(request.controller_id, request.controller_epoch, None))
            if isinstance(request, StopReplicaRequest):
                return  # who is a replica is told by the others
            await self._read_configs(request)
            if isinstance(request, LeaderAndIsrRequest):
                self._apply(leader_and_isr_records(self.committed_image, request))
            else:
                self._apply(update_records(self.committed_image, request))

    async def _read_configs(self, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> None:
        known = self.committed_image.topics.by_id
        new = sorted(topic.topic_name for topic in request.topic_states if topic.topic_id not in known)
        if self.is_active or not new:
            return
        paths = [f"{CONFIG}/topics/{name}" for name in new]
        try:
            found = {znode.path: znode for znode in await read_znodes(self._zk, paths)}
        except ZooKeeperError as e:
            log.warning("the configs of new topics are not known for now", topics=new, why=str(e))
            return
        self._apply(
            record
            for name, path in zip(new, paths, strict=True)
            for record in config_update(self.committed_image, f"topics/{name}", found.get(path), self._around.passwords)
        )

    # -- running

    async def run(self) -> None:
        """Follow the metadata, and lead while elected, one session after the other, until `stop`."""
        self._task = asyncio.current_task()
        await in_each_session(self._zk, self._in_session)

    async def stop(self, *, hand_over: bool = True) -> None:
        """End `run`: this broker leads no more. Whoever owns the session ends it, and with it the broker's znode."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _in_session(self) -> None:
        try:
            await self._session()
        finally:
            self._sit(None)

    async def _session(self) -> None:
        kinds: list[tuple[str, Callable[[Znode], _Named]]] = [
            (CONFIG_CHANGES, self._named_config),
            (acls.LITERAL_CHANGES, self._named_rules),
            (acls.EXTENDED_CHANGES, self._named_rules),
            (tokens.CHANGES, self._named_token),
        ]
        told = []
        for parent, named in kinds:
            notifications = Notifications(self._zk, parent, partial(self._read_again, named))
            try:
                await notifications.mark()
            except NoNodeError:
                continue  # nobody in this cluster keeps such things there
            told.append(notifications)
        found = await read_znodes(self._zk, ROOTS)
        self._publish(difference(self.committed_image, replay(MetadataImage.EMPTY, image_records(found, self._around))))
        self._known.set()
        async with asyncio.TaskGroup() as group:
            for notifications in told:
                group.create_task(notifications.follow(), name="notifications")
            group.create_task(keep_few(self._zk, [parent for parent, _ in kinds], self._now_ms), name="old ones")
            group.create_task(self._belong(), name="membership")

    async def _belong(self) -> None:
        data = await asyncio.shield(self._wanted)
        session = self._zk.session_id
        try:
            epoch = await self._registration.register(data())
        except IdTakenError as e:
            if self._place.done():
                raise
            self._place.set_exception(e)
            return
        if not self._place.done():
            self._place.set_result(epoch)
        await self._hold_office(session)

    async def _hold_office(self, session: int) -> None:
        """Lead whenever this broker has the role, as long as the session lasts in which it has registered."""
        while True:
            changed = asyncio.Event()
            seat = await self._election.holder(changed)
            self._sit(seat)
            if seat.guard is None:
                log.info("the controller is", broker=seat.controller_id, epoch=seat.epoch)
                await changed.wait()
                continue
            if seat.epoch == self._led:
                # What was asked of ZooKeeper in this epoch may still be done: only another epoch shuts it out.
                await self._election.resign()
                continue
            self._led = seat.epoch
            self._controller = ZooKeeperController(self._zk, seat, self._around, self._publish)
            try:
                # A task of its own: before Python 3.13 groups that fail leave marks of a cancellation on the task that
                # they are in, by which a later one would take its own end for that of the task.
                await asyncio.create_task(self._controller.lead(self.committed_image, changed), name="controller")
            finally:
                self._controller = None
                if self._resigned is not None:
                    await self._resigned()
            if self._stopping or self._zk.session_id != session:
                return  # a group that fails as it is cancelled tells of the failure alone

    def _sit(self, seat: Seat | None) -> None:
        self.seat = seat
        self._show()

    def _show(self) -> None:
        shown = self.active_controller()
        if shown != self._shown:
            self._shown = shown
            turn, self._turn = self._turn, asyncio.get_running_loop().create_future()
            turn.set_result(None)

    # -- what others have changed

    def _named_config(self, told: Znode) -> _Named:
        path = changed_configs(told)
        return _Named(
            f"{CONFIG}/{path}", lambda image, _, znode: config_update(image, path, znode, self._around.passwords)
        )

    def _named_rules(self, told: Znode) -> _Named:
        return self._rules_of(acls.notified(told), told)

    @staticmethod
    def _rules_of(pattern: ResourcePattern, _: Znode) -> _Named:
        return _Named(acls.path(pattern), lambda _, rules, znode: rules_update(rules, pattern, znode))

    def _named_token(self, told: Znode) -> _Named:
        token_id = told.data.decode()
        return _Named(tokens.path(token_id), lambda image, _, znode: token_update(image, token_id, znode))

    async def _hear_of(self, told: Znode) -> None:
        """Take up what a notification of configs or tokens speaks of, before it comes by itself."""
        is_token = told.path.startswith(f"{tokens.CHANGES}/")
        await self._read_again(self._named_token if is_token else self._named_config, told)

    async def read_rules(self, pattern: ResourcePattern) -> None:
        """Take up what a pattern's znode says, before others tell of it."""
        await self._read_again(partial(self._rules_of, pattern), Znode(acls.path(pattern), b""))

    async def _read_again(self, named: Callable[[Znode], _Named], told: Znode) -> None:
        try:
            what = named(told)
            znode: Znode | None
            try:
                data, stat = await self._zk.get(what.path)
                znode = Znode(what.path, data, stat.version, stat.czxid)
            except NoNodeError:
                znode = None
            if self._controller is not None and self._controller.is_active:
                version = None if znode is None else znode.version
                self._controller.learn(what.path, version, lambda image, rules: what.update(image, rules, znode))
            else:
                self._apply(what.update(self.committed_image, self._rules, znode))
        except ZnodeError as e:
            log.error("a change is left out: what it speaks of cannot be read", why=str(e))

    # -- taking it up

    def _apply(self, found: Records) -> None:
        builder = DeltaBuilder(self.committed_image)
        for versioned in list(found):
            builder.replay(versioned.record)
        self._offset += 1
        delta = builder.build(self._offset, -1 if self.seat is None else self.seat.epoch)
        if not delta.empty:
            self._publish(delta)

    def _publish(self, delta: MetadataDelta) -> None:
        self._rules, _ = self._rules.after(delta)
        self.committed_image = delta.after
        self._around.publish(delta)
        if self._follower is not None:
            self._follower(delta)
        elif self._known.is_set():
            self._kept.append(delta)
        self._show()
