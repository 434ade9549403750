"""A worker as it is shipped: its tasks run on Spark, and it knows every plug-in that is shipped or installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.connect.config import WorkerConfig
from barnabas.connect.plugins import WorkerPlugins
from barnabas.connect.runtime import Runtime, SourceOffsets
from barnabas.connect.spark.runner import SparkRuntime
from barnabas.connect.spark.settings import SparkSettings
from barnabas.connect.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_worker(config: WorkerConfig, *, spark: SparkSession | None = None) -> Worker:
    """Give a worker that is ready to `run`. spark: a session to use and leave open; one of its own unless given."""
    plugins = WorkerPlugins(config)

    def runtime(offsets: SourceOffsets) -> Runtime:
        return SparkRuntime(SparkSettings.of(config), plugins.connector_class, offsets, spark=spark)

    return Worker(config, plugins, runtime)
