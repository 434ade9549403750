"""Groups of Connect workers to ask: one of ours in a thread, and Apache Kafka's as a process."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from barnabas.testing.local import LocalCluster
from barnabas.testing.logs import log_by_logging_unless_told
from tests.cli.conftest import Barnabas, Run
from tests.connect.workers import running, worker_properties
from tests.peers.connect import JvmWorker

START_SECONDS = 180.0


@dataclass(frozen=True)
class Group:
    """url: of a worker; bootstrap: its brokers."""

    url: str
    bootstrap: str
    barnabas: Barnabas

    def __call__(self, *words: str, stdin: str = "") -> Run:
        """Run `barnabas connectors`."""
        return self.barnabas("connectors", *words, "--url", self.url, stdin=stdin)


@contextmanager
def worker_in_thread(properties: dict[str, str]) -> Iterator[str]:
    """Give the URL of a worker of ours with the plain runtime; it leaves its group in the end."""
    ready: Future[str] = Future()
    over = asyncio.Event()
    loop: list[asyncio.AbstractEventLoop] = []

    async def live() -> None:
        loop.append(asyncio.get_running_loop())
        async with running(properties) as worker:
            ready.set_result(worker.url.rstrip("/"))
            await over.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as e:
            if not ready.done():
                ready.set_exception(e)
            raise

    thread = threading.Thread(target=run, name="worker")
    thread.start()
    try:
        yield ready.result(START_SECONDS)
    finally:
        loop[0].call_soon_threadsafe(over.set)
        thread.join()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give where a plaintext node of ours listens."""
    log_by_logging_unless_told()
    with LocalCluster(tmp_path_factory.mktemp("brokers"), combined=1, plaintext=True) as cluster:
        yield next(iter(cluster)).bootstrap


@pytest.fixture(scope="module")
def our_worker(brokers: str) -> Iterator[str]:
    """Give the URL of a worker of ours."""
    with worker_in_thread(worker_properties(brokers, f"connect-{uuid.uuid4().hex[:10]}")) as url:
        yield url


@pytest.fixture(scope="module")
def jvm_worker(brokers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the URL of a worker of Apache Kafka."""
    with JvmWorker(tmp_path_factory.mktemp("jvm"), brokers, f"connect-{uuid.uuid4().hex[:10]}") as worker:
        yield worker.url


@pytest.fixture
def ours(our_worker: str, brokers: str, barnabas: Barnabas) -> Group:
    """Give the command, asking a worker of ours."""
    return Group(our_worker, brokers, barnabas)


@pytest.fixture(params=["ours", pytest.param("jvm", marks=pytest.mark.peer)])
def group(request: pytest.FixtureRequest, brokers: str, barnabas: Barnabas) -> Group:
    """Give the command, asking a worker of ours, then one of Apache Kafka."""
    return Group(request.getfixturevalue(f"{'our' if request.param == 'ours' else 'jvm'}_worker"), brokers, barnabas)
