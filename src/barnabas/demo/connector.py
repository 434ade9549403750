"""The connector of the demonstration: flights as they arrive, joined with airlines and weather, into files.

Everything else, exactly once among it, is SparkSink's. `plugin` makes it known to workers.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from barnabas.connect.connector import TaskContext
from barnabas.connect.connectors.spark_sink import SparkSink
from barnabas.demo import flights

SCHEMA: Final = ", ".join(
    [*(f"{name} int" for name in flights.INTEGERS), *(f"{name} string" for name in flights.TEXTS), "time_hour string"]
)


class FlightsToLake(SparkSink):
    """Writes a row a flight, with its airline and the weather; wants StringConverter for key and value."""

    VERSION: ClassVar[str] = "1.0"

    def open(self, spark: SparkSession, task: TaskContext) -> None:
        """Have airlines and weather at hand."""
        super().open(spark, task)
        self._airlines = spark.createDataFrame(flights.airlines())
        self._weather = spark.createDataFrame(flights.weather())

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch, enriched."""
        rows = enrich(parse(batch), self._airlines, self._weather)
        super().write(rows.select(F.struct("*").alias("value")), batch_id)


def parse(batch: DataFrame) -> DataFrame:
    """Give a row a flight from keys and values that are text."""
    return batch.select(
        F.col("key").cast("int").alias("flight_id"),
        F.from_json("value", SCHEMA).alias("row"),
    ).select("flight_id", "row.*")


def enrich(parsed: DataFrame, airlines: DataFrame, weather: DataFrame) -> DataFrame:
    """Add the airline's name and the weather at the hour of departure; a flight without either keeps nulls."""
    return parsed.join(F.broadcast(airlines), "carrier", "left").join(
        F.broadcast(weather), ["origin", "time_hour"], "left"
    )
