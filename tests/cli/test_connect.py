"""`barnabas connect` as a process: what keeps it from starting, what it says and does, and how it ends."""

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from barnabas.model.config import format_properties
from barnabas.testing.local import LocalCluster
from barnabas.testing.logs import log_by_logging_unless_told
from barnabas.testing.ports import free_ports
from tests.cli.conftest import Barnabas, Run
from tests.connect.workers import worker_properties
from tests.peers.connect import ask

pytestmark = [pytest.mark.slow, pytest.mark.spark]

BARNABAS = Path(sys.executable).with_name("barnabas")
PATIENCE_SECONDS = 240.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give where a plaintext node of ours listens."""
    log_by_logging_unless_told()
    with LocalCluster(tmp_path_factory.mktemp("brokers"), combined=1, plaintext=True) as cluster:
        yield next(iter(cluster)).bootstrap


@dataclass
class Worker:
    """A worker as a process, its files in a folder."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def ready(self) -> dict[str, Any]:
        """Wait until it has joined its group; give what it says then."""
        file = self.folder / "ready.json"
        self.until(lambda: file.exists() and file.stat().st_size > 0)
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def until(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not what():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def started(folder: Path, properties: dict[str, str], **environment: str) -> Iterator[Worker]:
    """Give a worker's process; it is killed in the end unless it has ended."""
    folder.mkdir(exist_ok=True)
    (folder / "worker.properties").write_text(format_properties(properties))
    command: list[str | Path] = [
        BARNABAS,
        "connect",
        folder / "worker.properties",
        "--ready-file",
        folder / "ready.json",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "COLUMNS": "500", **environment})
    try:
        yield Worker(folder, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def refused(folder: Path, properties: dict[str, str]) -> str:
    """Run a worker that cannot start; gives the one line that it ends with."""
    with started(folder, properties) as worker:
        assert worker.process.wait(PATIENCE_SECONDS) == 1, worker.log
        assert "Traceback" not in worker.log
        return worker.log.strip().splitlines()[-1]


@pytest.mark.requirement("C-01", "C-06")
def test_what_is_wrong_with_a_file_is_said_in_a_line_with_its_key(brokers: str, tmp_path: Path) -> None:
    right = worker_properties(brokers, "connect-wrong")
    line = refused(tmp_path, right | {"inter.worker.key.generation.algorithm": "HmacNone"})
    assert line.startswith("inter.worker.key.generation.algorithm: 'HmacNone'")
    assert "HmacSHA256" in line
    assert "group.id is not set" in refused(tmp_path, {k: v for k, v in right.items() if k != "group.id"})
    (port,) = free_ports(1)
    nobody = refused(tmp_path, right | {"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": "1000"})
    assert str(port) in nobody


def test_a_worker_that_waits_for_its_cluster_can_be_stopped(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with started(tmp_path, worker_properties(f"127.0.0.1:{port}", "connect-nobody")) as worker:
        worker.until(lambda: "worker starts" in worker.log)
        assert worker.end() == 0


def session_key(brokers: str, topic: str) -> str:
    """Give the session key as the config topic has it, base64."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "looking", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        while True:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            if message.key() == b"session-key":
                value = message.value()
                assert value is not None
                return str(json.loads(value)["key"])
    finally:
        consumer.close()


def all_answers(url: str) -> str:
    """Give what a worker answers to everything that can be asked of it without changing anything."""
    values = {"task": "0", "plugin": "FileStreamSink", "logger": "root"}
    paths = [path for path, methods in ask(f"{url}/openapi.json").json["paths"].items() if "get" in methods]
    found = []
    for path, connector in itertools.product(paths, ("source", "sink")):
        answer = ask(url + path.format(connector=connector, **values))
        assert answer.status == 200, (path, answer.text)
        found.append(f"{answer.headers} {answer.text}")
    found += [ask(f"{url}/connectors?expand=status&expand=info").text, ask(f"{url}/connectors/none/status").text]
    return "\n".join(found)


def spark_environment(pid: int, ui: str) -> str:
    """Give what Spark shows of its settings, and what its processes were started with."""
    (application,) = ask(f"{ui}/api/v1/applications").json
    shown = ask(f"{ui}/api/v1/applications/{application['id']}/environment").text
    assert "spark.app.name" in shown
    found = [shown]
    for process in descendants(pid):
        try:
            started_with = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue  # Python workers of Spark's come and go
        found.append(started_with.decode(errors="replace"))
    assert any("SparkSubmit" in text for text in found[1:])
    return "\n".join(found)


def descendants(pid: int) -> Iterator[Path]:
    """Give the folders in /proc of the processes that a process has started, and of those that they have."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text()
        except OSError:
            continue  # threads come and go
        for child in map(int, found.split()):
            yield Path(f"/proc/{child}")
            yield from descendants(child)


@pytest.mark.requirement("C-28", "C-32", "C-40")
def test_a_worker_copies_a_file_to_a_topic_and_into_another_and_shows_its_key_nowhere(
    brokers: str, barnabas: Barnabas, tmp_path: Path
) -> None:
    lines, out = tmp_path / "lines", tmp_path / "out"
    lines.write_text("a\nb\nc\n")
    ui, measurements = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    properties = worker_properties(brokers, "connect-alone") | {
        "barnabas.spark.master": "local[2]",
        "barnabas.spark.conf.spark.ui.enabled": "true",
        "barnabas.spark.conf.spark.ui.port": ui.rpartition(":")[2],
        "barnabas.metrics.listener": measurements,
    }
    with started(tmp_path / "worker", properties, BARNABAS_LOG="debug") as worker:
        url = worker.ready["url"]
        assert f"barnabas connectors list --url {url}" in worker.log
        assert "requests between workers are signed" in worker.log
        assert "requests between workers are verified in this group" in worker.log

        def create(name: str, kind: str, file: Path, topic: str, *more: str) -> Run:
            settings = tmp_path / name
            settings.write_text(f"name={name}\nconnector.class={kind}\nfile={file}\n{topic}\n")
            return barnabas("connectors", "create", str(settings), "--url", url, *more)

        assert create("sink", "FileStreamSink", out, "topics=copied").code == 0
        assert create("source", "FileStreamSource", lines, "topic=copied").code == 0
        worker.until(lambda: out.exists() and out.read_text() == "a\nb\nc\n")
        wrong = create("other", "FileStreamSink", out, "topics=copied", "--set", "tasks.max=none")
        assert wrong.code == 1
        assert "tasks.max" in wrong.err

        read = ("connectors", "watch", "--looks", "1", "--output", "json", "--bootstrap-server", brokers, "--url", url)
        worker.until(lambda: '"lag": 0' in barnabas(*read).out)

        def measured() -> str:
            return ask(f"{measurements}/jmx").text + ask(f"{measurements}/metrics").text

        # A batch is counted once its end is kept, which others see before.
        totals = ('"sink-record-read-total": 3', '"source-record-write-total": 3')
        worker.until(lambda: all(total in measured() for total in totals))
        assert '"connect-protocol": "sessioned"' in measured()
        said = {
            "measurements": measured(),
            "answers": all_answers(url),
            "Spark": spark_environment(worker.process.pid, ui),
        }
        assert worker.end() == 0
        said["log"] = worker.log
    key = session_key(brokers, "connect-alone-configs")
    raw = base64.b64decode(key)
    for text in (key, raw.hex(), repr(raw)[2:-1], quote(key, safe="")):
        assert [where for where, shown in said.items() if text in shown] == []
    assert '{"level": "DEBUG"' in said["answers"]
    assert "the worker has stopped" in said["log"]
    assert not (tmp_path / "worker" / "ready.json").exists()
    assert "[error" not in said["log"]


@pytest.mark.requirement("C-29", "C-31")
def test_a_worker_that_will_not_sign_says_so_and_a_second_signal_ends_it_at_once(brokers: str, tmp_path: Path) -> None:
    properties = worker_properties(brokers, "connect-twice", connect_protocol="compatible")
    with started(tmp_path, properties | {"barnabas.spark.master": "local[1]"}) as worker:
        worker.until(lambda: "will not be verified" in worker.log)  # and Spark, which starts now, is waited for
        (warned,) = [line for line in worker.log.splitlines() if "will not be verified" in line]
        assert "[warning" in warned
        assert "connect.protocol is compatible" in warned
        assert "connect.protocol=sessioned" in warned
        worker.process.send_signal(signal.SIGINT)
        worker.until(lambda: "a second signal ends it at once" in worker.log)
        assert worker.end(signal.SIGINT) == -signal.SIGINT
