"""What is asked of the herder, waiting for its turn: one request after the other, each a step of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from barnabas.connect.herder_port import HerderError

T = TypeVar("T")


class _Request:
    __slots__ = ("action", "answer", "begun")

    def __init__(self, action: Callable[[], Awaitable[Any]], answer: asyncio.Future[Any]) -> None:
        self.action = action
        self.answer = answer
        self.begun = False


class Inbox:
    """Requests in the order they came. `wake` is set whenever the herder has a reason to turn."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self._waiting: deque[_Request] = deque()
        self._closed = False

    async def ask(
        self,
        action: Callable[[], Awaitable[T]],
        *,
        patience_s: float | None = None,
        too_late: Callable[[], Exception] | None = None,
    ) -> T:
        """Have the herder do `action` when its turn has come, and give what it gives or raise what it raises.

        patience_s: how long it may wait to begin, after which it is withdrawn and `too_late` says why; None: for ever.
        """
        if self._closed:
            raise HerderError("the worker is shutting down")
        request = _Request(action, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self.wake.set()
        try:
            if patience_s is not None:
                await asyncio.wait([request.answer], timeout=patience_s)
                if not request.begun and not request.answer.done():
                    self._waiting.remove(request)
                    raise too_late() if too_late is not None else HerderError("the worker is busy")
            answer: T = await request.answer
            return answer
        finally:
            request.answer.cancel()  # no effect on an answer; a caller that has gone is not worked for

    async def work_off(self) -> None:
        """Do everything that waits."""
        while self._waiting:
            request = self._waiting.popleft()
            if request.answer.done():
                continue
            request.begun = True
            try:
                answer = await request.action()
            except asyncio.CancelledError:
                _settle(request.answer, HerderError("the worker is shutting down"))
                raise
            except Exception as e:  # noqa: BLE001 - it is the asker's
                _settle(request.answer, e)
            else:
                if not request.answer.done():
                    request.answer.set_result(answer)

    def close(self) -> None:
        """Turn down what waits, and everything from now on."""
        self._closed = True
        while self._waiting:
            _settle(self._waiting.popleft().answer, HerderError("the worker is shutting down"))


def _settle(answer: asyncio.Future[Any], e: Exception) -> None:
    if not answer.done():
        answer.set_exception(e)
