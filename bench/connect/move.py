"""How soon the task of a worker that is killed runs on the other of its group, and goes on with its records."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from confluent_kafka import Producer

from bench.connect.run import FILE_SINK, ConnectRun
from bench.connect.worker import LIMIT_SECONDS, Worker

_CALM_SECONDS: Final = 3.0
"""How long nothing moves before the next worker is killed: longer than the time between two heartbeats."""
_GROUP: Final = "moves"


def measure_moves(run: ConnectRun) -> None:
    """Kill the worker that has the task, again and again; another takes the place of each."""
    topic, name = run.empty_topic(), run.name("moving")
    config = {"connector.class": FILE_SINK, "file": str(run.work / name), "topics": topic}
    with ExitStack() as stack:
        workers = {worker.port: worker for worker in (stack.enter_context(run.worker(_GROUP)) for _ in range(2))}
        stack.enter_context(next(iter(workers.values())).connector(name, config, 1))
        move = _Move(run, topic, name)
        for number in range(run.sizes.moves):
            if number:
                new = stack.enter_context(run.worker(_GROUP))
                workers[new.port] = new
            run.say("  connect-move")
            move.write_until_seen(*workers.values())
            holder = workers.pop(_holder(name, *workers.values()))
            (other,) = workers.values()
            move.measure(holder, other)


class _Move:
    """Moves of one connector's only task, which goes from worker to worker."""

    def __init__(self, run: ConnectRun, topic: str, name: str) -> None:
        self._run = run
        self._topic = topic
        self._name = name
        self._file = run.work / name
        self._producer = Producer({**run.brokers.librdkafka(), "linger.ms": 0})

    def write_until_seen(self, *workers: Worker) -> None:
        """Write a record, and wait until it came out."""
        before = self._size()
        self._write()
        workers[0].until(lambda: self._size() > before, "a record came out before anybody was killed")

    def measure(self, holder: Worker, other: Worker) -> None:
        """Kill the holder; note when its task runs on the other, and when a record written since has come out."""
        begun = time.perf_counter()
        holder.kill()
        before = self._size()
        self._write()
        left: dict[str, Callable[[], bool]] = {
            "connect-move-running": lambda: (other.port, "RUNNING") in other.tasks(self._name),
            "connect-move-record": lambda: self._size() > before,
        }

        def all_seen() -> bool:
            for key in [key for key, seen in left.items() if seen()]:
                self._run.note(key, time.perf_counter() - begun)
                del left[key]
            return not left

        other.until(all_seen, "the task of a killed worker has moved")

    def _write(self) -> None:
        self._producer.produce(self._topic, b"a record")
        if self._producer.flush(LIMIT_SECONDS):
            raise TimeoutError("the broker takes no record")

    def _size(self) -> int:
        return self._file.stat().st_size if self._file.exists() else 0


def _holder(name: str, first: Worker, second: Worker) -> int:
    """Wait until the group has been calm for a while; give the port of the worker that has the task."""
    last, since = None, time.monotonic()

    def calm() -> bool:
        nonlocal last, since
        tasks = [each.tasks(name) for each in (first, second)]
        now = time.monotonic()
        if tasks != last or any(len(found) != 1 or found[0].state != "RUNNING" for found in tasks):
            last, since = tasks, now
        return now - since >= _CALM_SECONDS

    first.until(calm, "the group is calm")
    assert last is not None
    return int(last[0][0].port)
