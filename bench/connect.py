"""Connect workers: from topic to file and back, starting tasks, memory. Both work on a broker of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.peers.connect import JvmWorker, ask

from barnabas.model.config import format_properties
from barnabas.testing.ports import free_ports
from barnabas.testing.processes import ProcessCluster
from bench.goals import Measured, Results

VALUE_BYTES: Final = 100
LIMIT_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 0.02
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_GROUP: Final = {
    "offset.flush.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
}
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ConnectSizes:
    """How much is done. records: through each task; starts: connectors that are made one after the other."""

    repeats: int
    records: int
    starts: int


FULL: Final = ConnectSizes(3, 2_000_000, 5)
QUICK: Final = ConnectSizes(1, 300_000, 2)


class Worker(Protocol):
    """A worker as a process."""

    url: str

    @property
    def pid(self) -> int:
        """Give the process id."""


class OurWorker:
    """`barnabas connect` as a process; ended by leaving the context."""

    def __init__(self, folder: Path, bootstrap: str, group: str) -> None:
        folder.mkdir()
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._ready = folder / "ready.json"
        self._log = folder / "log"
        topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
        copies = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
        own = {"bootstrap.servers": bootstrap, "group.id": group, "key.converter": _STRING, "value.converter": _STRING}
        file = folder / "worker.properties"
        file.write_text(format_properties(_GROUP | topics | copies | own | {"listeners": self.url}))
        self._command = [sys.executable, "-m", "barnabas.cli.main", "connect", str(file), "--ready-file"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OurWorker:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*self._command, str(self._ready)], stdout=log, stderr=log)
        process = self._process
        try:
            _until(lambda: self._ready.exists() or process.poll() is not None)
        except BaseException:
            process.kill()
            raise
        if not self._ready.exists():
            raise RuntimeError(f"the worker has ended: {self._log.read_text()[-2000:]}")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(LIMIT_SECONDS)

    @property
    def pid(self) -> int:
        """Give the process id."""
        assert self._process is not None
        return self._process.pid


def measure_connect(kafka: bool, sizes: ConnectSizes, results: Results, say: Say) -> None:
    """Measure the workers of one system: Apache Kafka's or ours."""
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work,
        ProcessCluster(Path(work, "broker"), combined=1, plaintext=True) as brokers,
    ):
        ConnectLoads(kafka, Path(work), brokers, sizes, results, say).run()


