"""Other people's clients at nodes of ours, by Kerberos."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from barnabas.cli.main import main
from barnabas.wire.api_keys import ApiKey
from tests.peers import tools
from tests.peers.tools import ToolResult, ToolRunner

from .kdc import Kdc, by_key_table
from .nodes import KerberosNodes, settings_of

pytestmark = [
    pytest.mark.peer,
    # The Python clients leave sockets and transports to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
BEAN = "kafka.server:type=socket-server-metrics,listener=CLIENTS,networkProcessor=0"
LIMIT_S = 60


@pytest.fixture(scope="module")
def nodes(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosNodes]:
    kdc.principal("alice")
    with KerberosNodes(tmp_path_factory.mktemp("nodes"), kdc) as found:
        for name in ("java", "kcat", "kafka-python", "aiokafka"):
            topic = {"name": name, "assignments": [{"partition_index": 0, "broker_ids": [1]}],
                     "num_partitions": -1, "replication_factor": -1}  # fmt: skip
            assert [t.error_code for t in found.ask(1, ApiKey.CREATE_TOPICS, topics=[topic]).topics] == [0]
        yield found


@pytest.fixture(scope="module")
def java(kdc: Kdc) -> Iterator[ToolRunner]:
    """Give a JVM that finds the KDC."""
    runner = ToolRunner(options=[f"-Djava.security.krb5.conf={kdc.krb5_conf}"])
    yield runner
    runner.close()


@pytest.fixture
def ticket(kdc: Kdc, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Have a ticket of alice's where libraries look for one."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('alice')}")
    yield
    # What these libraries have logged holds errors, and these their tracebacks with the sockets.
    for when in ("setup", "call"):
        caplog.get_records(when).clear()
    gc.collect()


def counted(nodes: KerberosNodes) -> dict[str, float]:
    return {name: float(value) for name, value in nodes.metric(1, BEAN).items() if name.endswith("-total")}


def asked(java: ToolRunner, folder: Path, tool: str, settings: Mapping[str, str], *args: str) -> ToolResult:
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    where = ("--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(path))
    return java.run(tool, *where, *args)


@pytest.mark.requirement("R-13")
def test_javas_producer_over_several_sessions(nodes: KerberosNodes, kdc: Kdc, java: ToolRunner, tmp_path: Path) -> None:
    settings = settings_of(nodes.bootstrap, by_key_table(str(kdc.folder / "alice.keytab"), "alice"))
    before = counted(nodes)
    done = asked(
        java, tmp_path, tools.PRODUCER_PERFORMANCE, settings,
        "--topic", "java", "--num-records", "280", "--throughput", "40", "--record-size", "10",
    )  # fmt: skip
    assert (done.code, "280 records sent" in done.stdout) == (0, True), done
    after = counted(nodes)
    more = {name: after[name] - before[name] for name in after}
    assert more["successful-reauthentication-total"] >= 2, (more, done)
    assert more["failed-reauthentication-total"] == more["failed-authentication-total"] == 0
    assert more["successful-authentication-no-reauth-total"] == 0
    # One to find out, one to produce to; the latter lives through several sessions.
    assert more["connection-creation-total"] <= 2


def test_javas_tools_are_told_what_is_wrong(nodes: KerberosNodes, kdc: Kdc, java: ToolRunner, tmp_path: Path) -> None:
    table = str(kdc.folder / "alice.keytab")
    settings = settings_of(nodes.bootstrap, by_key_table(table, "alice"))
    listed = asked(java, tmp_path, tools.TOPIC_COMMAND, settings, "--list")
    assert (listed.code, "java" in listed.stdout) == (0, True), listed
    kdc.principal("strange/localhost")
    settings["sasl.kerberos.service.name"] = "strange"
    refused = asked(java, tmp_path, tools.TOPIC_COMMAND, settings, "--list")
    assert refused.code == 1
    assert "the credentials are not valid for GSSAPI" in refused.stdout + refused.stderr


def kcat(nodes: KerberosNodes, kdc: Kdc, *args: str, stdin: str = "", service: str = "kafka") -> str:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": service,
        "sasl.kerberos.keytab": str(kdc.folder / "alice.keytab"),
        "sasl.kerberos.principal": "alice",
    }
    options = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
    done = subprocess.run(
        ["kcat", "-b", nodes.bootstrap, *options, *args],
        env={**os.environ, "KRB5CCNAME": f"FILE:{kdc.folder / 'kcat.cache'}"},
        input=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else f"refused: {done.stderr}"


def test_kcat(nodes: KerberosNodes, kdc: Kdc) -> None:
    assert kcat(nodes, kdc, "-P", "-t", "kcat", stdin="a\nb\n") == ""
    assert kcat(nodes, kdc, "-C", "-t", "kcat", "-o", "beginning", "-e", "-q") == "a\nb\n"
    kdc.principal("sphinx/localhost")
    assert "credentials are not valid for GSSAPI" in kcat(nodes, kdc, "-L", "-m", "2", service="sphinx")


def test_our_own_command(nodes: KerberosNodes, kdc: Kdc, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(**more: str) -> tuple[object, str]:
        settings = settings_of(nodes.bootstrap, by_key_table(str(kdc.folder / "alice.keytab"), "alice"), **more)
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        code: object = 0
        try:
            main(["topics", "--bootstrap-server", nodes.bootstrap, "--command-config", str(path), "--list"])
        except SystemExit as e:
            code = e.code
        return code, "".join(capsys.readouterr())

    code, said = listed()
    assert (code, "kcat" in said) == (0, True)
    code, said = listed(sasl__kerberos__service__name="unheard")
    assert code == 1
    assert "not found in Kerberos database. Check ticket or keys, sasl.kerberos.service.name" in said


def python_settings(nodes: KerberosNodes) -> dict[str, Any]:
    return {
        "bootstrap_servers": nodes.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost",
    }


@pytest.mark.usefixtures("ticket")
def test_kafka_python(nodes: KerberosNodes) -> None:
    producer = KafkaProducer(**python_settings(nodes))
    try:
        assert producer.send("kafka-python", b"hello").get(LIMIT_S).offset == 0
    finally:
        producer.close()
    consumer = KafkaConsumer("kafka-python", auto_offset_reset="earliest", **python_settings(nodes))
    try:
        assert next(consumer).value == b"hello"
    finally:
        consumer.close()


@pytest.mark.usefixtures("ticket")
async def test_aiokafka(nodes: KerberosNodes) -> None:
    async with AIOKafkaProducer(**python_settings(nodes)) as producer:
        assert (await producer.send_and_wait("aiokafka", b"hello")).offset == 0
    consumer = AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **python_settings(nodes))
    async with consumer, asyncio.timeout(LIMIT_S):
        assert (await consumer.getone()).value == b"hello"
