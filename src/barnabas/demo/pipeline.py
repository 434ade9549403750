"""The Spark side: flights as they arrive, joined with airlines and weather, into Parquet by month."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.demo import flights
from barnabas.demo.folder import Folder
from barnabas.demo.principals import GROUP
from barnabas.spark.offsets import offsets_from_json

SCHEMA: Final = ", ".join(
    [*(f"{name} int" for name in flights.INTEGERS), *(f"{name} string" for name in flights.TEXTS), "time_hour string"]
)
BATCHES: Final = 6
"""How many micro-batches the whole takes, so that there is something to watch and to resume from."""


def start(spark: SparkSession, options: Mapping[str, str], folder: Folder, total: int) -> StreamingQuery:
    """Start, or resume, the query that fills the lake with all that is in the topic now, batch by batch."""
    raw = (
        spark.readStream.format("barnabas")
        .options(**options)
        .option("subscribe", flights.TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max(total // BATCHES, 1))
        .option("kafka.group.id", GROUP)
        .load()
    )
    enriched = enrich(parse(raw), airlines(spark), weather(spark))
    return (
        enriched.writeStream.format("parquet")
        .partitionBy("month")
        .option("path", str(folder.lake))
        .option("checkpointLocation", str(folder.checkpoint))
        .queryName("flights-to-lake")
        .trigger(availableNow=True)
        .start()
    )


def end_offsets(text: str) -> list[int]:
    """Give the offsets that a progress report says a batch ended at, a number a partition."""
    return list(offsets_from_json(json.loads(text)).values())


def parse(raw: DataFrame) -> DataFrame:
    """Give a row a flight from Kafka's columns."""
    return raw.select(
        F.col("key").cast("string").cast("int").alias("flight_id"),
        F.from_json(F.col("value").cast("string"), SCHEMA).alias("row"),
    ).select("flight_id", "row.*")


def enrich(parsed: DataFrame, airline: DataFrame, conditions: DataFrame) -> DataFrame:
    """Add the airline's name and the weather at the hour of departure; a flight without either keeps nulls."""
    return parsed.join(F.broadcast(airline), "carrier", "left").join(
        F.broadcast(conditions), ["origin", "time_hour"], "left"
    )


def airlines(spark: SparkSession) -> DataFrame:
    """Give the airlines as Spark sees them."""
    return spark.createDataFrame(flights.airlines())


def weather(spark: SparkSession) -> DataFrame:
    """Give the weather as Spark sees it."""
    return spark.createDataFrame(flights.weather())


def lake(spark: SparkSession, folder: Folder) -> DataFrame:
    """Give what the query has finished so far."""
    return spark.read.parquet(str(folder.lake))


def delays(enriched: DataFrame) -> DataFrame:
    """Give airline, hour, number of flights that left, and their mean delay at departure in minutes."""
    return (
        enriched.where(F.col("dep_delay").isNotNull())
        .groupBy("airline", "hour")
        .agg(F.count(F.lit(1)).alias("flights"), F.avg("dep_delay").alias("delay"))
    )
