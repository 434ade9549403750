"""A process of its own whose Spark knows Delta Lake, for jars and extensions must be there before a session is."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from tempfile import TemporaryDirectory
from typing import ParamSpec, Self, TypeVar

from pyspark.sql import SparkSession

from barnabas.spark.session import open_session
from tests.peers.maven import delta_jars

P = ParamSpec("P")
T = TypeVar("T")


class DeltaProcess:
    """Runs functions of modules in that process, one after the other; they find the session by `session()`."""

    def __init__(self) -> None:
        jars = ",".join(map(str, delta_jars()))
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_open, initargs=(jars,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Give what the function gives; BrokenProcessPool when the process dies meanwhile."""
        return self._pool.submit(function, *args, **kwargs).result()


def session() -> SparkSession:
    """Give the session of this process."""
    found = SparkSession.getActiveSession()
    assert found is not None
    return found


def _open(jars: str) -> None:
    settings = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    spark = open_session("barnabas delta tests", master="local[2]", quiet=True, settings=settings)
    with TemporaryDirectory() as folder:  # the first commit of a session takes long, and nobody waits for it here
        spark.range(1).write.format("delta").save(f"{folder}/table")
