"""What workers measure: what it says while a group works, and its names beside those of a worker of Apache Kafka."""

from __future__ import annotations

import asyncio
import json
import math
import re
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.connect.config import WorkerConfig
from barnabas.connect.metrics import REBALANCE, WORKER, WorkerMetrics
from barnabas.connect.plugins import WorkerPlugins
from barnabas.connect.runtime import Event, Failed, Running
from barnabas.connect.worker import Worker
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.status import State
from barnabas.model.config import ConfigError
from barnabas.net.clock import SystemClock
from barnabas.testing.ports import free_ports
from tests.connect.metric_names import MISSING
from tests.connect.plain_runtime import FILE_SOURCE
from tests.connect.workers import running, source, states, until, worker_properties
from tests.peers.connect import FILE_SINK, JvmWorker
from tests.peers.maven import java

pytestmark = pytest.mark.slow

MBEANS: Final = Path(__file__).resolve().parents[1] / "conformance" / "java" / "MBeans.java"
_TAG: Final = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)')
_ATTRIBUTE: Final = re.compile(r"([^\t=]+)=([^\t]*)")
Beans = Mapping[str, Mapping[str, Any]]


def beans(worker: Worker) -> Beans:
    return dict(worker.metrics.registry.values())


@pytest.mark.requirement("C-32")
async def test_the_protocol_of_the_latest_join_through_an_upgrade_and_a_downgrade(bootstrap: str, group: str) -> None:
    properties = worker_properties(bootstrap, group)

    def protocol(worker: Worker) -> object:
        return beans(worker)[REBALANCE]["connect-protocol"]

    async with running(properties) as first:
        assert protocol(first) == "sessioned"
        for setting, wanted in (("compatible", "compatible"), ("eager", "default"), ("sessioned", "sessioned")):
            async with running(properties | {"connect.protocol": setting}) as second:
                await until(lambda second=second: beans(second)[REBALANCE]["rebalancing"] == 0)  # type: ignore[misc]
                await until(lambda wanted=wanted: protocol(first) == wanted)  # type: ignore[misc]
                assert protocol(second) == wanted
                shown = beans(second)[REBALANCE]
                assert shown["leader-name"] == first.url
                assert shown["epoch"] == first.engine.member.generation
            await until(lambda: protocol(first) == "sessioned")
        await until(lambda: beans(first)[REBALANCE]["completed-rebalances-total"] >= 7)
        shown = beans(first)[REBALANCE]
        assert shown["rebalance-max-time-ms"] >= shown["rebalance-avg-time-ms"] >= 0
        assert 0 <= shown["time-since-last-rebalance-ms"] < math.inf


