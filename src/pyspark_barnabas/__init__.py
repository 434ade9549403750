"""Makes `format("barnabas")` known to Spark, which looks for `DefaultSource` in every module named `pyspark_*`."""

from __future__ import annotations

from barnabas.spark.source import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
