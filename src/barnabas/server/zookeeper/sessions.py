"""Work that lasts as long as a session with ZooKeeper, and begins anew in the one that follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Never

import structlog

from barnabas.core.zookeeper.errors import ZooKeeperError
from barnabas.core.zookeeper.values import SessionEvent, SessionState
from barnabas.net.zookeeper.client import ZooKeeperClient

log = structlog.get_logger("kafka.zookeeper")

PAUSE_S: Final = 0.2
"""Before ZooKeeper is asked again after it could not be."""


async def in_each_session(zk: ZooKeeperClient, work: Callable[[], Awaitable[None]]) -> Never:
    """Do the work, and again whenever the session has ended or ZooKeeper cannot be asked, until cancelled.

    What else the work raises is raised.
    """
    while True:
        ended = asyncio.Event()
        forget = zk.on_state(partial(_note_end, ended))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_until(ended), name="session")
                group.create_task(_never_done(work), name="work of a session")
        except BaseExceptionGroup as e:
            expected, other = e.split((_SessionEndError, ZooKeeperError))
            if other is not None:
                raise _only(other) from None
            assert expected is not None
            log.info("begins anew with ZooKeeper", because=str(_only(expected)))
            await asyncio.sleep(PAUSE_S)
        finally:
            forget()


async def _never_done(work: Callable[[], Awaitable[None]]) -> None:
    await work()
    raise AssertionError("the work of a session lasts as long as the session")


async def _until(ended: asyncio.Event) -> None:
    await ended.wait()
    raise _SessionEndError("the session has ended")


def _note_end(ended: asyncio.Event, event: SessionEvent) -> None:
    if event.state is SessionState.EXPIRED:
        ended.set()


def _only(errors: BaseException) -> BaseException:
    """Give the first of what a group holds, however deep."""
    return _only(errors.exceptions[0]) if isinstance(errors, BaseExceptionGroup) else errors


class _SessionEndError(Exception):
    """Ends what lives in a session."""
