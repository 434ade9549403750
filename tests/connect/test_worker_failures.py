"""Workers that die, brokers that are away, and restarts under load: nothing is lost, and nothing fails for it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import structlog

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.connect.config import WorkerConfig
from barnabas.connect.herder_port import HerderError, NotFoundError, RebalanceNeededError, WriteFailedError
from barnabas.connect.worker import Worker
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.model.config import ConfigError
from barnabas.testing.local import LocalCluster
from tests.connect.clock import SetClock
from tests.connect.plain_runtime import FILE_SOURCE, PlainPlugins, PlainRuntime
from tests.connect.test_group import settled, tasks_here
from tests.connect.worker_process import worker_process
from tests.connect.workers import (
    PATIENCE_SECONDS,
    read_lines,
    running,
    source,
    states,
    status,
    until,
    worker_properties,
)
from tests.peers.eventually import eventually

pytestmark = pytest.mark.slow


def split(files: list[Path], topic: str) -> dict[str, str]:
    return source(files[0], topic, **{"files": ",".join(map(str, files)), "tasks.max": str(len(files))})


def some_files(folder: Path, count: int) -> list[Path]:
    files = [folder / f"{n}.txt" for n in range(count)]
    for file in files:
        file.write_text(f"{file.name} 1\n")
    return files


@pytest.mark.crash
@pytest.mark.requirement("C-14")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_tasks_of_a_worker_that_dies_go_on_elsewhere(
    bootstrap: str, group: str, tmp_path: Path, how: signal.Signals
) -> None:
    """The one that dies leads. Frozen, it comes back as a zombie and gives up what others have by then."""
    files, topic = some_files(tmp_path, 4), f"{group}-d"
    properties = worker_properties(bootstrap, group)
    doomed = properties | {"session.timeout.ms": "6000"}
    async with worker_process(tmp_path, doomed) as leader, running(properties) as worker:
        assert not worker.engine.member.leads
        key = worker.engine.configs.state.session_key
        await worker.engine.configs.put_connector_config("lines", split(files, topic))
        await until(lambda: states(worker, "lines") == ["RUNNING"] * 5 and len(tasks_here(worker)) == 2)
        assert sorted(await read_lines(bootstrap, topic, 4)) == [f"{n}.txt 1" for n in range(4)]

        async def kept() -> int:
            return len(await worker.herder.connector_offsets("lines"))

        await eventually(kept, 4)  # what is sent is kept a moment after it can be read
        leader.send_signal(how)
        for file in files:
            with file.open("a") as out:
                out.write(f"{file.name} 2\n")
        await until(lambda: worker.engine.member.leads and len(tasks_here(worker)) == 4)
        assert worker.engine.configs.state.session_key == key
        lines = await read_lines(bootstrap, topic, 8)
        assert {f"{n}.txt 2" for n in range(4)} <= set(lines)
        if how is signal.SIGSTOP:
            leader.send_signal(signal.SIGCONT)
            await until(lambda: len(tasks_here(worker)) == 2 and states(worker, "lines") == ["RUNNING"] * 5)
            assert worker.engine.member.leads
            # What a worker says of its tasks is in the status topic a moment after they run.
            await until(lambda: said_to_be_here(worker, "lines") == tasks_here(worker))


def said_to_be_here(worker: Worker, connector: str) -> list[ConnectorTaskId]:
    info = status(worker, connector)
    assert info is not None
    me = worker.herder.worker_id
    return sorted(ConnectorTaskId(connector, task.id) for task in info.tasks if task.worker_id == me)


async def test_a_broker_that_is_away_for_a_while_is_waited_for(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, group: str
) -> None:
    files, topic = some_files(tmp_path, 2), f"{group}-d"
    with LocalCluster(tmp_path_factory.mktemp("away"), combined=1, plaintext=True) as cluster:
        (node,) = list(cluster)
        properties = worker_properties(node.bootstrap, group, session_timeout_ms="6000")
        async with running(properties) as worker:
            await worker.herder.put_connector_config("lines", split(files, topic), allow_replace=False)
            await until(lambda: states(worker, "lines") == ["RUNNING"] * 3)
            await asyncio.to_thread(cluster.stop)
            await until(lambda: not worker.engine.work.tasks)  # others may have them by then
            await asyncio.to_thread(cluster.start)
            await until(lambda: len(worker.engine.work.tasks) == 2 and settled(worker))
            await worker.herder.pause_connector("lines")
            await until(lambda: states(worker, "lines") == ["PAUSED"] * 3)


async def test_who_asks_during_a_rebalance_is_told_which_and_since_when(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    """A frozen member keeps the others waiting."""
    properties = worker_properties(bootstrap, group)
    hasty = properties | {"worker.sync.timeout.ms": "200"}
    clock = SetClock()
    async with running(hasty, clock=clock) as worker, worker_process(tmp_path, properties) as frozen:
        await until(lambda: settled(worker))
        before_ms = clock.now_ms()
        frozen.send_signal(signal.SIGSTOP)
        worker.engine.group.rejoin("the test wants so")
        with pytest.raises(RebalanceNeededError, match="the test wants so") as refused:
            await worker.herder.delete_connector("x")
        assert refused.value.since_ms == before_ms
        assert refused.value.retry_after_ms > 0
        assert await worker.herder.connectors() == []  # reading goes on
        assert worker.herder.health().healthy
        clock.ahead_ms = 10_001
        health = worker.herder.health()
        assert (health.ready, health.healthy) == (True, False)
        assert "the test wants so" in health.stage
        frozen.send_signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while isinstance(again := await answer(worker.herder.delete_connector("x")), RebalanceNeededError):
                pass
        assert isinstance(again, NotFoundError)
        assert worker.herder.health().healthy


async def answer(asked: Awaitable[None]) -> HerderError | None:
    """Give what is raised, None for nothing."""
    try:
        await asked
    except HerderError as e:
        return e
    return None


async def test_a_worker_that_is_stopped_at_its_start_stops(bootstrap: str, group: str) -> None:
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    for turns in range(0, 60, 6):
        worker = Worker(
            WorkerConfig.from_properties(worker_properties(bootstrap, group)),
            PlainPlugins(),
            lambda offsets: PlainRuntime(client, offsets),
        )
        life = asyncio.create_task(worker.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        worker.stop()
        async with asyncio.timeout(30):
            await life


async def test_a_worker_whose_topic_forgets_does_not_start(bootstrap: str, group: str) -> None:
    async with Admin(ClientConfig.from_properties({"bootstrap.servers": bootstrap})) as admin:
        await admin.create_topics([NewTopic(f"{group}-status", 2, 1, configs={"cleanup.policy": "delete"})])
    with pytest.raises(ConfigError, match=r"status.storage.topic=.*cleanup.policy=delete"):
        async with running(worker_properties(bootstrap, group)):
            pass


async def test_a_config_topic_that_is_lost_is_said_and_running_tasks_go_on(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    (file,) = some_files(tmp_path, 1)
    properties = worker_properties(bootstrap, group)
    hasty = properties | {"default.api.timeout.ms": "5000", "delivery.timeout.ms": "1000", "max.block.ms": "1000"}
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    async with running(properties) as worker:
        await worker.herder.put_connector_config("lines", source(file, f"{group}-d"), allow_replace=False)
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
    async with Admin(client) as admin, running(hasty) as worker:
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        with structlog.testing.capture_logs() as lines:
            await admin.delete_topics([f"{group}-configs"])
            await until(lambda: [line for line in lines if line.get("key") == "config.storage.topic"])
            (said,) = [line for line in lines if line.get("key") == "config.storage.topic"]
            with pytest.raises(WriteFailedError, match=f"{group}-configs"):
                await worker.herder.pause_connector("lines")
        assert said["log_level"] == "error"
        assert f"{group}-configs" in said["why"]
        with file.open("a") as out:
            out.write("more\n")
        assert await read_lines(bootstrap, f"{group}-d", 2) == ["0.txt 1", "more"]


@pytest.mark.requirement("H-27")
async def test_restarts_under_load_fail_nothing(bootstrap: str, group: str, tmp_path: Path) -> None:
    (file,) = some_files(tmp_path, 1)
    properties = worker_properties(bootstrap, group)
    with structlog.testing.capture_logs() as lines:
        async with running(properties) as worker:

            async def create(n: int) -> None:
                async with asyncio.timeout(60):
                    while True:
                        try:
                            await worker.herder.put_connector_config(
                                f"c{n}", source(file, f"{group}-{n}") | {"name": f"c{n}"}, allow_replace=True
                            )
                        except HerderError:
                            continue
                        return

            for n in range(6):
                async with running(properties):
                    await asyncio.gather(create(n), create(n + 100))
            names = await worker.herder.connectors()
            assert len(names) == 12
            await until(lambda: all(states(worker, name) == ["RUNNING", "RUNNING"] for name in names))
    errors = [line for line in lines if line["log_level"] == "error"]
    assert len([line for line in errors if "has failed" in line["event"]]) == 0
    assert len(errors) <= 12, errors


@pytest.mark.requirement("H-31")
async def test_assignments_even_out_and_come_to_rest(bootstrap: str, group: str, tmp_path: Path) -> None:
    files = some_files(tmp_path, 12)
    properties = worker_properties(bootstrap, group)
    async with AsyncExitStack() as stack:
        workers: list[Worker] = [await stack.enter_async_context(running(properties))]
        await workers[0].herder.put_connector_config("lines", split(files, f"{group}-d"), allow_replace=False)
        for count in (1, 2, 3):
            if count > len(workers):
                workers.append(await stack.enter_async_context(running(properties)))
            share = 12 // count
            await until(lambda share=share: [len(tasks_here(w)) for w in workers] == [share] * len(workers))  # type: ignore[misc]
            await until(lambda: settled(*workers))
        generation = workers[0].engine.member.generation
        await workers[0].herder.put_connector_config("more", {"connector.class": FILE_SOURCE}, allow_replace=False)
        await until(lambda: settled(*workers) and states(workers[0], "more"))
        assert workers[0].engine.member.generation <= generation + 2
