"""The internal endpoint over HTTP: what is let in and what is not, on leaders and followers (KIP-507)."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from barnabas.connect.worker import Worker
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.testing.ports import free_ports
from tests.connect.clock import SetClock
from tests.connect.rest.http import ALGORITHM, SIGNATURE, Wire, key_in, records, request, signed, wire_to
from tests.connect.test_mixed_group import jvm_worker, some_files
from tests.connect.workers import running, source, states, until, worker_properties

pytestmark = pytest.mark.slow
TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"


def newest_key(worker: Worker) -> bytes:
    key = worker.engine.configs.state.session_key
    assert key is not None
    return key.key


async def create(worker: Worker, config: dict[str, str], name: str = "lines") -> None:
    answer = await request(worker, "PUT", f"/connectors/{name}/config", config | {"name": name})
    assert answer.status == 201, answer
    await until(lambda: states(worker, name) == ["RUNNING", "RUNNING"])


def file_of_task(worker: Worker) -> str | None:
    config = worker.engine.configs.state.task_config(ConnectorTaskId("lines", 0))
    return None if config is None else config["file"]


@pytest.mark.requirement("C-17", "H-28")
async def test_a_signed_request_has_its_effect_wherever_it_is_sent(bootstrap: str, group: str, tmp_path: Path) -> None:
    """The key comes from the topic, the signature from the standard library; a follower passes both headers on."""
    files = some_files(tmp_path)
    properties = worker_properties(bootstrap, group)
    async with running(properties) as leader, running(properties) as follower:
        await create(leader, source(files[0], f"{group}-d"))
        key = key_in(await asyncio.to_thread(records, bootstrap, f"{group}-configs"))
        for n, worker in enumerate((leader, follower), 1):
            body = json.dumps([source(files[n], f"{group}-d")]).encode()
            answer = await request(worker, "POST", "/connectors/lines/tasks", body, signed(key, body))
            assert (answer.status, answer.text) == (200, "null")
            await until(lambda n=n: file_of_task(leader) == str(files[n]))  # type: ignore[misc]
        unknown = await request(leader, "POST", "/connectors/nope/tasks", b"[]", signed(key, b"[]"))
        assert unknown.status == 404


_BODY = b'[{"task.class": "x"}]'


def _refused() -> dict[str, tuple[Callable[[bytes], tuple[bytes, dict[str, str]]], int]]:
    """Give requests by what is wrong with them: from the key to body and headers, and the status that they get."""

    def without(header: str) -> Callable[[bytes], tuple[bytes, dict[str, str]]]:
        return lambda key: (_BODY, {n: v for n, v in signed(key, _BODY).items() if n != header})

    def with_(header: str, value: str) -> Callable[[bytes], tuple[bytes, dict[str, str]]]:
        return lambda key: (_BODY, signed(key, _BODY) | {header: value})

    def truncated(key: bytes) -> tuple[bytes, dict[str, str]]:
        headers = signed(key, _BODY)
        return _BODY, headers | {SIGNATURE: base64.b64encode(base64.b64decode(headers[SIGNATURE])[:16]).decode()}

    return {
        "no headers": (lambda key: (_BODY, {}), 400),
        "no signature": (without(SIGNATURE), 400),
        "no algorithm": (without(ALGORITHM), 400),
        "not base64": (with_(SIGNATURE, "!!!"), 400),
        "an unknown algorithm": (with_(ALGORITHM, "bogus"), 400),
        "an algorithm that is not permitted": (lambda key: (_BODY, signed(key, _BODY, "HmacSHA512")), 400),
        "another key": (lambda key: (_BODY, signed(secrets.token_bytes(32), _BODY)), 403),
        "an altered body": (lambda key: (_BODY + b" ", signed(key, _BODY)), 403),
        "a replay with another body": (lambda key: (b"[]", signed(key, _BODY)), 403),
        "a truncated signature": (truncated, 403),
        "no JSON and no signature": (lambda key: (b"{", {}), 400),
        "no JSON and a wrong signature": (lambda key: (b"{", signed(key, _BODY)), 403),
    }


@pytest.mark.requirement("C-18", "C-19", "C-20", "C-21", "C-23", "C-27", "H-29")
async def test_what_is_not_signed_well_changes_nothing(bootstrap: str, group: str, tmp_path: Path) -> None:
    (file, *_) = some_files(tmp_path)
    properties = worker_properties(bootstrap, group)
    async with running(properties) as leader, running(properties) as follower:
        await create(leader, source(file, f"{group}-d"))
        before = await asyncio.to_thread(records, bootstrap, f"{group}-configs")
        for worker in (leader, follower):
            for what, (make, status) in _refused().items():
                body, headers = make(newest_key(leader))
                for name in ("lines", "nope"):
                    answer = await request(worker, "POST", f"/connectors/{name}/tasks", body, headers)
                    assert (answer.status, answer.json["error_code"]) == (status, status), (what, answer)
                assert "JSON" not in answer.text, what  # it was not even read
                if status == 400 and "algorithm" in what and "no " not in what:
                    assert headers[ALGORITHM] in answer.text
                    assert "HmacSHA256" in answer.text
                    assert "inter.worker.verification.algorithms" in answer.text
        assert await asyncio.to_thread(records, bootstrap, f"{group}-configs") == before


@pytest.mark.requirement("C-22", "C-23")
async def test_the_key_of_before_is_refused_at_once(bootstrap: str, group: str, tmp_path: Path) -> None:
    clock = SetClock()
    (file, *_) = some_files(tmp_path)
    properties = worker_properties(bootstrap, group, inter_worker_key_ttl_ms="1000")
    async with running(properties, clock=clock) as worker:
        await create(worker, source(file, f"{group}-d"))
        old = newest_key(worker)
        assert (await request(worker, "POST", "/connectors/lines/tasks", _BODY, signed(old, _BODY))).status == 200
        clock.pass_ms(1000, worker)
        await until(lambda: newest_key(worker) != old)
        before = await asyncio.to_thread(records, bootstrap, f"{group}-configs")
        assert (await request(worker, "POST", "/connectors/lines/tasks", _BODY, signed(old, _BODY))).status == 403
        assert await asyncio.to_thread(records, bootstrap, f"{group}-configs") == before


@pytest.mark.requirement("C-12", "C-27")
async def test_a_group_that_does_not_sign_takes_requests_as_they_come(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    (file, *_) = some_files(tmp_path)
    async with running(worker_properties(bootstrap, group, connect_protocol="compatible")) as worker:
        await create(worker, source(file, f"{group}-d"))
        body = json.dumps([source(file, f"{group}-d") | {"n": "1"}]).encode()
        assert (await request(worker, "POST", "/connectors/lines/tasks", body)).status == 200
        topic = await asyncio.to_thread(records, bootstrap, f"{group}-configs")
        assert "session-key" not in [key for key, _ in topic]
        assert [value for key, value in topic if key == "task-lines-0"][-1]["properties"]["n"] == "1"  # type: ignore[index]


@pytest.mark.requirement("C-16", "C-26", "H-28")
async def test_what_goes_over_the_wire_to_a_leader(bootstrap: str, group: str, tmp_path: Path) -> None:
    """What a follower submits is signed; what it relays for users is as they sent it."""
    files = some_files(tmp_path)
    (port,) = free_ports(1)
    async with wire_to(port) as wire:
        properties = worker_properties(bootstrap, group)
        its_own = {"listeners": f"http://127.0.0.1:{port}", "rest.advertised.port": str(wire.port)}
        async with running(properties | its_own) as leader, running(properties) as follower:
            assert leader.engine.member.leads
            for n, name in enumerate(("a b", "a/b", "100%", "flügé ✈")):
                await relayed_and_submitted(follower, wire, name, source(files[n], f"{group}-d"))
            signed_ones = [seen for seen in wire.requests if SIGNATURE.lower() in seen.headers]
            assert signed_ones, "no connector was the follower's"
            for seen in signed_ones:
                assert (seen.method, seen.path.endswith("/tasks")) == ("POST", True)
                assert signed(newest_key(leader), seen.body)[SIGNATURE] == seen.headers[SIGNATURE.lower()]
                assert seen.headers[ALGORITHM.lower()] == "HmacSHA256"
            for seen in wire.requests:
                if seen not in signed_ones:
                    assert ALGORITHM.lower() not in seen.headers
            for path in ("/connectors", "/connectors/a%20b/tasks", "/connectors/a%20b", "/connector-plugins"):
                answers = [await request(worker, "GET", path) for worker in (leader, follower)]
                assert answers[0].status == 200
                assert answers[0].json == answers[1].json


async def relayed_and_submitted(follower: Worker, wire: Wire, name: str, config: dict[str, str]) -> None:
    from urllib.parse import quote

    path = f"/connectors/{quote(name, safe='')}"
    body = json.dumps(config | {"name": name}).encode()
    credentials = {"Authorization": "Basic dTpw"}
    answer = await request(follower, "PUT", f"{path}/config", body, credentials)
    assert (answer.status, answer.json["name"]) == (201, name)
    assert {k.lower(): v for k, v in answer.headers.items()}["location"] == path
    await until(lambda: states(follower, name) == ["RUNNING", "RUNNING"])
    (relayed,) = [seen for seen in wire.requests if seen.path.partition("?")[0] == f"{path}/config"]
    assert (relayed.method, relayed.body, relayed.headers["authorization"]) == ("PUT", body, "Basic dTpw")


@pytest.mark.requirement("H-29", "C-27")
async def test_passwords_do_not_open_the_internal_path(bootstrap: str, group: str, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice=secret\n")
    basic = {"Authorization": "Basic " + base64.b64encode(b"alice:secret").decode()}
    properties = worker_properties(bootstrap, group, barnabas_rest_users_file=str(users))
    async with running(properties) as worker:
        for headers in ({}, basic):
            answer = await request(worker, "POST", "/connectors/lines/tasks", b"[]", headers)
            assert answer.status == 400
        unsigned = await request(worker, "GET", "/connectors")
        assert unsigned.status == 401
        assert (await request(worker, "GET", "/connectors", headers=basic)).status == 200
    with structlog.testing.capture_logs() as lines:
        async with running(properties | {"connect.protocol": "compatible"}):
            pass
    assert [line for line in lines if line["log_level"] == "warning" and "/tasks is open" in line["event"]]
    with structlog.testing.capture_logs() as lines:
        async with running(properties):
            pass
    assert not [line for line in lines if "/tasks is open" in line["event"]]


@pytest.mark.peer
@pytest.mark.requirement("C-16", "C-17", "C-26")
async def test_a_jvm_worker_takes_200_and_null_for_success(bootstrap: str, group: str, tmp_path: Path) -> None:
    """What its log would say of an answer that it cannot read it does not say; and what it relays to us comes back."""
    files = some_files(tmp_path)
    (port,) = free_ports(1)
    async with wire_to(port) as wire:
        its_own = {"listeners": f"http://127.0.0.1:{port}", "rest.advertised.port": str(wire.port)}
        async with (
            running(worker_properties(bootstrap, group) | its_own) as ours,
            jvm_worker(tmp_path / "jvm", bootstrap, group, "4.3.1") as jvm,
        ):
            for n in range(4):
                await create(ours, source(files[n], f"{group}-d"), f"c{n}")
            submitted = [seen for seen in wire.requests if seen.path.partition("?")[0].endswith("/tasks")]
            assert submitted, "no connector was the JVM worker's"
            for seen in submitted:
                assert signed(newest_key(ours), seen.body)[SIGNATURE] == seen.headers[SIGNATURE.lower()]
            answer = await asyncio.to_thread(jvm.ask, "/connectors/c0/stop", "PUT")
            assert answer.status == 204
            relayed = [seen for seen in wire.requests if seen.path.partition("?")[0].endswith("/stop")]
            assert relayed
            assert not any(SIGNATURE.lower() in seen.headers for seen in relayed)
            log = jvm.log()
            assert "forwarding REST request" not in log
            assert "Failed to reconfigure connector" not in log
            assert "tasks failed" not in log


@pytest.mark.peer
@pytest.mark.requirement("C-16", "C-17", "C-26", "H-28")
async def test_what_comes_to_us_reaches_a_jvm_leader(bootstrap: str, group: str, tmp_path: Path) -> None:
    """Users' requests as they are, and a signed one with its headers, which a JVM follower would have dropped."""
    files = some_files(tmp_path)
    properties = worker_properties(bootstrap, group)
    async with (
        jvm_worker(tmp_path / "jvm", bootstrap, group, "4.3.1") as jvm,
        running(properties) as ours,
    ):
        await until(lambda: ours.herder.leader_url == jvm.url + "/" and ours.engine.configs.state.session_key)
        await create(ours, source(files[0], f"{group}-d"))
        answer = await request(ours, "POST", "/connectors/lines/tasks", b"[]")
        assert (answer.status, answer.json["error_code"]) == (400, 400)
        body = json.dumps([source(files[1], f"{group}-d") | {"task.class": TASK}]).encode()
        key = key_in(await asyncio.to_thread(records, bootstrap, f"{group}-configs"))
        answer = await request(ours, "POST", "/connectors/lines/tasks", body, signed(key, body))
        assert (answer.status, answer.text) == (204, "")
        await until(lambda: file_of_task(ours) == str(files[1]))
        refused = await request(ours, "POST", "/connectors/lines/tasks", body, signed(key, body + b" "))
        assert refused.status == 403
        for method, path, status in (
            ("PUT", "/connectors/lines/stop", 204),
            ("PUT", "/connectors/nope/stop", 404),
            ("DELETE", "/connectors/lines", 204),
            ("DELETE", "/connectors/lines", 404),
        ):
            async with asyncio.timeout(30):
                while (answer := await request(ours, method, path)).status == 409:  # noqa: ASYNC110 - as clients do
                    await asyncio.sleep(0.05)
            assert answer.status == status, answer
