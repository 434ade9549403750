"""What any broker writes to ZooKeeper itself before brokers forward: configs, quotas, credentials, tokens (F-42)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from barnabas.core.metadata.delta import DeltaBuilder, MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import Decision
from barnabas.core.zookeeper.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    ZooKeeperError,
)
from barnabas.core.zookeeper.paths import child
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.values import Operation
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.configs import Passwords
from barnabas.core.zookeeper.znodes.direct import (
    NOTIFIED,
    Found,
    check_direct,
    looked_at,
    transactions,
    update,
)
from barnabas.core.zookeeper.znodes.projection import Told, ZnodeChange, changes
from barnabas.core.zookeeper.znodes.znode import Znode, ZnodeError
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.walk import each
from barnabas.wire.errors import ApiError, ErrorCode

R = TypeVar("R")
TRIES: Final = 11
"""Of one change; whoever was faster makes one fail."""
PAUSE_S: Final = 0.1
_NO_EPOCH: Final = -1
_DIGITS: Final = 10


class DirectWrites:
    """Takes the same decisions as the controller, on what ZooKeeper says at that moment; one after the other."""

    def __init__(
        self,
        zk: ZooKeeperClient,
        acls_for: Callable[[str], ZnodeAcls],
        passwords: Passwords,
        image: Callable[[], MetadataImage],
        heard: Callable[[Znode], Awaitable[None]],
    ) -> None:
        """image: this broker's; heard: has it take up what a notification of ours speaks of, as if that had come."""
        self._zk = zk
        self._acls_for = acls_for
        self._passwords = passwords
        self._image = image
        self._heard = heard
        self._turn = asyncio.Lock()
        self._last = dict.fromkeys(NOTIFIED, -1)
        """The numbers of the newest notifications that were looked into here."""

    async def write(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Decide, write what was decided, and give its response when ZooKeeper and this broker have it.

        `decide` is asked again when what it goes by was not the newest. Raises what it raises; ApiError NOT_CONTROLLER
        for what only the controller changes, UNKNOWN_SERVER_ERROR when ZooKeeper has not taken it, or perhaps not all.
        """
        async with self._turn:
            try:
                return await self._insist(decide)
            except (ZooKeeperError, ZnodeError) as e:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper was not changed: {e}") from None

    async def _insist(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        for number in range(TRIES):
            if number:
                await asyncio.sleep(PAUSE_S)
            await self._catch_up()
            view = _View(self._image(), self._passwords)
            decision, todo = await self._decided(view, decide)
            asked = list(transactions(todo, view.found, self._acls_for))
            if await self._written(asked):
                for change in todo:
                    if isinstance(change, Told):
                        await self._heard(Znode(change.path, change.data))
                return decision.response
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"others changed it each time, in {TRIES} tries")

    async def _decided(
        self, view: _View, decide: Callable[[MetadataImage], Decision[R]]
    ) -> tuple[Decision[R], list[ZnodeChange]]:
        """Decide until all that the decision goes by has been read for it, and is as it was taken to be."""
        decision = decide(view.image)
        while True:
            delta = view.delta(decision)
            check_direct(delta)
            todo, _ = changes(delta, RulesByPattern(), _NO_EPOCH, self._passwords)
            unread = [path for path in dict.fromkeys(looked_at(todo)) if path not in view.found]
            if not unread:
                return decision, todo
            if await self._look(view, unread):
                decision = decide(view.image)

    async def _written(self, asked: Sequence[Sequence[Operation]]) -> bool:
        """Say whether all is done; else what was read is no longer so, or an answer was lost: look again."""
        done = await asyncio.gather(*(self._zk.multi(operations) for operations in asked), return_exceptions=True)
        failed = [error for error in done if isinstance(error, BaseException)]
        for error in failed:
            lost = isinstance(error, ConnectionLossError | SessionExpiredError) and not error.detail
            if not lost and not isinstance(error, BadVersionError | NodeExistsError | NoNodeError | NotEmptyError):
                raise error
        return not failed

    async def _catch_up(self) -> None:
        """Have this broker know what others have told of before now: of some of it, it may not have heard yet."""
        await self._zk.sync("/")
        for parent in NOTIFIED:
            new = await self._new_ones(parent)
            for told in {znode.data: znode for znode in new}.values():
                await self._heard(told)
            self._last[parent] = max([self._last[parent], *(_number(znode.path) for znode in new)])

    async def _new_ones(self, parent: str) -> list[Znode]:
        found: list[Znode] = []

        async def one(name: str) -> Iterable[str]:
            path = child(parent, name)
            with suppress(NoNodeError):  # an old one, which somebody has just taken away
                data, stat = await self._zk.get(path)
                found.append(Znode(path, data, stat.version, stat.czxid))
            return ()

        try:
            names = [name for name in await self._zk.children(parent) if name[-_DIGITS:].isdigit()]
        except NoNodeError:
            return []  # nobody in this cluster keeps such things
        await each([name for name in names if _number(name) > self._last[parent]], one)
        return found

    async def _look(self, view: _View, paths: Sequence[str]) -> bool:
        """Read some znodes; say whether they hold anything else than was known."""

        async def one(path: str) -> Iterable[str]:
            try:
                data, stat = await self._zk.get(path)
                names = await self._zk.children(path) if stat.children else []
                view.found[path] = Found(Znode(path, data, stat.version, stat.czxid), names)
            except NoNodeError:
                view.found[path] = None
            return ()

        await each(paths, one)
        return view.take_up(paths)


class _View:
    """An image, brought to what the znodes say that were read."""

    def __init__(self, image: MetadataImage, passwords: Passwords) -> None:
        self.image = image
        self.found: dict[str, Found | None] = {}
        self._passwords = passwords

    def take_up(self, paths: Iterable[str]) -> bool:
        """Take up what was found at some paths; say whether anything was not known so."""
        news = False
        for path in paths:
            one = self.found[path]
            records = list(update(self.image, path, None if one is None else one.znode, self._passwords))
            self.image = replay(self.image, records)
            news = news or bool(records)
        return news

    def delta(self, decision: Decision[R]) -> MetadataDelta:
        """Give what a decision changes."""
        builder = DeltaBuilder(self.image)
        for versioned in decision.records:
            builder.replay(versioned.record)
        return builder.build(self.image.offset_epoch.offset + 1, _NO_EPOCH)


def _number(name: str) -> int:
    return int(name[-_DIGITS:])
