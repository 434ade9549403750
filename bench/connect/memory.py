"""What a worker takes with one task and with twenty, each having done something, and what each further one adds."""

from __future__ import annotations

from typing import Final

from bench.connect.run import FILE_SINK, LINE_BYTES, ConnectRun
from bench.connect.worker import Worker

_MANY: Final = 20


def measure_memory(run: ConnectRun) -> None:
    """Measure both on one worker that does nothing else."""
    with run.worker("memory") as worker:
        one = _resident_mb(run, worker, 1)
        many = _resident_mb(run, worker, _MANY)
    run.note("connect-rss-further", (many - one) / (_MANY - 1))


def _resident_mb(run: ConnectRun, worker: Worker, tasks: int) -> float:
    key = f"connect-rss-{tasks}"
    run.say(f"  {key}")
    records = run.sizes.task_records * tasks
    topic, name = run.filled_topic(tasks, records), run.name("memory")
    file = run.work / name
    with worker.connector(name, {"connector.class": FILE_SINK, "file": str(file), "topics": topic}, tasks):
        whole = records * LINE_BYTES
        worker.until(lambda: file.exists() and file.stat().st_size >= whole, "all records are in the file")
        taken = worker.resident_mb
        run.note(key, taken)
    return taken
