"""How `barnabas connectors` asks: who it says it is, how long it waits, and what it says when nobody answers well."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from barnabas.testing.ports import free_ports
from tests.cli.conftest import Barnabas
from tests.cli.connectors.conftest import worker_in_thread
from tests.connect.workers import worker_properties

pytestmark = pytest.mark.slow


@contextmanager
def answering(answers: list[web.Response]) -> Iterator[str]:
    """Give the URL of something that gives these answers one after the other, the last one for ever."""
    (port,) = free_ports(1)
    started, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def handler(request: web.Request) -> web.StreamResponse:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def live() -> None:
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        started.set()
        await over.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()))
    thread.start()
    try:
        assert started.wait(60)
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def said(status: int, message: str, **headers: str) -> web.Response:
    body = json.dumps({"error_code": status, "message": message})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, text=body, content_type="application/json", headers=named)


def test_a_rebalance_is_waited_for_with_a_note(barnabas: Barnabas) -> None:
    busy = "Cannot complete request momentarily due to a rebalance: a worker left"
    with answering([said(409, busy, Retry_After="0"), said(409, busy, Retry_After="0"), web.json_response({})]) as url:
        run = barnabas("connectors", "list", "--url", url)
    assert run.code == 0, run.err
    assert run.err == f"Waiting for the group to settle: {busy}\n"
    assert run.out == "There are no connectors; `barnabas connectors create FILE` makes one.\n"


def test_patience_ends(barnabas: Barnabas) -> None:
    with answering([said(409, "a rebalance", Retry_After="30")]) as url:
        run = barnabas("connectors", "list", "--url", url, "--timeout", "1")
    assert (run.code, run.err) == (1, "a rebalance\n")


def test_what_is_no_worker_is_named_so(barnabas: Barnabas) -> None:
    with answering([web.Response(text="<html>")]) as url:
        run = barnabas("connectors", "list", "--url", url)
        assert (run.code, run.err) == (1, f"What answers at {url} is no Connect worker: it does not speak JSON.\n")
    with answering([web.Response(text="<html>", status=502)]) as url:
        run = barnabas("connectors", "list", "--url", url)
        assert (run.code, run.err) == (1, f"{url} answered HTTP 502; is it a Connect worker?\n")


def test_nobody_there(barnabas: Barnabas) -> None:
    (port,) = free_ports(1)
    run = barnabas("connectors", "list", "--url", f"http://127.0.0.1:{port}")
    assert run.code == 1
    assert f"No Connect worker answers at http://127.0.0.1:{port}" in run.err
    assert "barnabas connect" in run.err
    assert barnabas("connectors", "list", "--url", "127.0.0.1:8083").err.startswith("--url '127.0.0.1:8083': want")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is no JSON"),
        ("connector.class=FileStreamSink\n", "has no name"),
        ('{"name": "x"}', "connector.class is missing"),
    ],
)
def test_files_that_make_no_connector(barnabas: Barnabas, tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "connector"
    file.write_text(text)
    run = barnabas("connectors", "create", str(file))
    assert run.code == 1
    assert complaint in run.err


def test_a_worker_that_wants_tls_and_a_password(
    brokers: str, barnabas: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued = ca.issue_cert("127.0.0.1")
    (tmp_path / "users").write_text("alice=wonder\n")
    properties = worker_properties(brokers, "connect-tls") | {
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.key": issued.private_key_pem.bytes().decode(),
        "listeners.https.ssl.keystore.certificate.chain": issued.cert_chain_pems[0].bytes().decode(),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.certificates": ca.cert_pem.bytes().decode(),
        "barnabas.rest.users.file": str(tmp_path / "users"),
    }
    with worker_in_thread(properties) as url:
        asked = ("connectors", "list", "--url", url)
        assert f"The certificate of {url} is not trusted" in barnabas(*asked).err
        trusting = (*asked, "--ca", str(tmp_path / "ca.pem"))
        assert "wants a user and password" in barnabas(*trusting).err
        assert "wants another user or password" in barnabas(*trusting, "--user", "alice", "--password", "land").err
        assert barnabas(*trusting, "--user", "alice", "--password", "wonder", "--output", "json").json == []
        assert "BARNABAS_CONNECT_PASSWORD" in barnabas(*trusting, "--user", "alice").err
        monkeypatch.setenv("BARNABAS_CONNECT_PASSWORD", "wonder")
        assert barnabas(*trusting, "--user", "alice").code == 0
        assert "wonder" not in barnabas("connectors", "list", "--help").out
