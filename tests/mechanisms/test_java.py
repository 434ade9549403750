"""Apache Kafka's own clients and tools at our nodes: delegation tokens, and OAUTHBEARER with signed tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.wire.api_keys import ApiKey
from tests.forwarding.in_process import InProcess
from tests.peers import tools
from tests.peers.tools import ToolRunner, run_tool, run_tool_result

from .issuer import AUDIENCE, ISSUER, Issuer

pytestmark = pytest.mark.peer
K = ApiKey
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_BEARER = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def url(issuer: Issuer) -> Iterator[str]:
    with issuer.serving() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings: dict[str, Any] = {
        "delegation__token__secret__key": "of all nodes",
        "sasl__enabled__mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "sasl__oauthbearer__jwks__endpoint__url": f"{url}/keys",
        "sasl__oauthbearer__expected__issuer": ISSUER,
        "sasl__oauthbearer__expected__audience": AUDIENCE,
        "connections__max__reauth__ms": "1500",
    }
    folder = tmp_path_factory.mktemp("java")
    with InProcess(folder, controllers=(101,), brokers=(1,), **settings) as found:
        found.ask(1, K.CREATE_TOPICS, topics=[{"name": "java", "num_partitions": 1, "replication_factor": 1}])
        yield found


class Client:
    """Java's settings of somebody, in a file."""

    def __init__(self, cluster: InProcess, path: Path, mechanism: str, jaas: str, **more: str) -> None:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.where = ("--bootstrap-server", f"127.0.0.1:{cluster.ports[1]}", "--command-config", str(path))


def by_password(cluster: InProcess, folder: Path, user: str) -> Client:
    jaas = f'{_PLAIN} required username="{user}" password="{user}-secret";'
    return Client(cluster, folder / f"{user}.properties", "PLAIN", jaas)


@pytest.mark.requirement("F-01", "H-10")
def test_kafkas_tool_for_tokens(cluster: InProcess, tmp_path: Path) -> None:
    root = by_password(cluster, tmp_path, "root")
    tool = tools.DELEGATION_TOKEN_COMMAND
    made = run_tool(tool, *root.where, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = re.search(r"^(\S{22})\s+(\S{88})\s+User:root\s+User:root\s+\[User:bob\]", made, re.MULTILINE)
    assert found, made
    token_id, hmac = found.groups()
    cluster.wait(lambda: token_id in cluster.nodes[1].image().tokens.by_id, True)
    assert token_id in run_tool(tool, *root.where, "--describe", "--owner-principal", "User:root")
    bob = by_password(cluster, tmp_path, "bob")
    renewed = run_tool(tool, *bob.where, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation" in renewed

    jaas = f'{_SCRAM} required username="{token_id}" password="{hmac}" tokenauth="true";'
    with_token = Client(cluster, tmp_path / "token.properties", "SCRAM-SHA-256", jaas)
    assert "java" in run_tool(tools.TOPIC_COMMAND, *with_token.where, "--list")
    refused = run_tool_result(tool, *with_token.where, "--create", "--max-life-time-period", "-1")
    assert refused.code == 1
    assert "Delegation Token requests are not allowed" in refused.stdout + refused.stderr

    ended = run_tool(tool, *root.where, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in ended
    cluster.wait(lambda: token_id in cluster.nodes[1].image().tokens.by_id, False)
    gone = run_tool_result(tools.TOPIC_COMMAND, *with_token.where, "--list")
    assert gone.code == 1
    assert "SaslAuthenticationException" in gone.stdout + gone.stderr


@pytest.fixture(scope="module")
def java(url: str) -> Iterator[ToolRunner]:
    """Give a JVM that may ask our issuer, which Kafka has to be told."""
    runner = ToolRunner(options=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}/token"])
    yield runner
    runner.close()


@pytest.mark.requirement("R-13")
def test_a_java_client_with_tokens_of_an_issuer(
    cluster: InProcess, issuer: Issuer, java: ToolRunner, url: str, tmp_path: Path
) -> None:
    jaas = f'{_BEARER}.OAuthBearerLoginModule required clientId="root" clientSecret="root-secret" scope="kafka";'
    client = Client(
        cluster,
        tmp_path / "bearer.properties",
        "OAUTHBEARER",
        jaas,
        sasl__login__callback__handler__class=f"{_BEARER}.OAuthBearerLoginCallbackHandler",
        sasl__oauthbearer__token__endpoint__url=f"{url}/token",
    )
    listed = java.run(tools.TOPIC_COMMAND, *client.where, "--list")
    assert (listed.code, "java" in listed.stdout) == (0, True), listed
    assert issuer.asked[-1]["scope"] == "kafka"

    renewed = "successful-reauthentication-total"
    count = "kafka.server:type=socket-server-metrics,listener=CLIENTS,networkProcessor=0"
    sent = java.run(
        tools.PRODUCER_PERFORMANCE,
        *("--topic", "java", "--num-records", "80", "--throughput", "20", "--record-size", "10"),
        *client.where,
    )
    assert (sent.code, "80 records sent" in sent.stdout) == (0, True), sent
    assert float(cluster.metric(1, count)[renewed]) >= 1

    java.run(tools.TOPIC_COMMAND, *client.where, "--list")
    stranger = Issuer()
    own, issuer.keys = issuer.keys, stranger.keys
    try:
        refused = java.run(tools.TOPIC_COMMAND, *client.where, "--list")
    finally:
        issuer.keys = own
    assert refused.code == 1
    assert "invalid_token" in refused.stdout + refused.stderr
