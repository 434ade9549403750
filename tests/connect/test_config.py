"""A worker's configuration: what is refused and why, what its clients are told, and what stays hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.configuration_reference import PAGES

from barnabas.connect.config import WorkerConfig
from barnabas.connect.config_keys import WORKER_KEYS
from barnabas.core.connect.session_keys import KeySettings
from barnabas.model.config import ConfigError, Importance

WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "k",
    "value.converter": "v",
}


def _refusal(**settings: str) -> str:
    with pytest.raises(ConfigError) as refused:
        WorkerConfig.from_properties(WORKER | {name.replace("_", "."): text for name, text in settings.items()})
    return str(refused.value)


def _config(**settings: str) -> WorkerConfig:
    return WorkerConfig.from_properties(WORKER | {name.replace("_", "."): text for name, text in settings.items()})


@pytest.mark.requirement("C-01", "C-02", "C-03", "C-04", "C-05", "C-09")
def test_defaults_of_signed_requests() -> None:
    config = _config()
    assert config.key_settings == KeySettings("HmacSHA256", 32, 3_600_000)
    assert config.signature_algorithm == "HmacSHA256"
    assert config.verification_algorithms == ("HmacSHA256",)
    assert [s.value for s in config.offered] == ["sessioned", "compatible", "default"]
    assert {key.importance for key in WORKER_KEYS if key.name.startswith("inter.worker.")} == {Importance.LOW}


@pytest.mark.requirement("C-01", "C-04", "C-05")
@pytest.mark.parametrize("name", ["key.generation.algorithm", "signature.algorithm", "verification.algorithms"])
def test_an_algorithm_that_cannot_be_used_stops_the_start_and_the_usable_ones_are_listed(name: str) -> None:
    told = _refusal(**{f"inter.worker.{name}": "HmacSHA489"})
    assert f"inter.worker.{name}" in told
    assert "HmacSHA489" in told
    assert "HmacSHA1, HmacSHA224, HmacSHA256, HmacSHA384, HmacSHA512" in told


@pytest.mark.requirement("C-02")
def test_a_key_size_that_cannot_be_stops_the_start() -> None:
    assert _config(**{"inter.worker.key.size": "512"}).key_settings.size_bytes == 64
    told = _refusal(**{"inter.worker.key.size": "8"})
    assert "inter.worker.key.size: 8" in told
    assert "40 bits" in told


@pytest.mark.requirement("C-03")
def test_a_ttl_is_any_long_that_is_not_negative() -> None:
    assert _config(**{"inter.worker.key.ttl.ms": "0"}).key_settings.ttl_ms == 0
    assert _config(**{"inter.worker.key.ttl.ms": str(1 << 40)}).key_settings.ttl_ms == 1 << 40
    assert "inter.worker.key.ttl.ms" in _refusal(**{"inter.worker.key.ttl.ms": "-1"})


@pytest.mark.requirement("C-05")
def test_some_algorithm_must_be_accepted() -> None:
    assert "inter.worker.verification.algorithms" in _refusal(**{"inter.worker.verification.algorithms": ""})


@pytest.mark.requirement("C-06")
def test_a_worker_must_accept_what_it_signs_with_and_both_settings_are_named() -> None:
    told = _refusal(**{"inter.worker.signature.algorithm": "HmacSHA512"})
    for part in (
        "inter.worker.signature.algorithm",
        "HmacSHA512",
        "inter.worker.verification.algorithms",
        "HmacSHA256",
    ):
        assert part in told
    both = {
        "inter.worker.signature.algorithm": "HmacSHA512",
        "inter.worker.verification.algorithms": "HmacSHA256,HmacSHA512",
    }
    assert _config(**both).signature_algorithm == "HmacSHA512"


@pytest.mark.requirement("C-09")
def test_the_group_protocols_name_on_the_wire_is_an_alias_and_others_are_refused() -> None:
    assert [s.value for s in _config(connect_protocol="default").offered] == ["default"]
    assert [s.value for s in _config(connect_protocol="Eager").offered] == ["default"]
    assert "eager, compatible, sessioned" in _refusal(connect_protocol="classic")


@pytest.mark.requirement("C-39")
def test_no_setting_holds_a_fixed_key_header_or_topic_for_requests_between_workers() -> None:
    assert sorted(key.name for key in WORKER_KEYS if key.name.startswith("inter")) == [
        "inter.worker.key.generation.algorithm",
        "inter.worker.key.size",
        "inter.worker.key.ttl.ms",
        "inter.worker.signature.algorithm",
        "inter.worker.verification.algorithms",
    ]


@pytest.mark.parametrize("missing", sorted(WORKER))
def test_what_has_no_default_must_be_set(missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        WorkerConfig.from_properties({name: text for name, text in WORKER.items() if name != missing})


@pytest.mark.parametrize("master", ["sc://spark:15002", "SC://spark"])
def test_spark_connect_is_refused_with_what_to_set_instead(master: str) -> None:
    told = _refusal(barnabas_spark_master=master)
    for part in ("barnabas.spark.master", master, "Spark Connect", "local[N]", "spark://host:port"):
        assert part in told


def test_the_workers_clients_take_its_settings_and_connectors_take_those_with_their_prefix() -> None:
    config = _config(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="w",
        sasl_password="pw",
        producer_acks="1",
        producer_linger_ms="7",
        consumer_max_poll_records="3",
        admin_client_id="a",
        admin_listeners="http://localhost:1",
    )
    assert config.client.security_protocol == "SASL_SSL"
    assert config.client.properties.keys().isdisjoint(["group.id", "key.converter", "admin.listeners"])
    member = config.member_client
    keys = ("group.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "request.timeout.ms")
    assert [member[key] for key in keys] == ["g", 10_000, 3_000, 60_000, 40_000]
    producer, consumer = config.producer_properties(), config.consumer_properties()
    assert (producer["acks"], producer["linger.ms"]) == ("1", "7")
    assert (consumer["auto.offset.reset"], consumer["max.poll.records"]) == ("earliest", "3")
    assert "security.protocol" not in producer | consumer, "as in Kafka, security is not inherited"
    assert ["producer.security.protocol" in w or "consumer.security.protocol" in w for w in config.warnings] == [
        True
    ] * 2
    assert config.admin_properties()["security.protocol"] == "SASL_SSL"
    assert config.admin_properties()["client.id"] == "a"


def test_what_nobody_knows_or_acts_on_is_warned_of() -> None:
    config = _config(
        conect_protocol="eager",
        key_converter_schemas_enable="false",
        config_storage_partitions="3",
        status_storage_cleanup_policy="delete",
        internal_key_converter="x",
        fetch_max_bytes="1000",
    )
    told = "\n".join(config.warnings)
    assert len(config.warnings) == 4
    assert "conect.protocol is no setting of a worker; was connect.protocol meant?" in told
    for name in ("config.storage.partitions", "status.storage.cleanup.policy", "internal.key.converter"):
        assert name in told


def test_internal_topics_and_spark_take_further_settings() -> None:
    config = _config(
        config_storage_min_insync_replicas="2",
        config_storage_cleanup_policy="delete",
        barnabas_spark_conf_spark_executor_memory="2g",
    )
    assert config.topic_settings("config.storage.") == {"min.insync.replicas": "2"}
    assert config.topic_settings("offset.storage.") == {}
    assert config.spark_conf == {"spark.executor.memory": "2g"}
    assert config["barnabas.spark.master"] == "local[*]"


def test_secrets_are_hidden_and_references_are_resolved_where_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets").write_text("pw=not-to-be-seen\n")
    monkeypatch.setenv("CONNECT_HOST", "a.example")
    config = _config(
        security_protocol="SASL_SSL",
        sasl_username="w",
        sasl_mechanism="PLAIN",
        sasl_password=f"${{file:{tmp_path}/secrets:pw}}",
        producer_sasl_jaas_config="password=not-to-be-seen",
        ssl_key_password="not-to-be-seen",
        rest_advertised_host_name="${env:CONNECT_HOST}",
        value_converter_basic_auth_credentials="not-to-be-seen",
    )
    assert "not-to-be-seen" not in f"{config!r} {config} {config.warnings} {config.client!r} {config.member_client!r}"
    assert config["rest.advertised.host.name"] == "a.example"
    assert config.client.sasl is not None
    assert config.client.sasl.password.secret == "not-to-be-seen"
    assert "${file:" in config.client.properties["sasl.password"]


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text("# a worker\n" + "".join(f"{name} = {text}\n" for name, text in WORKER.items()))
    assert WorkerConfig.load(path).text("group.id") == "g"
    with pytest.raises(ConfigError, match="cannot read"):
        WorkerConfig.load(tmp_path / "none")


def test_the_reference_says_what_the_table_says() -> None:
    (file,) = [file for file in PAGES if file.name == "connect_configuration.md"]
    assert file.read_text() == PAGES[file](), "make docs"
