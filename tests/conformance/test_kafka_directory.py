"""The door both ways: we open the directories of a real Kafka 4.3.1, and it goes on with what we left in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from structlog.testing import capture_logs

from barnabas.model.topic_partition import TopicPartition
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dirs import LogDirs
from barnabas.wire.compression import Compression
from barnabas.wire.record_batch import decode_batch
from tests.conformance.test_dump_log_segments import dump_everything
from tests.peers.kafka import RealKafka
from tests.storage.logs import ManualClock, batch, log_config

pytestmark = pytest.mark.peer

PLAIN, IDEMPOTENT, COMPACTED, TRANSACTIONAL = "plain", "idempotent", "compacted", "transactional"
CONFIGS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {"segment.bytes": "1048576"},
    IDEMPOTENT: {},
    COMPACTED: {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"},
    TRANSACTIONAL: {},
}
Content = dict[str, list[tuple[int, bytes | None, bytes | None]]]


def topic_config(topic: str) -> LogConfig:
    return log_config(CONFIGS.get(topic, {}))


def open_dirs(kafka: RealKafka) -> LogDirs:
    dirs = LogDirs([kafka.log_dir], ManualClock(), topic_config=topic_config)
    dirs.acquire()
    dirs.load()
    return dirs


def read(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Give offset, key and value of every record of a segment walk, control records left out."""
    rows = []
    for segment in log.segments:
        for _, header, data in segment.batches():
            if not header.is_control:
                rows += [(r.offset, r.key, r.value) for r in decode_batch(data)]
    return rows


def consume(kafka: RealKafka, isolation: str = "read_uncommitted") -> Content:
    """Read every topic to its end with librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap(),
            "group.id": "door",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    content: Content = {}
    for topic in CONFIGS:
        consumer.assign([ClientPartition(topic, 0, 0)])
        rows = content.setdefault(topic, [])
        while True:
            message = consumer.poll(60)
            assert message is not None, f"{topic} gave no end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            rows.append((message.offset() or 0, message.key(), message.value()))
    consumer.close()
    return content


def produce(kafka: RealKafka, codecs: tuple[str, ...] = ("none", "gzip", "snappy", "lz4", "zstd")) -> None:
    """Write to every topic: all codecs, an idempotent producer, keys again and again, aborted transactions."""
    base = {"bootstrap.servers": kafka.bootstrap(), "linger.ms": 2}
    for codec in codecs:
        producer = Producer({**base, "compression.type": codec})
        for n in range(400):
            producer.produce(PLAIN, value=b"%s %d " % (codec.encode(), n) * 350, partition=0)
            producer.produce(COMPACTED, key=b"key-%d" % (n % 9), value=b"%d" % n, partition=0)
            if n % 100 == 0:
                producer.flush()
        producer.flush()
    producer = Producer({**base, "enable.idempotence": True})
    for n in range(300):
        producer.produce(IDEMPOTENT, value=b"i%d" % n, partition=0)
    producer.flush()
    producer = Producer({**base, "transactional.id": "door"})
    producer.init_transactions()
    for n in range(6):
        producer.begin_transaction()
        for r in range(10):
            producer.produce(TRANSACTIONAL, value=b"t%d.%d" % (n, r), partition=0)
        producer.flush()
        producer.abort_transaction() if n % 2 else producer.commit_transaction()


@pytest.fixture
def kafka(tmp_path: Path) -> RealKafka:
    # Compaction by the real cleaner would race with the test's reading: it is switched off, ours is not.
    return RealKafka(tmp_path / "kafka", properties={"log.cleaner.enable": "false"})


def create_topics(kafka: RealKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap()})
    futures = admin.create_topics([NewTopic(t, 1, 1, config=dict(c)) for t, c in CONFIGS.items()])
    for future in futures.values():
        future.result(60)


def test_both_ways(kafka: RealKafka) -> None:
    with kafka:
        create_topics(kafka)
        produce(kafka)
        before = consume(kafka)
        committed = consume(kafka, "read_committed")
    # A directory that Kafka closed.
    with capture_logs() as logged:
        dirs = open_dirs(kafka)
    assert [e for e in logged if e["log_level"] == "warning"] == []
    assert dirs.directories[0].was_clean
    assert dirs.directories[0].clean_broker_epoch >= 0
    logs = {topic: dirs.logs[TopicPartition(topic, 0)] for topic in CONFIGS}
    assert {topic: read(log) for topic, log in logs.items()} == before
    assert all(log.high_watermark == log.log_end_offset for log in logs.values())
    assert all(log.recovered_bytes_cut == 0 and log.topic_id is not None for log in logs.values())
    aborted = logs[TRANSACTIONAL].aborted_transactions(0, logs[TRANSACTIONAL].log_end_offset)
    assert [(t.first_offset, t.last_offset) for t in aborted] == [(11, 21), (33, 43), (55, 65)]
    assert len(logs[PLAIN].segments) > 1
    # We go on: append, compact, flush, close.
    for topic, log in logs.items():
        for n, codec in enumerate(Compression):
            info = log.append_as_leader(batch((b"key-0", b"ours %d" % n), compression=codec), 7)
            before[topic].append((info.first_offset, b"key-0", b"ours %d" % n))
            committed[topic].append(before[topic][-1])
        log.update_high_watermark(log.log_end_offset)
    logs[COMPACTED].roll()
    dirs.clean_pass()
    after = {topic: read(log) for topic, log in logs.items()}
    assert len(after[COMPACTED]) < len(before[COMPACTED])
    assert {k: v for _, k, v in after[COMPACTED]} == {k: v for _, k, v in before[COMPACTED]}
    before[COMPACTED] = committed[COMPACTED] = after[COMPACTED]
    assert after == before
    dirs.close(broker_epoch=1)
    for topic in CONFIGS:
        dump_everything(kafka.log_dir / f"{topic}-0", gaps=topic in (COMPACTED, TRANSACTIONAL))
    # Kafka goes on with what we left, and takes more.
    with kafka:
        assert consume(kafka) == before
        assert consume(kafka, "read_committed") == committed
        produce(kafka, ("lz4",))
        kafka_now = consume(kafka)
    # And back again.
    dirs = open_dirs(kafka)
    assert {topic: read(dirs.logs[TopicPartition(topic, 0)]) for topic in CONFIGS} == kafka_now
    dirs.close()


def test_a_directory_that_kafka_left_when_killed(kafka: RealKafka) -> None:
    with kafka:
        create_topics(kafka)
        produce(kafka)
        before = consume(kafka)
        kafka.stop(kill=True)
    dirs = open_dirs(kafka)
    assert not dirs.directories[0].was_clean
    logs = {topic: dirs.logs[TopicPartition(topic, 0)] for topic in CONFIGS}
    assert {topic: read(log) for topic, log in logs.items()} == before
    assert logs[IDEMPOTENT].producers.entries
    # Killed likewise: Kafka recovers after us.
    for topic, log in logs.items():
        info = log.append_as_leader(batch((b"key-0", b"ours")), 7)
        before[topic].append((info.first_offset, b"key-0", b"ours"))
    dirs.close(clean=False)
    with kafka:
        assert consume(kafka) == before
