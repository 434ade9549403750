"""How many rows go through a frame, counted by Spark on the way, without a pass of its own."""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

_WAIT_S: Final = 5
"""Spark's listeners tell a moment after the job; they tell nothing when there was none."""


class RowCount:
    """Counts in the first job that reads the rows.

    frame: the one that is counted, to be used in place of the one that was given.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._observation = Observation()
        self.frame = frame.observe(self._observation, F.count(F.lit(1)))

    def value(self) -> int | None:
        """Give the count; None when no job tells. Blocks."""
        jvm: Any = self.frame.sparkSession._jvm
        told: Any = self._observation._jo  # Python's `get` would wait for ever
        concurrent = jvm.scala.concurrent
        try:
            concurrent.Await.ready(told.future(), concurrent.duration.Duration.create(_WAIT_S, "s"))
            return int(told.getRow().getLong(0))
        except (Py4JError, PySparkException):
            return None
