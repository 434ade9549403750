"""Tells the operator of a node that starts what it waits for: a leader of the quorum, or metadata not loaded yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import structlog

log = structlog.get_logger("kafka.server.Node")

T = TypeVar("T")
SAY_EVERY_S = 5.0


class Progress(NamedTuple):
    """How far loading has come. leader: None while no active controller is known; wanted: None until one was heard."""

    leader: int | None
    applied: int
    wanted: int | None
    because: str


async def told_while_waiting(waited: Awaitable[T], progress: Callable[[], Progress]) -> T:
    """Give what is waited for; meanwhile say again and again, at INFO, how far it has come."""
    task = asyncio.ensure_future(waited)
    try:
        while not (await asyncio.wait({task}, timeout=SAY_EVERY_S))[0]:
            now = progress()
            log.info(
                "waiting for the cluster's metadata and its ACLs",
                leader=now.leader,
                applied_offset=now.applied,
                wanted_offset=now.wanted,
                because=now.because,
            )  # fmt: skip
        return task.result()
    finally:
        task.cancel()
