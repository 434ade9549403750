"""Task configurations on their way to a leader that does not take them: how often they are sent, and what is logged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import pytest
import structlog
from aiohttp import web
from immutables import Map
from structlog.typing import EventDict

from barnabas.connect.herder.task_configs import Forward, TaskConfig, TaskConfigs
from barnabas.connect.leader_client import LeaderClient
from barnabas.core.connect.config_state import Config
from barnabas.core.connect.session_keys import SessionKey
from barnabas.core.connect.signature import InternalRequestError, verify
from barnabas.testing.ports import free_ports
from tests.connect.clock import SetClock
from tests.connect.plain_runtime import LINES, PlainRuntime
from tests.connect.workers import until

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
CONFIG: Config = Map({"connector.class": LINES, "topic": "t", "file": "f"})


@dataclass
class Leader:
    """A leader's REST server that answers as it is told, and checks signatures as a leader does."""

    status: int = 403
    paths: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""

    async def serve(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.paths.append(request.raw_path)
        self.bodies.append(body)
        status, message = self.status, "as told"
        try:
            verify(request.headers, body, KEY, ["HmacSHA256"])
        except InternalRequestError as refused:
            status, message = refused.status, refused.message
        return web.json_response({"error_code": status, "message": message}, status=status)


@dataclass
class Follower:
    """The herder of a follower, as far as planning needs one."""

    leader: Leader
    key: SessionKey = KEY

    def plannable(self, connector: str) -> Config | None:
        return CONFIG

    async def publish(self, connector: str, planned_for: Config, configs: Sequence[TaskConfig]) -> Forward | None:
        return Forward(self.leader.url or None, self.key)

    def plan_failed(self, connector: str, trace: str) -> None:
        raise AssertionError(trace)


class NoOffsets:
    """A source's offsets: there are none."""

    async def read(self, connector: str, partitions: Sequence[Mapping[str, object]]) -> list[object]:
        return []


@pytest.fixture
async def leader() -> AsyncIterator[Leader]:
    leader = Leader()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", leader.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    leader.url = f"http://127.0.0.1:{port}/"
    yield leader
    await runner.cleanup()


class Errand:
    """One connector's errand on a clock of its own: waiting takes no time but is counted."""

    def __init__(self, leader: Leader, session: aiohttp.ClientSession, until_ms: int) -> None:
        self.leader = leader
        self.follower = Follower(leader)
        self.clock = SetClock()
        self.waits: list[float] = []
        self._end_ms = self.clock.ms + until_ms
        runtime = PlainRuntime(None, NoOffsets())  # type: ignore[arg-type]
        self.task_configs = TaskConfigs(
            runtime, LeaderClient(session), self.follower, "HmacSHA256", self.clock, sleep=self.sleep
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.ms += int(seconds * 1000)
        if self.clock.ms >= self._end_ms:
            self.leader.status = 200  # the key has arrived

    async def run(self) -> list[EventDict]:
        with structlog.testing.capture_logs() as lines:
            self.task_configs.request("a b/%")
            await until(lambda: not self.task_configs.busy)
        return lines


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.requirement("C-16", "C-24", "H-28", "H-30")
@pytest.mark.parametrize("status", [403, 503])
async def test_a_key_on_its_way_is_waited_for_quietly_for_a_minute(
    leader: Leader, session: aiohttp.ClientSession, status: int
) -> None:
    leader.status = status
    errand = Errand(leader, session, 200_000)
    lines = await errand.run()
    assert errand.waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert [line["log_level"] for line in lines] == ["debug"] * 8 + ["error"] * 3
    assert all("exc_info" in line for line in lines[8:])
    assert len(leader.bodies) == 12
    assert set(leader.paths) == {"/connectors/a%20b%2F%25/tasks"}


@pytest.mark.requirement("C-24")
async def test_each_try_is_signed_with_the_key_of_its_moment(leader: Leader, session: aiohttp.ClientSession) -> None:
    leader.status = 200  # to what is signed with the newest key

    class Late(Errand):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if len(self.waits) == 3:
                self.follower.key = KEY

    errand = Late(leader, session, 200_000)
    errand.follower.key = SessionKey(b"o" * 32, "HmacSHA256", 0)
    lines = await errand.run()
    assert errand.waits == [0.25, 0.5, 1.0]
    assert [line["log_level"] for line in lines] == ["debug"] * 3
    assert all("403" in line["why"] for line in lines)
    assert len(leader.bodies) == 4


@pytest.mark.requirement("C-25", "H-30")
@pytest.mark.parametrize("status", [400, 404, 409, 500])
async def test_any_other_refusal_is_an_error_from_the_first_on(
    leader: Leader, session: aiohttp.ClientSession, status: int
) -> None:
    leader.status = status
    errand = Errand(leader, session, 5_000)
    lines = await errand.run()
    assert [line["log_level"] for line in lines] == ["error"] * 5
    assert str(lines[0]["exc_info"]) == f"the leader answered {status}: as told"


@pytest.mark.requirement("C-25", "H-28")
async def test_a_leader_nobody_knows_or_reaches_is_an_error_too(leader: Leader, session: aiohttp.ClientSession) -> None:
    known, leader.url = leader.url, ""

    class Meanwhile(Errand):
        async def sleep(self, seconds: float) -> None:
            leader.url = known if self.waits else "http://127.0.0.1:1/"
            await super().sleep(seconds)

    lines = await Meanwhile(leader, session, 700).run()
    assert ["nobody has said" in str(line["exc_info"]) for line in lines] == [True, False]
    assert "the leader at http://127.0.0.1:1/ cannot be reached" in str(lines[1]["exc_info"])
    assert len(leader.bodies) == 1
