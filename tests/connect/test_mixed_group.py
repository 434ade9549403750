"""Workers of ours and of Apache Kafka in one group, on a node of ours and on Apache Kafka's: each leads in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.connect.worker import Worker
from barnabas.core.connect.subprotocol import Subprotocol
from tests.connect.workers import running, source, states, status, until, worker_properties
from tests.peers.connect import JvmWorker
from tests.peers.eventually import eventually

pytestmark = [pytest.mark.peer]


@asynccontextmanager
async def jvm_worker(folder: Path, bootstrap: str, group: str, version: str) -> AsyncIterator[JvmWorker]:
    jvm = JvmWorker(folder, bootstrap, group, version)
    await asyncio.to_thread(jvm.start)
    try:
        yield jvm
    finally:
        await asyncio.to_thread(jvm.stop)


@pytest.fixture(params=["ours", "kafka"])
def brokers(request: pytest.FixtureRequest) -> str:
    """Give where a broker of each kind listens."""
    if request.param == "ours":
        return str(request.getfixturevalue("bootstrap"))
    return str(request.getfixturevalue("real_kafka").bootstrap("PLAINTEXT"))


@pytest.mark.requirement("C-08", "C-11", "C-14", "C-16", "C-17", "C-26")
async def test_both_lead_each_other_and_sign(brokers: str, group: str, tmp_path: Path) -> None:
    files = some_files(tmp_path)
    properties = worker_properties(brokers, group)
    async with Admin(ClientConfig.from_properties({"bootstrap.servers": brokers})) as admin:
        await admin.create_topics([NewTopic(f"{group}-{n}", 1, 1) for n in range(8)])
    async with jvm_worker(tmp_path / "jvm", brokers, group, "4.3.1") as jvm:
        async with running(properties) as ours:
            await until(lambda: ours.herder.leader_url == jvm.url + "/")
            assert ours.engine.member.subprotocol is Subprotocol.SESSIONED
            theirs = ours.engine.configs.state.session_key
            for n, file in enumerate(files[:4]):
                await put(jvm, f"c{n}", source(file, f"{group}-{n}"))
            # What of it is ours had its tasks written by the JVM, on our signed request.
            await until(lambda: shared(ours, jvm, 4))

            async def as_the_jvm_has_it() -> object:
                return (await asyncio.to_thread(jvm.ask, "/connectors/c0/status")).json

            await eventually(as_the_jvm_has_it, as_json(ours, "c0"))  # which reads the status topic by itself
            await live_as_the_jvm_says(ours, jvm)
        async with running(properties) as ours:
            await asyncio.to_thread(jvm.stop)
            await until(lambda: ours.engine.member.leads and running_all(ours, 4))
            await asyncio.to_thread(jvm.start)
            assert ours.engine.configs.state.session_key == theirs  # inherited with its age
            # A request to the JVM comes to our leader, and its connectors' tasks by signed requests.
            for n, file in enumerate(files[4:], 4):
                await put(jvm, f"c{n}", source(file, f"{group}-{n}"))
            await until(lambda: shared(ours, jvm, 8))


@pytest.mark.requirement("C-11", "C-14")
@pytest.mark.parametrize("version", ["3.9.1"])
async def test_a_jvm_worker_follows_our_key(bootstrap: str, group: str, tmp_path: Path, version: str) -> None:
    files = some_files(tmp_path)
    properties = worker_properties(bootstrap, group)
    async with running(properties) as ours:
        key = ours.engine.configs.state.session_key
        assert key is not None
        async with jvm_worker(tmp_path / "jvm", bootstrap, group, version) as jvm:
            for n, file in enumerate(files[:4]):
                await ours.herder.put_connector_config(
                    f"c{n}", source(file, f"{group}-{n}") | {"name": f"c{n}"}, allow_replace=False
                )
            await until(lambda: shared(ours, jvm, 4))
            assert ours.engine.configs.state.session_key == key


@pytest.mark.requirement("C-10", "C-12")
async def test_a_worker_of_before_brings_the_group_down_to_what_it_knows(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    files = some_files(tmp_path)
    properties = worker_properties(bootstrap, group)
    async with jvm_worker(tmp_path / "jvm", bootstrap, group, "2.3.0") as jvm, running(properties) as ours:
        assert ours.engine.member.subprotocol is Subprotocol.COMPATIBLE
        for n, file in enumerate(files[:4]):
            await put(jvm, f"c{n}", source(file, f"{group}-{n}"))
        await until(lambda: shared(ours, jvm, 4))
        assert ours.engine.configs.state.session_key is None
        await asyncio.to_thread(jvm.stop)
        await until(lambda: ours.engine.member.subprotocol is Subprotocol.SESSIONED and running_all(ours, 4))
        await until(lambda: ours.engine.configs.state.session_key)


async def live_as_the_jvm_says(ours: Worker, jvm: JvmWorker) -> None:
    """Have a JVM leader pause, resume, restart, stop and start again what runs here, and ask how it does."""
    theirs = f"127.0.0.1:{jvm.port}"
    name = next(iter(sorted(ours.engine.work.connectors)))
    for path, method, wanted in (
        ("pause", "PUT", ["PAUSED", "PAUSED"]),
        ("resume", "PUT", ["RUNNING", "RUNNING"]),
        ("stop", "PUT", ["STOPPED"]),
        ("resume", "PUT", ["RUNNING", "RUNNING"]),
        ("restart?includeTasks=true&onlyFailed=false", "POST", ["RUNNING", "RUNNING"]),
    ):
        assert (await asyncio.to_thread(jvm.ask, f"/connectors/{name}/{path}", method)).status in (202, 204)
        await until(lambda wanted=wanted: states(ours, name) == wanted)  # type: ignore[misc]
    offsets = (await asyncio.to_thread(jvm.ask, f"/connectors/{name}/offsets")).json["offsets"]
    assert [o["offset"] for o in offsets] == [{"position": 2}]
    found = [status(ours, f"c{n}") for n in range(4)]
    # What the JVM runs is paused from here, and the other way round.
    other = next(info.name for info in found if info is not None and info.connector.worker_id == theirs)
    await ours.herder.pause_connector(other)
    await until(lambda: states(ours, other) == ["PAUSED", "PAUSED"])
    await ours.herder.resume_connector(other)
    await until(lambda: running_all(ours, 4))


def some_files(folder: Path) -> list[Path]:
    files = [folder / f"{n}.txt" for n in range(8)]
    for file in files:
        file.write_text("x\n")
    return files


async def put(jvm: JvmWorker, name: str, config: dict[str, str]) -> None:
    """Create a connector through a JVM worker; a rebalance under way is waited for."""
    async with asyncio.timeout(60):
        while True:
            body = config | {"name": name}
            answer = await asyncio.to_thread(jvm.ask, f"/connectors/{name}/config", "PUT", body)
            if answer.status != 409:
                assert answer.status in (200, 201), answer
                return


def running_all(ours: Worker, count: int) -> bool:
    return all(states(ours, f"c{n}") == ["RUNNING", "RUNNING"] for n in range(count))


def shared(ours: Worker, jvm: JvmWorker, count: int) -> bool:
    """Say whether all connectors run, half of them and of their tasks on each worker."""
    if not running_all(ours, count):
        return False
    found = [status(ours, f"c{n}") for n in range(count)]
    connectors = [info.connector.worker_id for info in found if info is not None]
    tasks = [info.tasks[0].worker_id for info in found if info is not None]
    theirs = f"127.0.0.1:{jvm.port}"
    return all(ids.count(ours.herder.worker_id) == ids.count(theirs) == count // 2 for ids in (connectors, tasks))


def as_json(ours: Worker, name: str) -> object:
    info = status(ours, name)
    assert info is not None
    connector = {"state": info.connector.state, "worker_id": info.connector.worker_id}
    tasks = [{"id": t.id, "state": t.state, "worker_id": t.worker_id, "version": t.version} for t in info.tasks]
    return {
        "name": name,
        "connector": connector | {"version": info.connector.version},
        "tasks": tasks,
        "type": info.type.value,
    }
