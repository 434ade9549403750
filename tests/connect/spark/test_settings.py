"""What tasks are told of the worker's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.config import ClientConfig
from barnabas.connect.config import WorkerConfig
from barnabas.connect.spark.settings import SparkSettings
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.model.config import ConfigError
from tests.connect.workers import worker_properties

pytestmark = pytest.mark.spark
TASK = ConnectorTaskId("x", 0)


def _settings(**more: str) -> SparkSettings:
    return SparkSettings.of(WorkerConfig.from_properties(worker_properties("a:1", "g", **more)))


def test_clients_of_connectors_refer_to_secrets_where_the_operator_allows_it(tmp_path: Path) -> None:
    (tmp_path / "db.properties").write_text("user=u\n")
    override = {"consumer.override.client.id": f"${{file:{tmp_path}/db.properties:user}}"}
    with pytest.raises(ConfigError, match=r"client\.id: .*config\.providers does not have file"):
        _settings().consumer(TASK, override)
    allowed = _settings(config_providers="file").consumer(TASK, override)
    assert ClientConfig.from_properties(allowed).text("client.id") == "u"


def test_clients_take_the_workers_settings_with_their_prefix_and_the_connectors_on_top() -> None:
    settings = _settings(
        security_protocol="SASL_SSL",
        producer_security_protocol="SSL",
        producer_linger_ms="1",
        consumer_max_poll_records="2",
        admin_client_id="a",
    )
    producer = settings.producer(TASK, {"producer.override.linger.ms": "7"})
    assert (producer["security.protocol"], producer["linger.ms"], producer["acks"]) == ("SSL", "7", "all")
    consumer = settings.consumer(TASK, {"consumer.override.group.id": "other"})
    assert (consumer["group.id"], consumer["max.poll.records"], consumer["auto.offset.reset"]) == (
        "other",
        "2",
        "earliest",
    )
    assert "security.protocol" not in consumer
    admin = settings.admin("x", {})
    assert (admin["security.protocol"], admin["client.id"]) == ("SASL_SSL", "a"), "it begins with the worker's own"


def test_spark_is_told_what_is_meant_for_it(tmp_path: Path) -> None:
    settings = _settings(
        barnabas_spark_master="local[2]",
        barnabas_spark_conf_spark_executor_memory="2g",
        barnabas_spark_checkpoint_dir=str(tmp_path),
        task_shutdown_graceful_timeout_ms="7",
    )
    assert (settings.master, dict(settings.spark)) == ("local[2]", {"spark.executor.memory": "2g"})
    assert (settings.scratch, settings.graceful_ms) == (tmp_path, 7)
