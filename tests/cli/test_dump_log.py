"""`barnabas dump-log` prints the same text as Kafka's own tool, for files that a real Apache Kafka wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.cli.dump_log.decoders import record_type
from tests.cli.conftest import PATIENCE_S, Barnabas
from tests.peers.kafka import RealKafka
from tests.peers.tools import DUMP_LOG_SEGMENTS, TOPIC_COMMAND, run_tool, run_tool_result


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("RegisterBrokerRecord", "REGISTER_BROKER_RECORD"),
        ("NoOpRecord", "NO_OP_RECORD"),
        ("ClearElrRecord", "CLEAR_ELR_RECORD"),
        ("ProducerIdsRecord", "PRODUCER_IDS_RECORD"),
    ],
)
def test_record_types_are_spelled_as_kafkas(name: str, wanted: str) -> None:
    assert record_type(name) == wanted


def test_a_file_that_is_not_there_is_named(barnabas: Barnabas, tmp_path: Path) -> None:
    missing = tmp_path / "00000000000000000000.log"
    assert str(missing) in barnabas("dump-log", "--files", str(missing)).err


def test_damage_is_shown(barnabas: Barnabas, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"\0" * 16 + b"\1" + b"\0" * 60)
    damaged = barnabas("dump-log", "--files", str(path))
    assert (damaged.code, "magic 1" in damaged.err) == (1, True)


@pytest.fixture(scope="module")
def written(real_kafka: RealKafka) -> Path:
    """Give the data directory after keyed, compressed and transactional records, and a committed offset."""
    topic = "dumped"
    server = {"bootstrap.servers": real_kafka.bootstrap()}
    producer = Producer({**server, "transactional.id": "dumper", "compression.type": "zstd"})
    create(real_kafka, topic)
    producer.init_transactions(PATIENCE_S)
    for commit in (True, False):
        producer.begin_transaction()
        for n in range(20):
            producer.produce(topic, f"value-{n}", f"key-{n}" if n % 2 else None, partition=0, headers={"h": "x"})
        assert producer.flush(PATIENCE_S) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)
    consumer = Consumer({**server, "group.id": "dumpers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(5, PATIENCE_S)) == 5
    consumer.commit(asynchronous=False)
    consumer.close()
    return real_kafka.log_dir


def create(kafka: RealKafka, topic: str) -> None:
    settings = ("--config", "index.interval.bytes=0", "--config", "segment.bytes=1048576")
    run_tool(TOPIC_COMMAND, "--bootstrap-server", kafka.bootstrap(), "--create", "--topic", topic, *settings)


def assert_same(barnabas: Barnabas, *words: str) -> str:
    ours = barnabas("dump-log", *words)
    kafkas = run_tool_result(DUMP_LOG_SEGMENTS, *words)
    assert ours.out == kafkas.stdout
    assert ours.err == kafkas.stderr
    return ours.out


@pytest.mark.peer
@pytest.mark.parametrize(
    "flags", [[], ["--deep-iteration"], ["--print-data-log"], ["--print-data-log", "--skip-record-metadata"]]
)
def test_segments(barnabas: Barnabas, written: Path, flags: list[str]) -> None:
    segment = written / "dumped-0" / "00000000000000000000.log"
    assert "isTransactional: true" in assert_same(barnabas, "--files", str(segment), *flags)


@pytest.mark.peer
def test_indexes(barnabas: Barnabas, written: Path) -> None:
    for suffix in ("index", "timeindex", "txnindex"):
        path = written / "dumped-0" / f"00000000000000000000.{suffix}"
        assert_same(barnabas, "--files", str(path))
    assert_same(barnabas, "--files", str(written / "dumped-0" / "leader-epoch-checkpoint"))


@pytest.mark.peer
def test_the_metadata_log_and_the_bootstrap_snapshot(barnabas: Barnabas, written: Path) -> None:
    def lines(text: str) -> list[str]:
        return text.splitlines()

    segment = str(written / "__cluster_metadata-0" / "00000000000000000000.log")
    words = ("--cluster-metadata-decoder", "--files", segment)
    # The log grows all the time: what the two runs both saw must be the same.
    kafkas = lines(run_tool_result(DUMP_LOG_SEGMENTS, *words).stdout)
    ours = lines(barnabas("dump-log", *words).out)
    shared = min(len(ours), len(kafkas)) - 1
    assert shared > 30
    assert ours[:shared] == kafkas[:shared]
    for snapshot in [*written.glob("__cluster_metadata-0/*.checkpoint"), written / "bootstrap.checkpoint"]:
        assert_same(barnabas, "--cluster-metadata-decoder", "--files", str(snapshot))
    first = json.loads(barnabas("dump-log", *words, "--output", "json").out.splitlines()[2])
    assert first["batch"]["is_control"] is True


@pytest.mark.peer
def test_offsets_and_transactions(barnabas: Barnabas, written: Path, tmp_path: Path) -> None:
    """Copies are read: groups and transactions of whoever else uses the node may be written of between two looks."""
    for decoder, topic in (("offsets", "__consumer_offsets"), ("transaction-log", "__transaction_state")):
        segments = []
        for segment in sorted(written.glob(f"{topic}-*/*.log")):
            folder = tmp_path / segment.parent.name
            folder.mkdir(exist_ok=True)
            segments.append(Path(shutil.copy(segment, folder)))
        assert segments
        text = "".join(assert_same(barnabas, f"--{decoder}-decoder", "--files", str(s)) for s in segments)
        assert '"type":' in text
