"""The REST server by its settings: TLS, users, other origins, headers, listeners for admins, its own description."""

from __future__ import annotations

import asyncio
import re
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp
import pytest
from openapi_spec_validator import validate

from barnabas.connect.config import WorkerConfig
from barnabas.connect.rest.app import RestPolicy, endpoints_of
from barnabas.connect.rest.server import RestServer
from barnabas.connect.worker import Worker
from barnabas.model.config import ConfigError
from barnabas.net.dev_ca import DevCa, Issued
from tests.connect.clock import SetClock
from tests.connect.plain_runtime import PlainPlugins
from tests.connect.rest.http import request
from tests.connect.test_group import settled
from tests.connect.test_mixed_group import some_files
from tests.connect.worker_process import worker_process
from tests.connect.workers import PATIENCE_SECONDS, running, source, states, until, worker_properties

pytestmark = pytest.mark.slow
BASIC = {"Authorization": aiohttp.encode_basic_auth("alice", "secret:with:colons")}


@asynccontextmanager
async def asking(worker: Worker, tls: ssl.SSLContext | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(worker.url, connector=aiohttp.TCPConnector(ssl=tls or True)) as session:
        yield session


def _stores(issued: Issued) -> dict[str, str]:
    return {
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.key": issued.key_pem.decode(),
        "listeners.https.ssl.keystore.certificate.chain": (issued.certificate_pem + issued.ca_pem).decode(),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.certificates": issued.ca_pem.decode(),
    }


async def test_workers_and_users_show_each_other_certificates(bootstrap: str, group: str, tmp_path: Path) -> None:
    """A follower relays to its leader, and submits tasks, over TLS of both sides; others do not get in."""
    ca = DevCa.create()
    files = some_files(tmp_path)
    properties = worker_properties(bootstrap, group) | {
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.client.auth": "required",
        **_stores(ca.issue_server()),
    }
    stranger = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    alice = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    issued = ca.issue_client("alice")
    (tmp_path / "alice.pem").write_bytes(issued.key_pem + issued.certificate_pem)
    alice.load_cert_chain(tmp_path / "alice.pem")
    async with running(properties) as leader, running(properties) as follower, asking(follower, alice) as session:
        assert leader.url.startswith("https://")
        for n in range(4):  # some of them are the follower's, which then submits their tasks
            async with session.put(
                f"/connectors/c{n}/config", json=source(files[n], f"{group}-d") | {"name": f"c{n}"}
            ) as a:
                assert a.status == 201, await a.text()
        await until(lambda: all(states(leader, f"c{n}") == ["RUNNING", "RUNNING"] for n in range(4)))
        async with asking(follower, stranger) as refused:
            with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
                await refused.get("/")


async def test_users_have_passwords(bootstrap: str, group: str, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice=secret:with:colons\n")
    properties = worker_properties(bootstrap, group, barnabas_rest_users_file=str(users))
    async with running(properties) as leader, running(properties) as worker, asking(worker) as session:
        for path in ("/", "/connectors", "/connector-plugins", "/admin/loggers", "/health", "/openapi.json", "/docs"):
            async with session.get(path) as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"].startswith("Basic")
            async with session.get(path, headers=BASIC) as answer:
                assert answer.status == 200
        for wrong in (("alice", "secret"), ("bob", ""), ("", "")):
            async with session.get("/", headers={"Authorization": aiohttp.encode_basic_auth(*wrong)}) as answer:
                assert answer.status == 401
        async with session.get("/", headers={"Authorization": "Basic !!!"}) as answer:
            assert answer.status == 401
        # What a follower relays has its user's password with it, and the leader wants it as well.
        assert leader.engine.member.leads
        async with session.put("/connectors/nope/stop", headers=BASIC) as answer:
            assert answer.status == 404
        users.write_text("bob=other\n")
        async with session.get("/", headers=BASIC) as answer:
            assert answer.status == 401
        async with session.get("/", headers={"Authorization": aiohttp.encode_basic_auth("bob", "other")}) as answer:
            assert answer.status == 200


async def test_a_leader_asks_members_what_they_can_run_as_one_of_the_users(
    bootstrap: str, group: str, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("alice=secret:with:colons\n")
    files = some_files(tmp_path)
    properties = worker_properties(bootstrap, group, barnabas_rest_users_file=str(users))
    other = PlainPlugins("example.Other")
    async with running(properties) as leader, running(properties, plugins=other) as follower, asking(leader) as session:
        for n in range(4):
            config = source(files[n], f"{group}-d", **{"connector.class": "FileStreamSource"}) | {"name": f"c{n}"}
            async with session.put(f"/connectors/c{n}/config", json=config, headers=BASIC) as answer:
                assert answer.status == 201, await answer.text()
        await until(lambda: all(states(follower, f"c{n}") == ["RUNNING", "RUNNING"] for n in range(4)))
        assert leader.engine.member.leads
        assert len(leader.engine.work.tasks) == len(leader.engine.work.connectors) == 4


async def test_pages_of_other_origins_may_ask_where_that_is_set(bootstrap: str, group: str) -> None:
    more = {
        "access.control.allow.origin": "http://a.example,http://b.example",
        "access.control.allow.methods": "GET,PUT",
    }
    async with running(worker_properties(bootstrap, group) | more) as worker, asking(worker) as session:
        async with session.get("/", headers={"Origin": "http://b.example"}) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "http://b.example"
        async with session.get("/nope", headers={"Origin": "http://b.example"}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (404, "http://b.example")
        for headers in ({"Origin": "http://c.example"}, {}):
            async with session.get("/", headers=headers) as answer:
                assert (answer.status, answer.headers.get("Access-Control-Allow-Origin")) == (200, None)
        asked = {"Origin": "http://a.example", "Access-Control-Request-Method": "PUT"}
        async with session.options("/connectors", headers=asked) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Methods"]) == (200, "GET,PUT")
        async with session.options("/connectors") as answer:
            assert set(answer.headers["Allow"].split(",")) == {"GET", "HEAD", "OPTIONS", "POST"}


async def test_every_answer_has_the_headers_that_are_set(bootstrap: str, group: str) -> None:
    rules = 'set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store", setDate Expires: 31540000000'
    more = {"response.http.headers.config": rules}
    async with running(worker_properties(bootstrap, group) | more) as worker, asking(worker) as session:
        for path in ("/", "/nope", "/connectors/nope"):
            async with session.get(path) as answer:
                assert answer.headers["X-Frame-Options"] == "DENY"
                assert answer.headers["Cache-Control"] == "no-cache, no-store"
                assert answer.headers["Expires"] == "Fri, 01 Jan 1971 01:06:40 GMT"


@pytest.mark.parametrize(("admin", "public_has_it"), [(None, True), ("", False), ("http://127.0.0.1:0", False)])
async def test_loggers_are_where_admins_listen(
    bootstrap: str, group: str, admin: str | None, public_has_it: bool
) -> None:
    more = {} if admin is None else {"admin.listeners": admin}
    config = WorkerConfig.from_properties(worker_properties(bootstrap, group) | more)
    async with running(worker_properties(bootstrap, group) | more) as worker, asking(worker) as session:
        async with session.get("/admin/loggers") as answer:
            assert answer.status == (200 if public_has_it else 404)
        async with session.get("/openapi.json") as answer:
            assert ("/admin/loggers" in (await answer.json())["paths"]) is public_has_it
        async with RestServer(config) as apart:
            assert (apart.admin_url is None) is (admin == "")
            assert (apart.admin_url == apart.url) is public_has_it
            if admin:
                await apart.serve(worker.herder)
                async with aiohttp.ClientSession(apart.admin_url) as admins:
                    async with admins.get("/admin/loggers/root") as answer:
                        assert answer.status == 200
                    async with admins.get("/connectors") as answer:
                        assert answer.status == 404


async def test_topics_are_not_told_where_that_is_off(bootstrap: str, group: str) -> None:
    off = {"topic.tracking.enable": "false"}
    async with running(worker_properties(bootstrap, group) | off) as worker, asking(worker) as session:
        async with session.get("/connectors/x/topics") as answer:
            assert answer.status == 403
        async with session.put("/connectors/x/topics/reset") as answer:
            assert answer.status == 403


async def test_it_describes_every_public_path_of_itself(bootstrap: str, group: str) -> None:
    async with running(worker_properties(bootstrap, group)) as worker, asking(worker) as session:
        async with session.get("/openapi.json") as answer:
            document = await answer.json()
        validate(document)
        described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
        served = {(e.method, e.path) for e in endpoints_of(RestPolicy(), public=True, admin=True) if not e.internal}
        assert described == served
        assert ("POST", "/connectors/{connector}/tasks") not in described
        for path, item in document["paths"].items():
            named = set(re.findall(r"\{(\w+)\}", path))
            for operation in item.values():
                assert {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"} == named
            methods = {method.upper() for method in item}
            async with session.options(path.format(**dict.fromkeys(named, "x"))) as answer:
                assert methods <= set(answer.headers["Allow"].split(","))
        async with session.get("/docs") as answer:
            assert answer.content_type == "text/html"
            page = await answer.text()
        assert all(f"<b>{method}</b> <code>{path}</code>" in page for method, path in described)


async def test_a_409_says_which_rebalance_and_when_to_come_again(bootstrap: str, group: str, tmp_path: Path) -> None:
    """A frozen member keeps the others waiting."""
    properties = worker_properties(bootstrap, group)
    hasty = properties | {"worker.sync.timeout.ms": "200"}
    clock = SetClock()
    async with running(hasty, clock=clock) as worker, worker_process(tmp_path, properties) as frozen:
        await until(lambda: settled(worker))
        frozen.send_signal(signal.SIGSTOP)
        worker.engine.group.rejoin("the test wants so")
        answer = await request(worker, "DELETE", "/connectors/x")
        assert (answer.status, answer.json["error_code"]) == (409, 409)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        assert int(headers["retry-after"]) >= 1
        since = datetime.fromtimestamp(clock.now_ms() / 1000).astimezone().timestamp()
        assert "the test wants so" in answer.json["message"]
        told = re.search(r"since (\S+);", answer.json["message"])
        assert told is not None
        assert datetime.fromisoformat(told[1]).timestamp() == since
        frozen.send_signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (answer := await request(worker, "DELETE", "/connectors/x")).status == 409:
                pass
        assert answer.status == 404


async def test_a_follower_whose_leader_is_gone_says_so(bootstrap: str, group: str, tmp_path: Path) -> None:
    """No answer from where the leader was is an answer of its own, not a request that hangs."""
    properties = worker_properties(bootstrap, group)
    doomed = properties | {"session.timeout.ms": "6000"}
    async with worker_process(tmp_path, doomed) as leader, running(properties) as follower:
        await until(lambda: settled(follower))
        assert not follower.engine.member.leads
        leader.kill()
        await leader.wait()
        answer = await request(follower, "PUT", "/connectors/x/stop")
        assert answer.status in (404, 409, 500)
        await until(lambda: follower.engine.member.leads and settled(follower))
        assert (await request(follower, "PUT", "/connectors/x/stop")).status == 404


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("listeners", "http://127.0.0.1"),
        ("listeners", "http://127.0.0.1:x"),
        ("listeners", "http://203.0.113.1:0"),
        ("rest.advertised.listener", "https"),
        ("barnabas.rest.users.file", "/nonexistent/users"),
        ("rest.extension.classes", "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"),
    ],
)
async def test_a_setting_that_cannot_be_meant_is_named(setting: str, value: str) -> None:
    properties = worker_properties("127.0.0.1:1", "g") | {setting: value}

    async def bind() -> str:
        async with RestServer(WorkerConfig.from_properties(properties)) as server:
            return server.url

    with pytest.raises(ConfigError, match=f"{re.escape(setting)}|users"):
        await bind()
