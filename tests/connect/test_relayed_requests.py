"""Users' requests to a worker of ours that Apache Kafka's must do, because it leads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.connect.plain_runtime import FILE_SOURCE
from tests.connect.workers import running, states, until, worker_properties
from tests.peers.connect import JvmWorker, ask

pytestmark = [pytest.mark.slow, pytest.mark.peer]


@pytest.mark.requirement("C-26")
async def test_a_jvm_leader_does_what_a_worker_of_ours_passes_on(bootstrap: str, group: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\n")
    config = {"name": "lines", "connector.class": FILE_SOURCE, "file": str(tmp_path / "lines"), "topic": f"{group}-t"}
    jvm = JvmWorker(tmp_path / "jvm", bootstrap, group)
    await asyncio.to_thread(jvm.start)
    try:
        async with running(worker_properties(bootstrap, group)) as ours:
            assert ours.herder.leader_url == jvm.url + "/"
            connectors = f"{ours.url}connectors"
            created = await asyncio.to_thread(ask, connectors, "POST", {"name": "lines", "config": config})
            assert created.status == 201, created.text
            for method, path, done, wanted in (
                ("PUT", "stop", 204, ["STOPPED"]),
                ("PUT", "resume", 202, ["RUNNING", "RUNNING"]),
                ("POST", "restart?includeTasks=true", 202, ["RUNNING", "RUNNING"]),
                ("PUT", "stop", 204, ["STOPPED"]),
                ("DELETE", "offsets", 200, ["STOPPED"]),
                ("DELETE", "", 204, []),
            ):
                # Without a body, and so without saying of which type it is.
                answer = await asyncio.to_thread(ask, f"{connectors}/lines/{path}".rstrip("/"), method)
                assert answer.status == done, (method, path, answer.text)
                await until(lambda wanted=wanted: states(ours, "lines") == wanted)  # type: ignore[misc]
    finally:
        await asyncio.to_thread(jvm.stop)
