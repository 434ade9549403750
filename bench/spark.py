"""How fast records come into Spark's columns; prints JSON. `python -m bench.spark [--records N]`

The same topic of 1 KB records is read from Apache Kafka and from Barnabas: by Spark's batch read on one core, by our
reader alone, by confluent-kafka into Arrow, which is what a source without our decoder would do, and by Spark's own
`kafka` source, whose jars come by Maven.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.peers.maven import spark_kafka_jars

from barnabas.spark import arrow
from barnabas.spark.batch_reader import BatchReader
from barnabas.spark.options import parse_read_options
from barnabas.spark.session import open_session
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, Record, encode_batch, read_header
from bench.systems import BarnabasSystem, KafkaSystem, System

TOPIC: Final = "bench-spark"
VALUE_BYTES: Final = 1000
PARTITIONS: Final = 4
REPEATS: Final = 3
SYSTEMS: Final[tuple[type[System], ...]] = (KafkaSystem, BarnabasSystem)


def main() -> None:
    """Measure both systems and print records per second, the best of the repetitions."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    records = parser.parse_args().records
    rates: dict[str, dict[str, int]] = {"this machine": {"decode into Arrow, one core": decode_rate()}}
    for kind in SYSTEMS:
        with (
            tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work,
            kind(Path(work, "n"), secured=False) as system,
        ):
            system.prepare()
            system.start()
            rates[kind.name] = measure(dict(system.admin()), records)
    print(json.dumps(rates, indent=1))


def measure(client: dict[str, Any], records: int) -> dict[str, int]:
    """Fill a topic, read it in four ways."""
    fill(client, records)
    options = {"kafka.bootstrap.servers": client["bootstrap.servers"], "subscribe": TOPIC}
    rates = {
        "confluent-kafka into Arrow, one process": best(lambda: consume(client, records), records),
        "our reader into Arrow, one process": best(lambda: read(options), records),
    }
    jars = ",".join(map(str, spark_kafka_jars()))
    spark = open_session("bench", master="local[1]", settings={"spark.jars": jars}, quiet=True)
    try:
        rates["Spark batch read, local[1]"] = best(lambda: spark_read(spark, "barnabas", options), records)
        rates["Spark's own `kafka` source, local[1]"] = best(lambda: spark_read(spark, "kafka", options), records)
    finally:
        spark.stop()
    return rates


def best(work: Callable[[], int], records: int) -> int:
    """Give the records per second of the quickest repetition; each must have seen every record."""
    rates = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        seen = work()
        rates.append(seen / (time.perf_counter() - start))
        if seen != records:
            raise AssertionError(f"{seen} of {records} records were read")
    return round(max(rates))


def decode_rate(batches: int = 800, per_batch: int = 64) -> int:
    """Give how many records a second become columns, from memory."""
    value = bytes(VALUE_BYTES)
    batch = encode_batch([Record(0, 1_700_000_000_000 + n, b"%08d" % n, value, ()) for n in range(per_batch)])
    header = read_header(batch)
    payloads = [
        arrow.Payload(batch[BATCH_HEADER_SIZE:], per_batch, n * per_batch, header.base_timestamp, None)
        for n in range(batches)
    ]
    return best(lambda: int(arrow.decode(payloads, "t", 0, 0, 1 << 60).num_rows), batches * per_batch)


def fill(client: dict[str, Any], records: int) -> None:
    """Write the records with librdkafka."""
    admin = AdminClient(client)  # answers come only while it is referred to
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer(client | {"linger.ms": 20, "batch.num.messages": 10_000})
    value = bytes(VALUE_BYTES)
    for n in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, b"%08d" % n, n % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if n % 1000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise AssertionError("not every record was acknowledged")


def read(options: dict[str, str]) -> int:
    """Read with our reader as an executor would."""
    reader = BatchReader(parse_read_options(options, streaming=False))
    return sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))


def consume(client: dict[str, Any], records: int) -> int:
    """Read with confluent-kafka and build the same columns from its messages."""
    consumer = Consumer({**client, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    seen = 0
    while seen < records:
        messages = consumer.consume(10_000, 10)
        if not messages:
            break
        rows = [(m.key(), m.value(), m.topic(), m.partition(), m.offset(), m.timestamp()) for m in messages]
        keys, values, topics, partitions, offsets, times = zip(*rows, strict=True)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array(topics, pa.string()),
                pa.array(partitions, pa.int32()),
                pa.array(offsets, pa.int64()),
                pa.array([ms * 1000 for _, ms in times], pa.timestamp("us", tz="UTC")),
                pa.array([kind - 1 for kind, _ in times], pa.int32()),
            ],
            schema=arrow.SCHEMA,
        )
        seen += batch.num_rows
    consumer.close()
    return seen


def spark_read(spark: Any, source: str, options: dict[str, str]) -> int:
    """Read with Spark; every value is looked at, so that none can be left out."""
    frame = spark.read.format(source).options(**options).load()
    count, size = frame.selectExpr("count(*)", "sum(length(value))").first()
    if size != count * VALUE_BYTES:
        raise AssertionError("the values have not the size that was written")
    return int(count)


if __name__ == "__main__":
    main()
