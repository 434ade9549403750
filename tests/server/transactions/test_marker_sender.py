"""Markers are sent until they are written, whatever happens on the way."""

from __future__ import annotations

import asyncio
import gc

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.ending import Ending
from barnabas.core.transactions.marking import NO_LEADER
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import DisconnectedError
from barnabas.server.transactions.marker_sender import MarkerSender
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.core.transactions.test_marking import answer, asked_of

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
WAIT_S = 60.0


class World:
    """Partitions, their leaders, and a sender. refusals: what brokers do before they write; None: they are gone."""

    def __init__(self, *refusals: ErrorCode | None) -> None:
        self.leaders: dict[TopicPartition, int] = {A0: 1, A1: 2}
        self.refusals = list(refusals)
        self.asked: list[tuple[int, set[tuple[int, TopicPartition]]]] = []
        self.was_asked = asyncio.Event()
        self.finished: asyncio.Queue[tuple[int, Ending]] = asyncio.Queue()
        self.sender = MarkerSender(self.call, self.leaders.get, self._finished, retry_backoff_ms=1)

    def _finished(self, shard: int, ending: Ending) -> None:
        self.finished.put_nowait((shard, ending))

    async def call(self, broker: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.asked.append((broker, asked_of(request)))
        self.was_asked.set()
        if not self.refusals:
            return answer(request)
        error = self.refusals.pop(0)
        self.leaders[A0] = 3
        if error is None:
            raise DisconnectedError("gone")
        return answer(request, error)


def ending(*partitions: TopicPartition, number: int = 7) -> Ending:
    return Ending(f"t{number}", Producer(number, 0), True, frozenset(partitions), 0, 0, 40)


async def test_what_failed_is_sent_to_the_next_leader() -> None:
    world = World(None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.sender.begin(0, [ending(A0)])
    async with asyncio.timeout(WAIT_S):
        assert await world.finished.get() == (0, ending(A0))
    assert world.asked == [(broker, {(7, A0)}) for broker in (1, 3, 3)]
    assert len(world.sender) == 0


async def test_what_is_marked_at_once_is_over_in_one_turn_of_the_loop() -> None:
    done: list[tuple[int, Ending]] = []
    asked: list[WriteTxnMarkersRequest] = []

    def write(broker: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        asked.append(request)
        return answer(request)

    sender = MarkerSender(write, lambda tp: 1, lambda *one: done.append(one))
    sender.begin(0, [ending(A0)])
    sender.begin(1, [ending(A1, number=8)])
    await asyncio.sleep(0)
    assert done == [(0, ending(A0)), (1, ending(A1, number=8))]
    assert len(asked) == 1


async def test_a_partition_without_a_leader_is_waited_for() -> None:
    world = World()
    world.leaders[A0] = NO_LEADER
    world.sender.begin(0, [ending(A0, A1)])
    async with asyncio.timeout(WAIT_S):
        await world.was_asked.wait()
        assert world.sender.without_leader() == 1
        world.leaders[A0] = 1
        await world.finished.get()
    assert world.sender.without_leader() == 0
    assert world.asked == [(2, {(7, A1)}), (1, {(7, A0)})]


async def test_a_broker_is_asked_again_whatever_went_wrong() -> None:
    world = World()
    call, failures = world.call, [RuntimeError("not foreseen")]

    async def fails_once(broker: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        if failures:
            raise failures.pop()
        return await call(broker, request)

    sender = MarkerSender(
        fails_once, world.leaders.get, lambda *done: world.finished.put_nowait(done), retry_backoff_ms=1
    )
    with_errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: with_errors.append(context["exception"]))
    sender.begin(0, [ending(A0)])
    async with asyncio.timeout(WAIT_S):
        await world.finished.get()
    gc.collect()
    assert [str(e) for e in with_errors] == ["not foreseen"]


async def test_a_broker_that_fails_at_once_is_asked_again_and_keeps_no_other_from_being_asked() -> None:
    world = World()
    failures = [RuntimeError("not foreseen")]

    def call(broker: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        world.asked.append((broker, asked_of(request)))
        if failures:
            raise failures.pop()
        return answer(request)

    with_errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: with_errors.append(context["exception"]))
    sender = MarkerSender(call, world.leaders.get, lambda *done: world.finished.put_nowait(done), retry_backoff_ms=1)
    sender.begin(0, [ending(A0, A1)])
    async with asyncio.timeout(WAIT_S):
        assert await world.finished.get() == (0, ending(A0, A1))
    assert sorted(broker for broker, _ in world.asked) == [1, 1, 2] or sorted(b for b, _ in world.asked) == [1, 2, 2]
    assert [str(e) for e in with_errors] == ["not foreseen"]


async def test_many_go_in_one_request() -> None:
    world = World()
    world.sender.begin(0, [ending(A0, number=n) for n in range(3)])
    async with asyncio.timeout(WAIT_S):
        for _ in range(3):
            await world.finished.get()
    assert world.asked == [(1, {(0, A0), (1, A0), (2, A0)})]


async def test_nothing_is_sent_once_it_is_closed() -> None:
    world = World(*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100)
    world.sender.begin(0, [ending(A0)])
    async with asyncio.timeout(WAIT_S):
        await world.was_asked.wait()
    await world.sender.close()
    before = len(world.asked)
    await asyncio.sleep(0)
    assert len(world.asked) == before
