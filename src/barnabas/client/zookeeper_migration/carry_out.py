"""Carrying changes out, many at a time, through lost connections and sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.client.zookeeper_migration.walk import Counted, each
from barnabas.core.zookeeper.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from barnabas.core.zookeeper.migration import Change, Make, Remove, SetAcls
from barnabas.net.zookeeper.client import ZooKeeperClient

_TRIES: Final = 5
"""Of one call. Each waits for a connection as long as the client does: a call that fails so often meets an ensemble
that is down."""


@dataclass
class Outcome:
    """How many changes were made, and the paths where there was nothing to do any more."""

    done: int = 0
    gone: list[str] = field(default_factory=list)


async def carry_out(zk: ZooKeeperClient, changes: Sequence[Change], counted: Counted) -> Outcome:
    """Make all the changes: first what is new, then ACLs, last what is removed. What has vanished is skipped.

    A change whose answer is lost is made again, in another session if need be: all of them can be made twice.
    ConnectionLossError when the ensemble stays away; what was done by then is done.
    """
    outcome = Outcome()

    async def one(change: Change) -> tuple[()]:
        try:
            await _insist(lambda: _make(zk, change))
            outcome.done += 1
        except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError):
            outcome.gone.append(change.path)
        counted(1)
        return ()

    for make in (change for change in changes if isinstance(change, Make)):
        await one(make)
    await each((change for change in changes if isinstance(change, SetAcls)), one)
    for remove in (change for change in changes if isinstance(change, Remove)):
        await one(remove)
    return outcome


async def _make(zk: ZooKeeperClient, change: Change) -> None:
    match change:
        case SetAcls():
            await zk.set_acls(change.path, change.after)
        case Make():
            await zk.create(change.path, None, change.after)
        case Remove():
            await zk.delete(change.path, change.version)


async def _insist(call: Callable[[], Awaitable[None]]) -> None:
    for _ in range(_TRIES - 1):
        try:
            return await call()
        except (ConnectionLossError, SessionExpiredError):
            continue
    return await call()
