"""Reads over SASL_SSL: secrets stay references everywhere, and a refusal says which ACL is missing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from pyspark.sql import SparkSession

from tests.peers.kafka import RealKafka
from tests.peers.tools import ACL_COMMAND, run_tool

from .conftest import Topics
from .test_streaming import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.peer]
PASSWORD = "alice-secret"


@pytest.fixture
def alice(real_kafka: RealKafka, tmp_path: Path) -> dict[str, str]:
    """Give alice's options, her password in a file that only she may read."""
    secrets = tmp_path / "alice.properties"
    secrets.write_text(f"sasl.password={PASSWORD}\n")
    secrets.chmod(0o600)
    assert real_kafka.tls is not None
    return {
        "kafka.bootstrap.servers": real_kafka.bootstrap("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": str(real_kafka.tls.ca),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": f"${{file:{secrets}:sasl.password}}",
    }


def allow(kafka: RealKafka, operation: str, kind: str, name: str) -> None:
    """Give alice a right, and wait until the broker has heard of it from the controller."""
    run_tool(
        ACL_COMMAND, "--bootstrap-server", kafka.bootstrap("PLAINTEXT"), "--add", "--allow-principal", "User:alice",
        "--operation", operation, kind, name,
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap("PLAINTEXT")})
    wanted = AclBindingFilter(
        ResourceType[kind.removeprefix("--").upper()], name, ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation[operation.upper()], AclPermissionType.ALLOW,
    )  # fmt: skip
    until(lambda: bool(admin.describe_acls(wanted).result()), f"{operation} on {name}")


def texts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


def test_a_secret_is_nowhere_but_in_its_file(
    spark: SparkSession, topics: Topics, real_kafka: RealKafka, alice: dict[str, str], event_logs: Path, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    topic, group = topics.create(1), f"g-{uuid.uuid4().hex[:8]}"
    topics.numbers(topic, range(20), 1)
    allow(real_kafka, "Read", "--topic", topic)
    allow(real_kafka, "Write", "--topic", topic)
    allow(real_kafka, "Read", "--group", group)
    batch = spark.read.format("barnabas").options(**alice, subscribe=topic).load()
    assert batch.count() == 20
    batch.explain("extended")
    batch.select("value").write.format("barnabas").options(**alice, topic=topic).mode("append").save()
    query = (
        spark.readStream.format("barnabas")
        .options(**alice, subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": group})
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "sink"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(extended=True)
    assert spark.read.parquet(str(tmp_path / "sink")).count() == 40
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(PATIENCE_S * 1000)
    shown = capfd.readouterr()
    assert "BatchScan" in shown.out
    assert PASSWORD not in shown.out + shown.err
    logs = list(texts(event_logs))
    assert any(b"SparkListenerSQLExecutionStart" in content for _, content in logs)
    everywhere = [*logs, *texts(tmp_path / "checkpoint"), *texts(tmp_path / "sink")]
    assert not [path for path, content in everywhere if PASSWORD.encode() in content]
    assert PASSWORD not in str(query.lastProgress) + str(spark.sparkContext.getConf().getAll())


@pytest.mark.parametrize("streaming", [False, True])
def test_a_reader_without_an_acl_is_told_which(
    spark: SparkSession, topics: Topics, alice: dict[str, str], tmp_path: Path, streaming: bool
) -> None:
    topic = topics.create(1)
    topics.numbers(topic, range(3), 1)
    read = (spark.readStream if streaming else spark.read).format("barnabas").options(**alice, subscribe=topic)

    def run() -> None:
        frame = read.load()
        if not streaming:
            frame.count()
            return
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="is not allowed to") as caught:
        run()
    assert f"User:alice is not allowed to READ TOPIC {topic}" in str(caught.value)
    assert f"barnabas acls --add --allow-principal User:alice --operation READ --topic {topic}" in str(caught.value)


def test_a_writer_without_an_acl_is_told_which(
    spark: SparkSession, topics: Topics, real_kafka: RealKafka, alice: dict[str, str]
) -> None:
    topic = topics.create(1)
    allow(real_kafka, "Read", "--topic", topic)
    with pytest.raises(Exception, match=f"User:alice is not allowed to WRITE TOPIC {topic}"):
        spark.range(3).selectExpr("cast(id as string) value").write.format("barnabas").options(
            **alice, topic=topic
        ).mode("append").save()


def test_a_group_without_an_acl_is_told_which(
    spark: SparkSession, topics: Topics, real_kafka: RealKafka, alice: dict[str, str], tmp_path: Path
) -> None:
    topic = topics.create(1)
    topics.numbers(topic, range(3), 1)
    allow(real_kafka, "Read", "--topic", topic)
    frame = (
        spark.readStream.format("barnabas")
        .options(**alice, subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": "not-hers"})
        .load()
    )
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match="User:alice is not allowed to READ GROUP not-hers"):
        writer.trigger(availableNow=True).start().awaitTermination()


def test_wrong_passwords_and_unknown_topics_are_said_plainly(
    spark: SparkSession, topics: Topics, alice: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.properties"
    wrong.write_text("sasl.password=not-it\n")
    options = {**alice, "kafka.sasl.password": f"${{file:{wrong}:sasl.password}}"}
    with pytest.raises(Exception, match="User:alice") as caught:
        spark.read.format("barnabas").options(**options, subscribe="any").load().count()
    assert "not-it" not in str(caught.value)
    with pytest.raises(Exception, match="topic spark-nowhere does not exist"):
        spark.read.format("barnabas").options(**topics.options, subscribe="spark-nowhere").load().count()
    assert "NOWHERE_SECRET" not in os.environ
    options["kafka.sasl.password"] = "${env:NOWHERE_SECRET}"
    with pytest.raises(Exception, match="there is no environment variable NOWHERE_SECRET"):
        spark.read.format("barnabas").options(**options, subscribe="any").load().count()
