"""A worker alone: connectors and tasks from creation to deletion, seen in its topics and its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.connect.herder_port import AlreadyExistsError, BadRequestError, InvalidConfigError, NotFoundError
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.restarts import RestartRequest
from tests.connect.workers import read_lines, running, source, states, status, until, worker_properties

pytestmark = pytest.mark.slow


async def test_a_connector_lives_from_creation_to_deletion(bootstrap: str, group: str, tmp_path: Path) -> None:
    file, topic = tmp_path / "in.txt", f"{group}-data"
    file.write_text("one\ntwo\n")
    async with running(worker_properties(bootstrap, group)) as worker:
        herder = worker.herder
        created, info = await herder.put_connector_config("lines", source(file, topic), allow_replace=False)
        assert (created, info.name, info.config["topic"]) == (True, "lines", topic)
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        assert await read_lines(bootstrap, topic, 2) == ["one", "two"]
        assert [task.id for task in await herder.task_configs("lines")] == [ConnectorTaskId("lines", 0)]
        found = status(worker, "lines")
        assert found is not None
        assert (found.connector.worker_id, found.connector.version) == (herder.worker_id, "1.0")
        await until(lambda: herder.connector_active_topics("lines") == [topic])

        with pytest.raises(AlreadyExistsError):
            await herder.put_connector_config("lines", source(file, topic), allow_replace=False)
        with pytest.raises(InvalidConfigError, match="no class nowhere"):
            await herder.put_connector_config("x", {"connector.class": "nowhere"}, allow_replace=False)

        await herder.pause_connector("lines")
        await until(lambda: states(worker, "lines") == ["PAUSED", "PAUSED"])
        await herder.resume_connector("lines")
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])

        with pytest.raises(BadRequestError, match="STOPPED"):
            await herder.reset_connector_offsets("lines")
        await herder.stop_connector("lines")
        await until(lambda: states(worker, "lines") == ["STOPPED"])
        (offset,) = await herder.connector_offsets("lines")
        assert (offset.partition, offset.offset) == ({"filename": str(file)}, {"position": 8})
        assert await herder.reset_connector_offsets("lines") == "reset"
        await herder.resume_connector("lines")
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        assert await read_lines(bootstrap, topic, 4) == ["one", "two", "one", "two"]

        await herder.delete_connector("lines")
        await until(lambda: status(worker, "lines") is None)
        assert await herder.connectors() == []
        await until(lambda: herder.connector_active_topics("lines") == [])
        with pytest.raises(NotFoundError):
            await herder.delete_connector("lines")


async def test_another_configuration_restarts_connector_and_tasks(bootstrap: str, group: str, tmp_path: Path) -> None:
    one, two = tmp_path / "1.txt", tmp_path / "2.txt"
    one.write_text("a\n")
    two.write_text("b\n")
    async with running(worker_properties(bootstrap, group)) as worker:
        herder = worker.herder
        await herder.put_connector_config("lines", source(one, f"{group}-1"), allow_replace=True)
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        more = {"files": f"{one},{two}", "tasks.max": "2"}
        info = await herder.patch_connector_config("lines", {"topic": f"{group}-2", **more})
        assert info.config["files"] == more["files"]
        await until(lambda: states(worker, "lines") == ["RUNNING"] * 3)
        assert sorted(await read_lines(bootstrap, f"{group}-2", 1)) == ["b"]  # the first file was read already
        await herder.patch_connector_config("lines", {"files": None})
        await until(lambda: states(worker, "lines") == ["RUNNING"] * 2)


async def test_what_has_failed_is_restarted_by_request(bootstrap: str, group: str, tmp_path: Path) -> None:
    file = tmp_path / "later.txt"
    async with running(worker_properties(bootstrap, group)) as worker:
        herder = worker.herder
        await herder.put_connector_config("lines", source(file, f"{group}-d"), allow_replace=True)
        await until(lambda: states(worker, "lines") == ["RUNNING", "FAILED"])
        assert "FileNotFoundError" in (herder.task_status(ConnectorTaskId("lines", 0)).trace or "")
        file.write_text("x\n")
        await herder.restart_task(ConnectorTaskId("lines", 0))
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        file.unlink()
        await until(lambda: states(worker, "lines") == ["RUNNING", "FAILED"])
        file.write_text("x\n")
        info = await herder.restart_connector_and_tasks(RestartRequest("lines", only_failed=True, include_tasks=True))
        assert (info.connector.state, [t.state for t in info.tasks]) == ("RUNNING", ["RESTARTING"])
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        with pytest.raises(NotFoundError):
            await herder.restart_task(ConnectorTaskId("lines", 7))
        with pytest.raises(NotFoundError):
            await herder.restart_connector("nope")


async def test_a_connector_whose_tasks_cannot_be_planned_fails_until_it_is_mended(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("x\n")
    async with running(worker_properties(bootstrap, group)) as worker:
        herder = worker.herder
        config = source(file, f"{group}-d")
        topic = config.pop("topic")
        await herder.put_connector_config("lines", config, allow_replace=True)
        await until(lambda: states(worker, "lines") == ["FAILED"])
        await herder.patch_connector_config("lines", {"topic": topic})
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])


async def test_work_goes_on_where_it_was_when_the_worker_comes_back(bootstrap: str, group: str, tmp_path: Path) -> None:
    file, topic = tmp_path / "in.txt", f"{group}-data"
    file.write_text("one\n")
    properties = worker_properties(bootstrap, group)
    async with running(properties) as worker:
        await worker.herder.put_connector_config("lines", source(file, topic), TargetState.STARTED, allow_replace=False)
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        await read_lines(bootstrap, topic, 1)
    file.write_text("one\ntwo\n")
    async with running(properties) as worker:
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        assert await read_lines(bootstrap, topic, 2) == ["one", "two"]
