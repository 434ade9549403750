"""Carrying changes out, many at a time, through lost connections and sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.core.zookeeper.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    ZooKeeperError,
)
from barnabas.core.zookeeper.migration import Change, Make, Remove, SetAcls
from barnabas.core.zookeeper.values import Stat
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.lanes import Lanes
from barnabas.net.zookeeper.walk import Counted

_TRIES: Final = 5
"""Of one call. Each waits for a connection as long as the client does: a call that fails so often meets an ensemble
that is down."""
_LOST: Final = (ConnectionLossError, SessionExpiredError)
_NOTHING_TO_DO: Final = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)


@dataclass
class Outcome:
    """How many changes were made, and the paths where there was nothing to do any more."""

    done: int = 0
    gone: list[str] = field(default_factory=list)

    def add(self, change: Change, answer: object) -> None:
        """Count one. answer: an error that says more than that there was nothing to do is raised."""
        if isinstance(answer, _NOTHING_TO_DO):
            self.gone.append(change.path)
        elif isinstance(answer, ZooKeeperError):
            raise answer
        else:
            self.done += 1


async def carry_out(zk: ZooKeeperClient, changes: Sequence[Change], counted: Counted) -> Outcome:
    """Make all the changes: first what is new, then ACLs, last what is removed. What has vanished is skipped.

    A change whose answer is lost is made again, in another session if need be: all of them can be made twice.
    ConnectionLossError when the ensemble stays away; what was done by then is done.
    """
    outcome = Outcome()

    async def one(change: Make | Remove) -> None:
        try:
            await _insist(lambda: _make(zk, change))
            outcome.add(change, None)
        except _NOTHING_TO_DO as e:
            outcome.add(change, e)
        counted(1)

    async def many(zk: ZooKeeperClient, portion: Sequence[SetAcls]) -> None:
        found = await _set(zk, portion)
        for change in portion:
            outcome.add(change, found[change.path])
            counted(1)

    for make in (change for change in changes if isinstance(change, Make)):
        await one(make)
    async with Lanes(zk) as lanes:
        await lanes.spread([change for change in changes if isinstance(change, SetAcls)], many)
    for remove in (change for change in changes if isinstance(change, Remove)):
        await one(remove)
    return outcome


async def _make(zk: ZooKeeperClient, change: Make | Remove) -> None:
    match change:
        case Make():
            await zk.create(change.path, None, change.after)
        case Remove():
            await zk.delete(change.path, change.version)


async def _insist(call: Callable[[], Awaitable[None]]) -> None:
    for _ in range(_TRIES - 1):
        try:
            return await call()
        except _LOST:
            continue
    return await call()


async def _set(zk: ZooKeeperClient, changes: Sequence[SetAcls]) -> dict[str, Stat | ZooKeeperError]:
    """Give what became of each by its path, once those whose answers were lost have been made again."""
    found: dict[str, Stat | ZooKeeperError] = {}
    for _ in range(_TRIES):
        answers = await zk.set_acls_of([(change.path, change.after) for change in changes])
        found |= zip((change.path for change in changes), answers, strict=True)
        changes = [change for change in changes if isinstance(found[change.path], _LOST)]
        if not changes:
            break
    return found