async def test_connectors_and_tasks_are_counted_while_they_are_here(bootstrap: str, group: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\n")
    async with running(worker_properties(bootstrap, group)) as worker:
        config = source(tmp_path / "lines", f"{group}-t") | {
            "transforms": "first",
            "transforms.first.type": "org.apache.kafka.connect.transforms.ValueToKey",
        }
        await worker.herder.put_connector_config("lines", config, allow_replace=True)
        await until(lambda: states(worker, "lines") == ["RUNNING", "RUNNING"])
        found = beans(worker)
        assert (found[WORKER]["connector-count"], found[WORKER]["task-count"]) == (1, 1)
        assert found[WORKER]["task-startup-success-percentage"] == 1.0
        connector = found["kafka.connect:type=connector-metrics,connector=lines"]
        assert (connector["status"], connector["connector-type"]) == ("running", "source")
        assert connector["connector-class"] == FILE_SOURCE
        task = found["kafka.connect:type=connector-task-metrics,connector=lines,task=0"]
        assert (task["status"], task["value-converter-class"].rpartition(".")[2]) == ("running", "StringConverter")
        transform = found["kafka.connect:type=connector-transform-metrics,connector=lines,task=0,transform=first"]
        assert transform["transform-class"].endswith("ValueToKey")
        counts = found[f"{WORKER},connector=lines"]
        assert (counts["connector-total-task-count"], counts["connector-running-task-count"]) == (1, 1)
        await worker.herder.pause_connector("lines")
        await until(lambda: states(worker, "lines") == ["PAUSED", "PAUSED"])
        paused = beans(worker)["kafka.connect:type=connector-task-metrics,connector=lines,task=0"]
        assert paused["status"] == "paused"
        await worker.herder.delete_connector("lines")
        await until(lambda: beans(worker)[WORKER]["task-count"] == 0)
        assert not [name for name in beans(worker) if "connector=lines" in name]


async def test_a_task_that_fails_at_once_is_a_start_that_failed(bootstrap: str, group: str) -> None:
    async with running(worker_properties(bootstrap, group)) as worker:
        metrics = worker.metrics
        events: tuple[Event, ...] = (Running(), Failed("why"))
        for number, event in enumerate(events):
            metrics.task_starts(ConnectorTaskId("c", number), {"connector.class": FILE_SOURCE}, {})
            metrics.heard(ConnectorTaskId("c", number), event)
            metrics.heard(ConnectorTaskId("c", number), Failed("later"))
        shown = beans(worker)[WORKER]
        assert (shown["task-startup-success-total"], shown["task-startup-failure-total"]) == (1, 1)
        metrics.task_gone(ConnectorTaskId("c", 0))
        metrics.task_gone(ConnectorTaskId("c", 1))


async def test_they_are_served_where_the_worker_is_told_to(bootstrap: str, group: str) -> None:
    (port,) = free_ports(1)
    properties = worker_properties(bootstrap, group) | {"barnabas.metrics.listener": f"http://127.0.0.1:{port}"}
    async with running(properties):
        text = await asyncio.to_thread(_read, f"http://127.0.0.1:{port}/metrics")
        assert "kafka_connect_connect_worker_metrics_connector_count 0" in text
        query = "kafka.connect:type=connect-worker-rebalance-metrics"
        (shown,) = json.loads(await asyncio.to_thread(_read, f"http://127.0.0.1:{port}/jmx?qry={query}"))["beans"]
        assert shown["connect-protocol"] == "sessioned"
        with pytest.raises(ConfigError, match=r"barnabas\.metrics\.listener"):
            async with running(properties | {"group.id": f"{group}-2"}):
                pass


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


# Beside Apache Kafka's.


def _items(found: Beans) -> set[str]:
    """Give `type{tags}#attribute` of all that is of Connect, whichever connectors there are."""
    items = set()
    for name, attributes in found.items():
        domain, _, rest = name.partition(":")
        if domain == "kafka.connect":
            tags = dict(_TAG.findall(rest))
            keys = ",".join(sorted(tags.keys() - {"type"}))
            items |= {f"{tags['type']}{{{keys}}}#{attribute}" for attribute in attributes}
    return items


async def _theirs(jvm: JvmWorker, jmx: int, folder: Path, topic: str) -> Beans:
    """Have a JVM worker run a source and a sink with a transformation, and read its MBeans."""
    (folder / "in").write_text("a\nb\n")
    more = {
        "transforms": "x",
        "transforms.x.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.x.static.field": "f",
        "transforms.x.static.value": "v",
        "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": "none",
        "transforms.x.predicate": "p",
    }
    for name, config in (
        ("in", {"connector.class": FILE_SOURCE, "file": str(folder / "in"), "topic": topic}),
        ("out", {"connector.class": FILE_SINK, "file": str(folder / "out"), "topics": topic} | more),
    ):
        answer = await asyncio.to_thread(jvm.ask, f"/connectors/{name}/config", "PUT", config)
        assert answer.status == 201, answer.text
    await until(lambda: (folder / "out").exists() and (folder / "out").read_text() == "a\nb\n")
    command = [java(), "-Xmx64M", "-XX:TieredStopAtLevel=1", str(MBEANS), str(jmx)]
    read = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, dict[str, str]] = {}
    for line in read.stdout.splitlines():
        _, name, *attributes = line.split("\t")
        found[name] = dict(_ATTRIBUTE.findall("\t".join(attributes)))
    return found


def _ours(config: WorkerConfig) -> Beans:
    """Give what there would be to see of a source and of a sink with a transformation."""
    metrics = WorkerMetrics(SystemClock(), WorkerPlugins(config), config.properties)
    shape = {"transforms": "x", "transforms.x.type": "X$Value", "predicates": "p", "predicates.p.type": "P"}
    for name, settings in (("in", {"connector.class": FILE_SOURCE}), ("out", {"connector.class": FILE_SINK} | shape)):
        metrics.connector(name, State.RUNNING, settings)
        metrics.task_starts(ConnectorTaskId(name, 0), settings, {})
    return dict(metrics.registry.values())


@pytest.mark.peer
async def test_names_are_those_of_a_jvm_worker(bootstrap: str, group: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    remote = {"port": port, "authenticate": "false", "ssl": "false", "host": "127.0.0.1"}
    flags = [f"-Dcom.sun.management.jmxremote.{key}={value}" for key, value in remote.items()]
    flags.append("-Djava.rmi.server.hostname=127.0.0.1")
    jvm = JvmWorker(tmp_path / "jvm", bootstrap, f"{group}-jvm", jvm=("-Xmx256M", "-XX:+UseSerialGC", *flags))
    await asyncio.to_thread(jvm.start)
    try:
        theirs = await _theirs(jvm, port, tmp_path, f"{group}-t")
    finally:
        await asyncio.to_thread(jvm.stop)
    ours = _ours(WorkerConfig.from_properties(worker_properties(bootstrap, group)))
    missing, only_ours = _items(theirs) - _items(ours), _items(ours) - _items(theirs)
    assert sorted(only_ours) == []
    assert sorted(item for item in missing if not any(re.fullmatch(pattern, item) for pattern in MISSING)) == []
    rotten = [pattern for pattern in MISSING if not any(re.fullmatch(pattern, item) for item in missing)]
    assert rotten == [], "no longer missing"
