"""Rolling changes of a group's settings, one worker at a time, while connectors are reconfigured all along."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import structlog
from structlog.typing import EventDict

from barnabas.connect.herder_port import HerderError
from barnabas.connect.worker import Worker
from tests.connect.rest.http import request
from tests.connect.test_group import leader_and_follower, settled
from tests.connect.workers import running, source, states, until, worker_properties

pytestmark = pytest.mark.slow
REBALANCE = "kafka.connect:type=connect-worker-rebalance-metrics"
NAMES = [f"c{n}" for n in range(4)]


class Rolling:
    """A group of two workers, each of which may be replaced by one with other settings."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties
        self.workers: list[Worker] = []
        self._stacks: list[AsyncExitStack] = []

    async def add(self, **settings: str) -> None:
        stack = AsyncExitStack()
        more = {name.replace("_", "."): value for name, value in settings.items()}
        self.workers.append(await stack.enter_async_context(running(self.properties | more)))
        self._stacks.append(stack)

    async def roll(self, load: Load, **settings: str) -> None:
        """Replace every worker, the oldest first; connectors are reconfigured with each mixture of settings."""
        for _ in range(len(self.workers)):
            self.workers.pop(0)
            await self._stacks.pop(0).aclose()
            await self.add(**settings)
            before = load.count
            # Each connector once, so that those of the follower are among them.
            await until(lambda before=before: load.count >= before + len(NAMES))  # type: ignore[misc]

    async def close(self) -> None:
        for stack in self._stacks:
            await stack.aclose()

    def running(self) -> bool:
        return settled(*self.workers) and all(
            states(w, name) == ["RUNNING", "RUNNING"] for w in self.workers for name in NAMES
        )


@asynccontextmanager
async def rolling(properties: dict[str, str], **settings: str) -> AsyncIterator[Rolling]:
    group = Rolling(properties)
    try:
        await group.add(**settings)
        await group.add(**settings)
        yield group
    finally:
        await group.close()


class Load:
    """Gives connector after connector another configuration, so that its tasks are submitted anew."""

    def __init__(self, group: Rolling, file: Path, topic: str) -> None:
        self.count = 0
        self.done = False
        self._group = group
        self._file = file
        self._topic = topic

    async def run(self) -> None:
        while not self.done:
            name = NAMES[self.count % len(NAMES)]
            config = source(self._file, self._topic) | {"name": name, "n": str(self.count)}
            leader = next((w for w in self._group.workers if w.engine.member.leads), None)
            try:
                if leader is not None:
                    await leader.herder.put_connector_config(name, config, allow_replace=True)
                    self.count += 1
            except HerderError:
                pass  # a rebalance, or the leader has just gone
            await asyncio.sleep(0.02)


async def under_load(group: Rolling, file: Path, topic: str, steps: list[dict[str, str]]) -> list[EventDict]:
    """Do the rolls while connectors are reconfigured; give what was logged."""
    load = Load(group, file, topic)
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(load.run())
        try:
            for settings in steps:
                await group.roll(load, **settings)
        finally:
            load.done = True
            await running
        await until(group.running)
    return lines


def refusals(lines: list[EventDict], *statuses: int) -> list[EventDict]:
    told = [f"answered {status}" for status in statuses]
    return [line for line in lines if any(text in f"{line.get('exc_info')} {line.get('why')}" for text in told)]


async def answers(group: Rolling) -> list[int]:
    """Give what each worker answers to unsigned task configurations of a connector that is not there."""
    return [(await request(w, "POST", "/connectors/none/tasks", b"[]")).status for w in group.workers]


def measured(group: Rolling) -> list[object]:
    """Give the protocol of each worker's latest join, as its measurements have it."""
    return [dict(w.metrics.registry.values())[REBALANCE]["connect-protocol"] for w in group.workers]


@pytest.mark.requirement("C-36")
async def test_the_signature_algorithm_changes_by_three_rolls(bootstrap: str, group: str, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("x\n")
    both, new = "HmacSHA256,HmacSHA512", "HmacSHA512"
    accepts, signs = "inter_worker_verification_algorithms", "inter_worker_signature_algorithm"
    async with rolling(worker_properties(bootstrap, group)) as rolled:
        steps = [{accepts: both}, {accepts: both, signs: new}, {accepts: new, signs: new}]
        lines = await under_load(rolled, file, f"{group}-d", steps)
    assert refusals(lines, 400) == []
    assert [line for line in refusals(lines, 403) if line["log_level"] != "debug"] == []
    assert [line for line in lines if "has failed" in line["event"]] == []


@pytest.mark.requirement("C-33", "C-34")
async def test_signing_goes_on_and_off_by_rolls(bootstrap: str, group: str, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("x\n")
    async with rolling(worker_properties(bootstrap, group), connect_protocol="compatible") as rolled:
        assert await answers(rolled) == [404, 404]
        lines = await under_load(rolled, file, f"{group}-d", [{"connect_protocol": "sessioned"}])
        assert await answers(rolled) == [400, 400]
        assert measured(rolled) == ["sessioned"] * 2
        lines += await under_load(rolled, file, f"{group}-d", [{"connect_protocol": "eager"}])
        assert await answers(rolled) == [404, 404]
        assert measured(rolled) == ["default"] * 2
    # What a follower has sent just before it learns that the group signs is refused, and sent again signed.
    late = Counter(line["connector"] for line in refusals(lines, 400))
    assert all(count == 1 for count in late.values()), late
    assert [line for line in lines if "has failed" in line["event"]] == []


@pytest.mark.requirement("C-37")
@pytest.mark.parametrize("cure", ["leader", "follower"])
async def test_an_algorithm_that_the_leader_forbids_fails_visibly_until_one_side_is_mended(
    bootstrap: str, group: str, tmp_path: Path, cure: str
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("x\n")
    properties = worker_properties(bootstrap, group)
    both = {"inter.worker.verification.algorithms": "HmacSHA256,HmacSHA512"}
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(running(properties))
        with structlog.testing.capture_logs() as lines:
            async with running(properties | both | {"inter.worker.signature.algorithm": "HmacSHA512"}) as two:
                leader, follower = await leader_and_follower(one, two)
                assert leader is one
                for name in NAMES:
                    await one.herder.put_connector_config(
                        name, source(file, f"{group}-d") | {"name": name}, allow_replace=True
                    )
                await until(lambda: len(follower.engine.work.connectors) == 2 and settled(one, two))
                theirs = sorted(follower.engine.work.connectors)
                await until(lambda: len(refusals(lines, 400)) > 3)
                assert all(states(one, name) == ["RUNNING"] for name in theirs)
                assert {line["log_level"] for line in refusals(lines, 400)} == {"error"}
                assert "HmacSHA512" in str(refusals(lines, 400)[0]["exc_info"])
                if cure == "leader":
                    one.stop()
                    await until(lambda: two.engine.member.leads)
                    async with running(properties | both) as three:
                        await until(lambda: all(states(three, name) == ["RUNNING", "RUNNING"] for name in NAMES))
        if cure == "follower":
            async with running(properties):
                await until(lambda: all(states(one, name) == ["RUNNING", "RUNNING"] for name in NAMES))
