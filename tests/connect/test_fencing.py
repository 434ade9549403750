"""Rounds of fencing in the herder's steps: who waits for which, what ends one early, and who is asked (KIP-618)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp
import pytest
from aiohttp import web

from barnabas.connect.herder import answers
from barnabas.connect.herder.fencing import Fencing, TaskPreflight
from barnabas.connect.herder_port import (
    BadRequestError,
    ConflictError,
    ConnectorType,
    HerderError,
    NotFoundError,
    NotLeaderError,
    WriteFailedError,
)
from barnabas.connect.leader_client import LeaderClient
from barnabas.core.connect.config_records import (
    connector_config_record,
    task_commit_record,
    task_config_records,
    task_count_record,
)
from barnabas.core.connect.config_state import EMPTY_CONFIG, ClusterConfigState, TaskConfigsUpdated, replay_config
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.records import Record
from barnabas.core.connect.session_keys import SessionKey
from barnabas.core.connect.signature import verify
from barnabas.testing.ports import free_ports
from tests.connect.plain_runtime import LINES, PlainPlugins, PlainRuntime

T = TypeVar("T")
KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)


@dataclass
class Herder:
    """The herder as far as fencing needs one: a config topic in memory, and its steps one after the other."""

    leads: bool = True
    leader_url: str | None = None
    signing_key: SessionKey | None = KEY
    assigned: Collection[ConnectorTaskId] = ()
    claimed: bool = True
    state: ClusterConfigState = EMPTY_CONFIG
    topic: list[Record] = field(default_factory=list)
    on_commit: Callable[[str], None] = lambda _: None
    _step: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, action: Callable[[], Awaitable[T]]) -> T:
        async with self._step:
            return await action()

    async def fresh_state(self) -> ClusterConfigState:
        return self.state

    async def put_task_count(self, connector: str, tasks: int) -> None:
        if not self.claimed:
            raise WriteFailedError("another worker leads")
        self.write(task_count_record(connector, tasks))

    def connector_type(self, state: ClusterConfigState, connector: str) -> ConnectorType:
        return answers.connector_type(PlainPlugins(), state.connector_config(connector))

    def write(self, *records: Record) -> None:
        for record in records:
            self.topic.append(record)
            self.state, event = replay_config(self.state, record.key, record.value, len(self.topic))
            if isinstance(event, TaskConfigsUpdated):
                self.on_commit(event.connector)

    def plan(self, tasks: int, name: str = "x") -> None:
        configs = [{"n": str(n)} for n in range(tasks)]
        self.write(*task_config_records(name, configs), task_commit_record(name, tasks))


class Brokers(PlainRuntime):
    """Shuts out nobody, but says who was to be, and takes as long as it is told to."""

    def __init__(self) -> None:
        self.fenced: list[tuple[str, int]] = []
        self.connectors: list[str | None] = []
        self.began = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.refuse: Exception | None = None

    async def fence(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        self.fenced.append((name, tasks))
        self.connectors.append(config.get("connector.class"))
        self.began.set()
        await self.may_go_on.wait()
        if self.refuse is not None:
            raise self.refuse


@dataclass
class World:
    herder: Herder
    brokers: Brokers
    fencing: Fencing


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give a leader whose source `x` has two tasks that write, and three that are to."""
    herder, brokers = Herder(), Brokers()
    async with aiohttp.ClientSession() as session:
        fencing = Fencing(herder, brokers, LeaderClient(session), "HmacSHA256")
        herder.on_commit = fencing.replanned
        herder.write(connector_config_record("x", {"name": "x", "connector.class": LINES}))
        herder.plan(2)
        await fencing.fence("x")
        herder.plan(3)
        yield World(herder, brokers, fencing)
        await fencing.close()


async def test_those_before_are_shut_out_and_then_those_of_now_may_begin(world: World) -> None:
    assert world.brokers.fenced == []  # there was nobody before the first ones
    await world.fencing.fence("x")
    assert (world.brokers.fenced, world.brokers.connectors) == ([("x", 2)], [LINES])
    assert world.herder.topic[-1] == task_count_record("x", 3)
    await world.fencing.fence("x")  # another task of the same generation
    assert world.brokers.fenced == [("x", 2)]


async def test_all_tasks_of_a_generation_wait_for_one_round_while_the_herder_goes_on(world: World) -> None:
    world.brokers.may_go_on.clear()
    tasks = [asyncio.create_task(world.fencing.fence("x")) for _ in range(3)]
    await world.brokers.began.wait()
    assert await asyncio.wait_for(world.herder.ask(world.herder.fresh_state), 1) is world.herder.state
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    world.brokers.may_go_on.set()
    await asyncio.gather(*tasks[1:])
    assert world.brokers.fenced == [("x", 2)]
    assert [r for r in world.herder.topic if r.key == b"tasks-fencing-x"] == [
        task_count_record("x", 2),
        task_count_record("x", 3),
    ]


