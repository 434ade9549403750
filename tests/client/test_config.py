"""Client settings in Java's and librdkafka's spelling, and where their secrets can and cannot be seen."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from barnabas.client.config import ClientConfig, HostPort, parse_host_port, resolve_references
from barnabas.model.config import ConfigError

SERVER = {"bootstrap.servers": "a:1,[::1]:2"}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"w";'


def test_java_and_librdkafka_say_the_same() -> None:
    java = ClientConfig.from_properties(
        SERVER | {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
    )
    librdkafka = ClientConfig.from_properties(
        {
            "metadata.broker.list": "a:1,[::1]:2",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": 'p"w',
        }
    )
    assert java.bootstrap == librdkafka.bootstrap == (HostPort("a", 1), HostPort("::1", 2))
    assert java.sasl == librdkafka.sasl
    assert java.sasl is not None
    assert java.sasl.password.secret == 'p"w'
    assert java.security_protocol == librdkafka.security_protocol == "SASL_SSL"
    assert java.uses_tls


def test_librdkafkas_pem_files_become_stores(tmp_path: Path) -> None:
    for name in ("ca", "crt", "key"):
        (tmp_path / name).write_text(f"{name} text")
    config = ClientConfig.from_properties(
        SERVER
        | {
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "crt"),
            "ssl.key.location": str(tmp_path / "key"),
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    java = config.java_properties
    assert java["ssl.truststore.type"] == java["ssl.keystore.type"] == "PEM"
    assert java["ssl.truststore.location"] == str(tmp_path / "ca")
    assert (java["ssl.keystore.key"], java["ssl.keystore.certificate.chain"]) == ("key text", "crt text")
    assert java["ssl.endpoint.identification.algorithm"] == ""


def test_secrets_are_not_printed_and_references_do_not_travel_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("pw=from-file\n")
    monkeypatch.setenv("BARNABAS_TEST_USER", "from-env")
    config = ClientConfig.from_properties(
        SERVER
        | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "${env:BARNABAS_TEST_USER}",
            "sasl.password": f"${{file:{secrets}:pw}}",
            "ssl.key.password": "hush",
        }
    )
    assert config.sasl is not None
    assert (config.sasl.username, config.sasl.password.secret) == ("from-env", "from-file")
    assert "hush" not in repr(config)
    assert "from-file" not in repr(config)
    travelled = pickle.dumps(config)
    assert b"from-file" not in travelled
    secrets.write_text("pw=changed\n")
    there = pickle.loads(travelled)
    assert there.sasl.password.secret == "changed"


def test_a_file_of_a_folder_is_a_reference_too(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("secret")
    assert ClientConfig.from_properties({"client.id": f"${{dir:{tmp_path}:pw}}"}).text("client.id") == "secret"


@pytest.mark.parametrize(
    "text",
    ["${env:BARNABAS_NOT_SET}", "${file:/nowhere/at/all:key}", "${file:nokey}", "${dir:/nowhere:x}", "${dir:noname}"],
)
def test_references_to_nothing_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"BARNABAS_NOT_SET|nowhere|nokey|noname"):
        resolve_references(text)


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":9092", "localhost:x", "localhost:70000", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="localhost:9092"):
        parse_host_port(text)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"linger.ms": "soon"}, "linger.ms"),
        ({"acks": "2"}, "acks"),
        ({"enable.ssl.certificate.verification": "false"}, r"ssl\.ca\.location"),
    ],
)
def test_wrong_values_are_named_at_once(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ClientConfig.from_properties(SERVER | settings)


def test_what_is_missing_is_named_when_it_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        _ = ClientConfig.from_properties({}).bootstrap
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        _ = ClientConfig.from_properties(SERVER | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}).sasl
    with pytest.raises(ConfigError, match="both or not at all"):
        _ = ClientConfig.from_properties(SERVER | {"ssl.key.location": "k"}).java_properties


def test_unknown_settings_come_with_the_nearest_known() -> None:
    assert ClientConfig.from_properties(SERVER | {"linger.mss": "1"}).unknown == {"linger.mss": "linger.ms"}
