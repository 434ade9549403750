"""Connect workers, Apache Kafka's and ours, on a broker of ours: throughput, starts, moves, memory."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from barnabas.testing.processes import ProcessCluster
from bench.connect.lake import measure_lake
from bench.connect.memory import measure_memory
from bench.connect.move import measure_moves
from bench.connect.rates import measure_rates
from bench.connect.run import ConnectRun, ConnectSizes, Say
from bench.goals import Results

__all__ = ["FULL", "QUICK", "ConnectSizes", "measure_connect"]

FULL: Final = ConnectSizes(
    repeats=3, records=3_000_000, source_records=1_000_000, starts=5, moves=3, task_records=10_000
)
QUICK: Final = ConnectSizes(repeats=1, records=300_000, source_records=100_000, starts=2, moves=1, task_records=1_000)
_ROWS: Final = {
    "connect-sink, connect-source, connect-start": measure_rates,
    "connect-parquet": measure_lake,
    "connect-rss": measure_memory,
    "connect-move": measure_moves,
}


def measure_connect(kafka: bool, sizes: ConnectSizes, results: Results, say: Say) -> list[str]:
    """Measure the workers of one system, Apache Kafka's or ours; give what has failed, in words."""
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work,
        ProcessCluster(Path(work, "broker"), combined=1, plaintext=True) as brokers,
    ):
        run = ConnectRun(kafka, Path(work), brokers, sizes, results, say)
        for name, measure in _ROWS.items():
            run.attempt(name, partial(measure, run))
        return run.failures
