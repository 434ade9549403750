"""Records a second from a topic to a file and from a file to a topic, and how soon a connector's task runs."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.connect.run import FILE_SINK, FILE_SOURCE, LINE_BYTES, ConnectRun, Rate, RateClock, lines
from bench.connect.worker import Worker

_TASKS: Final = (1, 4)
_WARM_UP: Final = 10
"""The part of the records that goes through unmeasured first, for classes and caches."""
_LOOK_SECONDS: Final = 10


def measure_rates(run: ConnectRun) -> None:
    """Measure sinks, a source, and starts, all on one worker."""
    sizes = run.sizes
    with run.worker("rates") as worker:
        run.say("  warming up")
        _sink(run, worker, 1, sizes.records // _WARM_UP)
        for _ in range(sizes.repeats):
            for tasks in _TASKS:
                run.attempt(f"connect-sink-{tasks}", partial(_measure_sink, run, worker, tasks))
            run.attempt("connect-source-1", partial(_measure_source, run, worker))
        for _ in range(sizes.starts):
            run.attempt("connect-start", partial(_measure_start, run, worker))


def _measure_sink(run: ConnectRun, worker: Worker, tasks: int) -> None:
    key = f"connect-sink-{tasks}"
    run.say(f"  {key}")
    run.note_rate(key, _sink(run, worker, tasks, run.sizes.records))


def _sink(run: ConnectRun, worker: Worker, tasks: int, records: int) -> Rate:
    """Give how quickly records get into a file."""
    topic, name = run.filled_topic(tasks, records), run.name("sink")
    file, whole = run.work / name, records * LINE_BYTES
    with worker.connector(name, {"connector.class": FILE_SINK, "file": str(file), "topics": topic}, tasks):
        worker.until(lambda: _size(file) > 0, "a record is in the file")
        clock = RateClock(worker.process.pid, _size(file) // LINE_BYTES)
        worker.until(lambda: _size(file) >= whole, "all records are in the file")
        rate = clock.rate(records)
    file.unlink()
    return rate


def _measure_source(run: ConnectRun, worker: Worker) -> None:
    """Note how quickly records get into a topic."""
    run.say("  connect-source-1")
    topic, records, name = run.empty_topic(), run.sizes.source_records, run.name("source")
    file = run.work / name
    with file.open("wb") as out:
        texts = lines()
        for first in range(0, records, len(texts)):
            out.write(b"".join(text + b"\n" for text in texts[: records - first]))
    consumer = Consumer({**run.brokers.librdkafka(), "group.id": "looking"})

    def end() -> int:
        edges = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_LOOK_SECONDS)
        return int(edges[1]) if edges else 0

    try:
        with worker.connector(name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic}, 1):
            worker.until(lambda: end() > 0, "a record is in the topic")
            clock = RateClock(worker.process.pid, end())
            worker.until(lambda: end() >= records, "all records are in the topic")
            run.note_rate("connect-source-1", clock.rate(records))
    finally:
        consumer.close()
        file.unlink()


def _measure_start(run: ConnectRun, worker: Worker) -> None:
    """Note the time from POST to a task that is RUNNING."""
    run.say("  connect-start")
    topic, name = run.empty_topic(), run.name("start")
    config = {"connector.class": FILE_SINK, "file": str(run.work / name), "topics": topic}
    begun = time.perf_counter()
    with worker.connector(name, config, 1):
        run.note("connect-start", time.perf_counter() - begun)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