class ConnectLoads:
    """The loads, each on connectors and topics of its own."""

    def __init__(
        self, kafka: bool, work: Path, brokers: ProcessCluster, sizes: ConnectSizes, results: Results, say: Say
    ) -> None:
        self._kafka = kafka
        self._work = work
        self._brokers = brokers
        self._sizes = sizes
        self._results = results
        self._say = say
        self._count = 0

    def run(self) -> None:
        """Run all of them."""
        with self._worker("loads") as worker:
            self._sink(worker, 1, self._sizes.records // 10, None)  # a first run, for classes and caches
            for _ in range(self._sizes.repeats):
                for tasks in (1, 4):
                    self._sink(worker, tasks, self._sizes.records, f"connect-sink-{tasks}")
                self._source(worker)
            for _ in range(self._sizes.starts):
                self._start(worker)
        self._memory()

    @contextmanager
    def _worker(self, group: str) -> Iterator[Worker]:
        self._count += 1
        folder = self._work / f"worker-{self._count}"
        if not self._kafka:
            with OurWorker(folder, self._brokers.bootstrap, group) as ours:
                yield ours
            return
        jvm = JvmWorker(folder, self._brokers.bootstrap, group, jvm=("-Xmx1G",))
        jvm.properties = _GROUP
        with jvm:
            yield jvm

    def _note(self, key: str | None, value: float) -> None:
        if key is not None:
            self._results.setdefault(key, Measured()).values.append(value)

    def _fresh(self, partitions: int = 1) -> str:
        self._count += 1
        name = f"load-{self._count}"
        self._brokers.create_topic(name, partitions)
        return name

    def _sink(self, worker: Worker, tasks: int, records: int, key: str | None) -> None:
        """Note records a second from the first that are in the file to the last."""
        self._say(f"  {key or 'warming up'}")
        topic, whole = self._fresh(tasks), records * tasks
        _fill(self._brokers.bootstrap, topic, tasks, records)
        file = self._work / topic
        _put(worker, topic, {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}, tasks)
        size = whole * (VALUE_BYTES + 1)
        _until(lambda: file.exists() and file.stat().st_size > 0)
        begun, before = time.perf_counter(), file.stat().st_size
        _until(lambda: file.stat().st_size >= size)
        took_s = time.perf_counter() - begun
        self._note(key, (size - before) / (VALUE_BYTES + 1) / took_s)
        _delete(worker, topic)

    def _source(self, worker: Worker) -> None:
        """Note records a second from the first that are in the topic to the last."""
        self._say("  connect-source-1")
        topic, records = self._fresh(), self._sizes.records
        file = self._work / f"{topic}.txt"
        file.write_bytes((b"x" * VALUE_BYTES + b"\n") * records)
        consumer = Consumer({"bootstrap.servers": self._brokers.bootstrap, "group.id": "looking"})

        def end() -> int:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])

        _put(worker, topic, {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}, 1)
        _until(lambda: end() > 0)
        begun, before = time.perf_counter(), end()
        _until(lambda: end() >= records)
        self._note("connect-source-1", (records - before) / (time.perf_counter() - begun))
        consumer.close()
        _delete(worker, topic)

    def _start(self, worker: Worker) -> None:
        """Note the time from POST to a task that is RUNNING."""
        self._say("  connect-start")
        topic = self._fresh()
        begun = time.perf_counter()
        config = {"connector.class": "FileStreamSink", "file": str(self._work / topic), "topics": topic}
        _put(worker, topic, config, 1)
        self._note("connect-start", time.perf_counter() - begun)
        _delete(worker, topic)

    def _memory(self) -> None:
        """Note what a worker takes with 1 task and with 20, each having done something."""
        with self._worker("memory") as worker:
            for tasks in (1, 20):
                key = f"connect-rss-{tasks}"
                self._sink(worker, tasks, 10_000, None)
                topic = self._fresh(tasks)
                config = {"connector.class": "FileStreamSink", "file": str(self._work / topic), "topics": topic}
                _put(worker, topic, config, tasks)
                self._say(f"  {key}")
                self._note(key, _resident_bytes(worker.pid) / 1e6)
                _delete(worker, topic)


def _resident_bytes(pid: int) -> int:
    """Give the resident memory of a process and of those that it has started (Linux)."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        children = [int(c) for f in Path(f"/proc/{pid}/task").glob("*/children") for c in f.read_text().split()]
    except OSError:
        return 0  # Python workers of Spark's come and go
    return own + sum(map(_resident_bytes, children))


def _fill(bootstrap: str, topic: str, partitions: int, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(records * partitions):
        while True:
            try:
                producer.produce(topic, b"x" * VALUE_BYTES, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def _put(worker: Worker, name: str, config: Mapping[str, str], tasks: int) -> None:
    """Make a connector, and wait until all of its tasks run."""
    answer = ask(f"{worker.url}/connectors/{name}/config", "PUT", {**config, "tasks.max": str(tasks)})
    if answer.status not in (200, 201):
        raise RuntimeError(f"{answer.status}: {answer.text}")
    _until(lambda: _runs(worker, name, tasks))


def _delete(worker: Worker, name: str) -> None:
    ask(f"{worker.url}/connectors/{name}", "DELETE")


def _status(worker: Worker, name: str) -> dict[str, Any]:
    answer = ask(f"{worker.url}/connectors/{name}/status")
    found: dict[str, Any] = json.loads(answer.text)
    return found if answer.status == 200 else {"tasks": []}


def _runs(worker: Worker, name: str, tasks: int) -> bool:
    states = _status(worker, name)["tasks"]
    if any(task["state"] == "FAILED" for task in states):
        raise RuntimeError(f"a task of {name} has failed: {states}")
    running = [task for task in states if task["state"] == "RUNNING"]
    return len(running) == tasks


def _until(what: Callable[[], object]) -> None:
    """Wait for something to be so; TimeoutError."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_LOOK_SECONDS)
