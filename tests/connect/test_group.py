"""Workers of ours in one group: work shared out, moved, handed on; tasks submitted by followers, signed."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from barnabas.connect.herder_port import InternalRequest, NotAssignedError, NotLeaderError
from barnabas.connect.worker import Worker
from barnabas.core.connect.config_state import TaskConfigsUpdated
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.signature import InternalRequestError, sign
from barnabas.core.connect.status import State
from barnabas.core.connect.subprotocol import Subprotocol
from tests.connect.plain_runtime import FILE_SOURCE, PlainPlugins
from tests.connect.workers import read_lines, running, source, states, until, worker_properties

pytestmark = pytest.mark.slow


def settled(*workers: Worker) -> bool:
    """Say whether all agree on a generation and do what it says."""
    generations = {w.engine.member.generation for w in workers}
    return len(generations) == 1 and all(w.engine.stage == "" and not w.engine.member.must_join for w in workers)


async def leader_and_follower(one: Worker, two: Worker) -> tuple[Worker, Worker]:
    """Give who leads and who follows, once both know it: the first one begins alone."""
    await until(lambda: settled(one, two))
    return (one, two) if one.engine.member.leads else (two, one)


def tasks_here(worker: Worker) -> list[ConnectorTaskId]:
    return sorted(worker.engine.work.tasks)


@pytest.mark.parametrize("protocol", ["sessioned", "compatible", "eager"])
async def test_work_is_shared_and_moves_when_a_worker_goes(
    bootstrap: str, group: str, tmp_path: Path, protocol: str
) -> None:
    files = [tmp_path / f"{n}.txt" for n in range(4)]
    for file in files:
        file.write_text(f"{file.name}\n")
    properties = worker_properties(bootstrap, group, connect_protocol=protocol)
    config = source(files[0], f"{group}-d", **{"files": ",".join(map(str, files)), "tasks.max": "4"})
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(running(properties))
        async with running(properties) as two:
            leader, _ = await leader_and_follower(one, two)
            await leader.herder.put_connector_config("lines", config, allow_replace=False)
            await until(lambda: states(one, "lines") == ["RUNNING"] * 5 and settled(one, two))
            assert sorted(tasks_here(one) + tasks_here(two)) == [ConnectorTaskId("lines", n) for n in range(4)]
            assert {len(tasks_here(one)), len(tasks_here(two))} == {2}
            assert sorted(await read_lines(bootstrap, f"{group}-d", 4)) == [f"{n}.txt" for n in range(4)]
        await until(lambda: len(tasks_here(one)) == 4 and states(one, "lines") == ["RUNNING"] * 5)
        assert one.engine.member.leads
        assert one.engine.member.subprotocol is Subprotocol({"eager": "default"}.get(protocol, protocol))


@pytest.mark.requirement("C-16", "H-28")
async def test_a_followers_connector_has_its_tasks_written_by_the_leader(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    """Two connectors, so that each worker has one: the follower's tasks come by a signed request, whatever its name."""
    file = tmp_path / "in.txt"
    file.write_text("x\n")
    properties = worker_properties(bootstrap, group)
    names = ["a b", "ü%2F", "plain", "a/b"]
    async with running(properties) as one, running(properties) as two:
        leader, follower = await leader_and_follower(one, two)
        for name in names:
            await leader.herder.put_connector_config(
                name, source(file, f"{group}-{names.index(name)}") | {"name": name}, allow_replace=False
            )
        await until(lambda: all(states(leader, name) == ["RUNNING", "RUNNING"] for name in names))
        await until(lambda: settled(one, two))
        assert len(follower.engine.work.connectors) == len(leader.engine.work.connectors) == 2
        with pytest.raises(NotLeaderError) as refused:
            await follower.herder.delete_connector("plain")
        assert refused.value.url == leader.url == follower.herder.leader_url
        owner = next(w for w in (one, two) if "plain" in w.engine.work.connectors)
        if owner is follower:
            with pytest.raises(NotAssignedError) as elsewhere:
                await leader.herder.restart_connector("plain")
            assert elsewhere.value.url == follower.url


@pytest.mark.requirement("C-12", "C-22")
async def test_internal_requests_are_checked_where_the_group_signs_and_only_there(bootstrap: str, group: str) -> None:
    properties = worker_properties(bootstrap, group)
    async with running(properties) as one:
        key = one.engine.configs.state.session_key
        assert key is not None
        one.herder.verify_internal_request(InternalRequest(b"[]", sign(b"[]", key, "HmacSHA256")))
        with pytest.raises(InternalRequestError) as refused:
            one.herder.verify_internal_request(InternalRequest(b"[]", {}))
        assert refused.value.status == 400
        with pytest.raises(InternalRequestError) as refused:
            one.herder.verify_internal_request(InternalRequest(b"[ ]", sign(b"[]", key, "HmacSHA256")))
        assert refused.value.status == 403
        async with running(properties | {"connect.protocol": "compatible"}):
            await until(lambda: one.engine.member.subprotocol is Subprotocol.COMPATIBLE)
            one.herder.verify_internal_request(InternalRequest(b"[]", {}))
        await until(lambda: one.engine.member.subprotocol is Subprotocol.SESSIONED)
        with pytest.raises(InternalRequestError):
            one.herder.verify_internal_request(InternalRequest(b"[]", {}))


async def test_a_task_that_is_as_it_is_wanted_goes_on_when_the_change_is_heard_of_late(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    """The record is read while the worker joins: then the task is started with what it says before it is acted on."""
    (tmp_path / "in.txt").write_text("x\n")
    async with running(worker_properties(bootstrap, group)) as one:
        await one.herder.put_connector_config("lines", source(tmp_path / "in.txt", f"{group}-d"), allow_replace=False)
        await until(lambda: states(one, "lines") == ["RUNNING", "RUNNING"] and settled(one))
        engine, started = one.engine, one.engine.member.generation
        engine.changes.add(TaskConfigsUpdated("lines", (ConnectorTaskId("lines", 0),)), engine.config, 0)
        engine.inbox.wake.set()
        await until(lambda: engine.member.generation > started and settled(one))
        await engine.local.flush()
        (told,) = engine.statuses.state.tasks("lines")
        assert (told.state, told.generation) == (State.RUNNING, started)


async def test_tasks_go_to_workers_that_have_the_class(bootstrap: str, group: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.txt" for n in range(4)]
    for file in files:
        file.write_text("x\n")
    properties = worker_properties(bootstrap, group)
    config = source(files[0], f"{group}-d", **{"files": ",".join(map(str, files)), "tasks.max": "4"})
    async with running(properties, plugins=PlainPlugins("other.Class")) as one, running(properties) as two:
        leader, _ = await leader_and_follower(one, two)
        await leader.engine.configs.put_connector_config("lines", config)
        await until(lambda: states(two, "lines") == ["RUNNING"] * 5 and settled(one, two))
        assert (len(tasks_here(one)), len(tasks_here(two))) == (0, 4)


async def test_a_task_on_a_worker_without_its_class_says_what_to_do(bootstrap: str, group: str) -> None:
    async with running(worker_properties(bootstrap, group), plugins=PlainPlugins("other.Class")) as one:
        await one.engine.configs.put_connector_config("c", {"name": "c", "connector.class": FILE_SOURCE})
        await one.engine.configs.put_task_configs("c", [{"task.class": "FileStreamSourceTask"}])
        await until(lambda: states(one, "c") == ["FAILED", "FAILED"])
        trace = one.herder.task_status(ConnectorTaskId("c", 0)).trace or ""
        assert FILE_SOURCE in trace
        assert "Install the connector on every worker" in trace
