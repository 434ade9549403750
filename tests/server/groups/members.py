"""What tests do with several consumers of one group, of either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer

WAIT_SECONDS: Final = 60.0


async def polled(members: list[Consumer], wanted: Callable[[], bool]) -> list[tuple[int, int]]:
    """Poll all members in turn until `wanted()`; gives what came: (partition, offset)."""
    seen = []
    async with asyncio.timeout(WAIT_SECONDS):
        while not wanted():
            for member in members:
                message = await asyncio.to_thread(member.poll, 0.05)
                if message is not None:
                    assert message.error() is None, message.error()
                    seen.append((message.partition() or 0, message.offset() or 0))
    return seen


def shares(members: list[Consumer]) -> list[int]:
    """Give how many partitions each has, the fewest first."""
    return sorted(len(m.assignment()) for m in members)