async def test_a_round_ends_early_when_there_are_newer_tasks(world: World) -> None:
    world.brokers.may_go_on.clear()
    asked = asyncio.create_task(world.fencing.fence("x"))
    await world.brokers.began.wait()
    world.herder.plan(1)
    with pytest.raises(ConflictError, match="new task configurations"):
        await asked
    world.brokers.may_go_on.set()
    await world.fencing.fence("x")
    assert world.brokers.fenced == [("x", 2), ("x", 2)]
    assert world.herder.topic[-1] == task_count_record("x", 1)


async def test_a_round_is_not_recorded_where_newer_tasks_were_read_just_before(world: World) -> None:
    world.brokers.may_go_on.clear()
    world.herder.on_commit = lambda _: None
    asked = asyncio.create_task(world.fencing.fence("x"))
    await world.brokers.began.wait()
    world.herder.plan(1)
    world.brokers.may_go_on.set()
    with pytest.raises(ConflictError, match="new task configurations"):
        await asked
    assert world.herder.topic[-1] == task_commit_record("x", 1)


async def test_what_brokers_refuse_is_told_and_tried_again_by_the_next(world: World) -> None:
    world.brokers.refuse = PermissionError("not allowed to write as g-x-0")
    with pytest.raises(HerderError, match=r"x could not be shut out.*not allowed to write as g-x-0"):
        await world.fencing.fence("x")
    world.brokers.refuse = None
    await world.fencing.fence("x")
    assert world.brokers.fenced == [("x", 2), ("x", 2)]


async def test_a_leader_that_was_shut_out_itself_lets_nobody_begin(world: World) -> None:
    world.herder.claimed = False
    with pytest.raises(WriteFailedError):
        await world.fencing.fence("x")
    assert world.herder.state.task_count_records["x"] == 2


async def test_only_sources_that_are_there_are_fenced_and_only_by_the_leader(world: World) -> None:
    with pytest.raises(NotFoundError, match="Connector y not found"):
        await world.fencing.fence("y")
    world.herder.write(connector_config_record("y", {"name": "y", "connector.class": "Sink"}))
    with pytest.raises(BadRequestError, match="y is not a source connector"):
        await world.fencing.fence("y")
    world.herder.leads, world.herder.leader_url = False, "http://leader/"
    with pytest.raises(NotLeaderError) as refused:
        await world.fencing.fence("x")
    assert refused.value.url == "http://leader/"


async def test_a_task_begins_only_where_and_as_it_is_wanted(world: World) -> None:
    task = ConnectorTaskId("x", 0)
    preflight = TaskPreflight(world.fencing, task, world.herder.state.task_generation("x"))
    with pytest.raises(ConflictError, match="taken from this worker"):
        await preflight.check()
    world.herder.assigned = [task]
    await preflight.fence()
    await preflight.check()
    world.herder.plan(1)
    with pytest.raises(ConflictError, match="other task configurations"):
        await preflight.check()


@pytest.mark.parametrize(
    ("status", "error"), [(204, None), (409, ConflictError), (503, HerderError), (500, HerderError)]
)
async def test_a_follower_asks_the_leader_in_its_own_name(
    world: World, status: int, error: type[HerderError] | None
) -> None:
    seen: list[tuple[str, str, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        verify(request.headers, await request.read(), KEY, ["HmacSHA256"])
        seen.append((request.method, request.raw_path, request.headers.get("Content-Type")))
        if status == 204:
            return web.Response(status=204)
        return web.json_response({"error_code": status, "message": "as told"}, status=status)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    world.herder.leads, world.herder.leader_url = False, f"http://127.0.0.1:{port}/"
    preflight = TaskPreflight(world.fencing, ConnectorTaskId("a b/c", 0), 0)
    try:
        if error is None:
            await preflight.fence()
        else:
            with pytest.raises(error, match=f"{status}: as told"):
                await preflight.fence()
    finally:
        await runner.cleanup()
    assert seen == [("PUT", "/connectors/a%20b%2Fc/fence", None)]


async def test_without_a_leader_a_task_is_told_so(world: World) -> None:
    world.herder.leads = False
    with pytest.raises(HerderError, match="Nobody leads"):
        await TaskPreflight(world.fencing, ConnectorTaskId("x", 0), 0).fence()
