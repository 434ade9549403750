"""`barnabas run` as a process: what keeps it from starting, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.model.config import format_properties
from tests.clients.nodes import ServedNode, until

pytestmark = pytest.mark.slow
BARNABAS = Path(sys.executable).with_name("barnabas")


def refused(*arguments: str) -> str:
    """Run a node that cannot start; gives the one line that it ends with."""
    done = subprocess.run(
        [BARNABAS, "run", *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "500"}
    )
    assert done.returncode == 1, done
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    with ServedNode(tmp_path_factory.mktemp("node")) as found:
        yield found


def test_a_second_process_on_the_same_directory_is_refused(node: ServedNode) -> None:
    line = refused("--dir", str(node.folder / "node"))
    assert str(node.folder / "node" / "data") in line
    assert "another process" in line or "in use" in line or "locked" in line


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("--dir", str(tmp_path), "--listener", f"PLAINTEXT://127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("num.partitions=many", "num.partitions"),
        ("listeners=NOWHERE://:1", "NOWHERE"),
        pytest.param("super.users=admin", "super.users", marks=pytest.mark.requirement("A-06")),
        ("ssl.principal.mapping.rules=RULE:(/x/", "ssl.principal.mapping.rules"),
        ("max.connections.per.ip.overrides=nowhere", "max.connections.per.ip.overrides"),
        ("barnabas.metrics.listener=9090", "barnabas.metrics.listener"),
        ("ssl.keystore.location=/nowhere.pem", "/nowhere.pem"),
        ("authorizer.class.name=my.Own", "authorizer.class.name"),
        ("process.roles=", "process.roles"),
        ("without-value", "KEY=VALUE"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(tmp_path: Path, override: str, wanted: str) -> None:
    assert wanted in refused("--dir", str(tmp_path), "--override", override)


def test_a_directory_that_was_not_formatted_says_what_to_do(tmp_path: Path) -> None:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "log.dirs": str(tmp_path / "data"),
    }
    (tmp_path / "server.properties").write_text(format_properties(properties))
    assert "format" in refused(str(tmp_path / "server.properties"))


@pytest.mark.requirement("H-17")
def test_a_stop_finishes_what_is_under_way_and_logs_no_error(tmp_path: Path) -> None:
    with ServedNode(tmp_path) as node:
        ready = json.loads((tmp_path / "ready.json").read_text())
        assert (ready["pid"], ready["bootstrap"]) == (node.pid, node.bootstrap)
        assert (tmp_path / "ready.json").stat().st_mode & 0o777 == 0o600
        producer = Producer({**node.librdkafka(), "enable.idempotence": True})
        consumer = Consumer({**node.librdkafka(), "group.id": "g", "auto.offset.reset": "earliest"})
        delivered: list[int | None] = []
        for i in range(100):
            producer.produce("stopped", str(i), on_delivery=lambda e, m: delivered.append(m.offset()))
        assert producer.flush(30) == 0
        consumer.subscribe(["stopped"])
        assert until(lambda: consumer.poll(0.1), bool) is not None
        os.kill(node.pid, signal.SIGTERM)
        assert node.stop() == 0
        assert not (tmp_path / "ready.json").exists()
        assert (tmp_path / "node" / "data" / ".kafka_cleanshutdown").exists()
        log = node.log()
        assert "node stopped" in log
        assert "error" not in log.lower().replace("log.error", "")
        node.start()
        assert "clean=True" in node.log()[len(log) :]
        consumer.close()
    assert len(delivered) == 100
