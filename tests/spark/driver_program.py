"""A Spark driver in a process of its own, for tests that kill it or that need another master.

Takes one JSON argument: master, settings, options of the read, trigger, and the folders of sink and checkpoint.
Prints one JSON line when the query has ended by itself.
"""

from __future__ import annotations

import json
import sys

from barnabas.spark.session import open_session


def main(job: dict[str, object]) -> None:
    """Run a query into Parquet, then read the topic in one batch, and print how many rows each gave."""
    settings, options = job["settings"], job["options"]
    assert isinstance(settings, dict)
    assert isinstance(options, dict)
    spark = open_session("driver program", master=str(job["master"]), settings=settings, quiet=True)
    stream = spark.readStream.format("barnabas").options(**options, startingOffsets="earliest").load()
    query = (
        stream.selectExpr("cast(cast(value as string) as long) n", "partition", "offset")
        .writeStream.format("parquet")
        .option("path", str(job["sink"]))
        .option("checkpointLocation", str(job["checkpoint"]))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    streamed = spark.read.parquet(str(job["sink"])).selectExpr("count(*) c", "count(distinct n) d", "sum(n) s")
    batch = spark.read.format("barnabas").options(**options).load()
    written = spark.range(100, numPartitions=2).selectExpr("cast(id as string) value")
    if target := job.get("write_to"):
        written.write.format("barnabas").options(**options, topic=str(target)).mode("append").save()
    result = {"stream": list(streamed.collect()[0]), "batch": batch.count(), "rows": query.recentProgress != []}
    print(json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
