"""What a worker says: whether requests are verified, records it does not know, and never a key."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import structlog
from structlog.typing import EventDict

from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.subprotocol import Subprotocol
from tests.connect.plain_runtime import FILE_SOURCE
from tests.connect.workers import running, source, states, until, worker_properties

pytestmark = pytest.mark.slow


def of_verification(lines: list[EventDict]) -> list[tuple[str, str]]:
    return [(line["log_level"], line["event"]) for line in lines if "verified" in line["event"]]


@pytest.mark.requirement("C-28")
async def test_each_joiner_says_that_requests_are_verified(bootstrap: str, group: str) -> None:
    properties = worker_properties(bootstrap, group)
    said = [("info", "requests between workers are verified in this group")]
    with structlog.testing.capture_logs() as first:
        async with running(properties):
            assert of_verification(first) == said
            async with running(properties):
                assert of_verification(first) == said * 2


@pytest.mark.requirement("C-29", "C-31")
@pytest.mark.parametrize("protocol", ["compatible", "eager"])
async def test_a_worker_that_will_not_sign_warns_at_its_start(bootstrap: str, group: str, protocol: str) -> None:
    properties = worker_properties(bootstrap, group, connect_protocol=protocol)
    with structlog.testing.capture_logs() as lines:
        async with running(properties):
            pass
    (said,) = [line for line in lines if "verified" in line["event"]]
    assert said["log_level"] == "warning"
    assert "will not be verified" in said["event"]
    assert said["because"].startswith(
        f"connect.protocol is {Subprotocol({'eager': 'default'}.get(protocol, protocol))}"
    )
    assert "connect.protocol=sessioned" in said["remedy"]
    assert not [line for line in lines if line["log_level"] == "error"]


@pytest.mark.requirement("C-10", "C-30", "C-31", "C-34")
async def test_a_signing_worker_warns_when_its_group_does_not(bootstrap: str, group: str) -> None:
    properties = worker_properties(bootstrap, group)
    async with running(properties) as worker:
        with structlog.testing.capture_logs() as lines:
            async with running(properties | {"connect.protocol": "eager"}):
                await until(lambda: worker.engine.member.subprotocol is Subprotocol.DEFAULT)
                await until(lambda: any("open to anybody" in line["event"] for line in lines))
            await until(lambda: worker.engine.member.subprotocol is Subprotocol.SESSIONED)
            await until(lambda: of_verification(lines)[-1][1] == "requests between workers are verified in this group")
        warned = [line for line in lines if line["event"].startswith("requests between workers are not verified")]
        assert [line["log_level"] for line in warned] == ["warning"]
        assert "the protocol default" in warned[0]["because"]
        assert "connect.protocol=sessioned" in warned[0]["remedy"]
        assert not [line for line in lines if line["log_level"] == "error"]


@pytest.mark.requirement("C-35")
async def test_a_record_with_an_unknown_key_is_an_error_and_nothing_else(bootstrap: str, group: str) -> None:
    async with running(worker_properties(bootstrap, group)) as worker:
        with structlog.testing.capture_logs() as lines:
            config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
            async with Producer(config) as producer:
                await producer.send(f"{group}-configs", b"{}", key=b"of-tomorrow-1")
                await producer.send(f"{group}-configs", b"no json", key=b"connector-x")
            await worker.herder.put_connector_config("c", {"connector.class": FILE_SOURCE}, allow_replace=True)
        errors = [line for line in lines if line["event"] == "a record of the config topic is skipped"]
        assert [line["log_level"] for line in errors] == ["error", "error"]
        assert "of-tomorrow-1" in errors[0]["why"]
        assert await worker.herder.connectors() == ["c"]


async def test_a_task_that_fails_is_told_in_a_line_with_its_trace_once(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with running(worker_properties(bootstrap, group)) as worker:
            config = source(tmp_path / "missing", f"{group}-t")
            await worker.herder.put_connector_config("lines", config, allow_replace=True)
            await until(lambda: states(worker, "lines") == ["RUNNING", "FAILED"])
            trace = worker.herder.task_status(ConnectorTaskId("lines", 0)).trace
    (told,) = [line for line in lines if line["log_level"] == "error"]
    assert (told["task"], told["exception"]) == ("lines-0", trace)
    assert told["why"].startswith("FileNotFoundError: ")
    assert "\n" not in told["why"]


@pytest.mark.requirement("C-40")
async def test_no_log_line_and_no_repr_shows_a_key(bootstrap: str, group: str) -> None:
    properties = worker_properties(bootstrap, group)
    with structlog.testing.capture_logs() as lines:
        async with running(properties) as worker, running(properties):
            await worker.herder.put_connector_config("c", {"connector.class": FILE_SOURCE}, allow_replace=True)
            await until(lambda: worker.engine.configs.state.connectors == ["c"])
            state = worker.engine.configs.state
            assert state.session_key is not None
            key = state.session_key.key
            shown = f"{lines} {state!r} {state.session_key!r} {worker.engine.parts!r}"
    for text in (base64.b64encode(key).decode(), key.hex(), repr(key)):
        assert text not in shown + str(lines)
