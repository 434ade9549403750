"""Produce requests with acks=all that wait until the in-sync replicas have what they wrote: Kafka's DelayedProduce.

A write waits at its partition, in a queue by offset, so that a move of the high watermark touches only the requests
it releases. A request is answered when all its writes are decided, or when its time is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from barnabas.wire.errors import ErrorCode


class Answer(Protocol):
    """What a partition of a response has in common with others."""

    error_code: int


class AckedRequest:
    """One request that waits. `done`: a future that the last of its writes resolves."""

    __slots__ = ("_left", "_purgatory", "_timer", "done")

    def __init__(self, purgatory: Purgatory, timeout_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        self._purgatory = purgatory
        self._left: dict[int, Answer] = {}
        self._timer = loop.call_later(max(0, timeout_ms) / 1000, self._expire)
        purgatory.size += 1

    def expect(self, answer: Answer) -> None:
        """Wait for one more write."""
        self._left[id(answer)] = answer

    def decided(self, answer: Answer, error: ErrorCode) -> None:
        """Take what became of a write; one that has timed out is not looked at any more."""
        if self._left.pop(id(answer), None) is None:
            return
        if error:
            answer.error_code = error
        if not self._left:
            self._finish()

    def _expire(self) -> None:
        for answer in self._left.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._purgatory.expirations += len(self._left)
        self.abandon()

    def abandon(self) -> None:
        """Stop waiting; does nothing when all is decided."""
        self._left.clear()
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self._timer.cancel()
            self._purgatory.size -= 1
            self.done.set_result(None)


class Purgatory:
    """Counts the requests of one kind that wait. expirations: of produce requests the writes whose time was over, of
    fetches the requests; follower_expirations: those of followers among them."""

    def __init__(self) -> None:
        self.size = 0
        self.expirations = 0
        self.follower_expirations = 0


class AckQueue:
    """The writes of one partition that are not committed yet, oldest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, AckedRequest, Answer]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, request: AckedRequest, answer: Answer) -> None:
        """Let a write wait until the high watermark is at `offset`; never before those that wait already."""
        if self._waiting:
            offset = max(offset, self._waiting[-1][0])  # a producer's repetition may lie further back
        self._waiting.append((offset, request, answer))

    def committed(self, high_watermark: int, error: ErrorCode) -> None:
        """Release what is committed. error: NOT_ENOUGH_REPLICAS_AFTER_APPEND when the ISR is too small by now."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, request, answer = waiting.popleft()
            request.decided(answer, error)

    def fail(self, error: ErrorCode) -> None:
        """Release all: they may never be committed here."""
        waiting, self._waiting = self._waiting, deque()
        for _, request, answer in waiting:
            request.decided(answer, error)
