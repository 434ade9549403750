"""Waiting for what another process does in its own time and announces to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

TIMEOUT_S = 60


async def eventually(ask: Callable[[], Awaitable[object]], wanted: object, timeout_s: float = TIMEOUT_S) -> None:
    """Ask until the answer is as wanted: a broker learns of a change a moment after the controller made it."""
    answer = await ask()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if answer == wanted:
                    return
                await asyncio.sleep(0.01)
                answer = await ask()
    except TimeoutError:
        raise AssertionError(f"after {timeout_s:g} s still {answer!r}, not {wanted!r}") from None
