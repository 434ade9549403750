"""OAUTHBEARER held against Apache Kafka: which tokens are taken, and our client at its nodes (KIP-768)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.core.sasl.mechanisms.oauthbearer import OAuthBearerClient
from barnabas.net.bearer_tokens import URL
from tests.forwarding.in_process import InProcess
from tests.peers.apache import SMALL_JVM
from tests.peers.kafka import RealKafka
from tests.server.frames import FramePeer

from .issuer import AUDIENCE, ISSUER, In, Issuer, at_once, unsigned
from .logins import log_in

pytestmark = pytest.mark.peer
_SASL = "org.apache.kafka.common.security.oauthbearer"


@dataclass
class Ports:
    """Where Apache Kafka's node and ours listen."""

    kafka: int
    barnabas: int
    issuer: Issuer
    keys: Path


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    issuer, folder = Issuer(), tmp_path_factory.mktemp("bearer")
    keys = folder / "keys.json"
    keys.write_text(issuer.jwks())
    common = {
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": "0",
        "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
    }
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl."
    properties = {
        **common,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
        f"{prefix}server.callback.handler.class": f"{_SASL}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}jaas.config": f'{_SASL}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";',
    }
    jvm = (*SMALL_JVM, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys}",
           f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}")  # fmt: skip
    settings: dict[str, Any] = {key.replace(".", "__"): value for key, value in common.items()}
    settings["sasl__enabled__mechanisms"] = "PLAIN,OAUTHBEARER"
    real = RealKafka(folder / "kafka", ("SASL_PLAINTEXT",), properties=properties, jvm=jvm)
    ours = InProcess(folder, controllers=(101,), brokers=(1,), **settings)
    with real, ours:
        yield Ports(real.ports["SASL_PLAINTEXT"], ours.ports[1], issuer, keys)


def taken(port: int, token: str) -> bool:
    """Say whether a node lets somebody in with a token."""
    with FramePeer(port) as peer:
        try:
            log_in(peer, "OAUTHBEARER", OAuthBearerClient(token))
        except AuthenticationError:
            return False
    return True


def claims(**changes: Any) -> dict[str, Any]:
    """Give what a good token claims."""
    return at_once({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": In(0), "exp": In(1000), **changes})


CHANGES: list[dict[str, Any]] = [
    {}, {"aud": "other"}, {"aud": ["x", AUDIENCE]}, {"aud": ["x"]}, {"aud": "x"}, {"aud": None}, {"aud": []},
    {"iss": "x"}, {"iss": None}, {"iss": ISSUER + "/"}, {"exp": In(-10)}, {"exp": In(-100)}, {"exp": None},
    {"exp": "x"}, {"exp": In(1000.5)}, {"iat": None}, {"iat": In(-10)}, {"iat": In(5000), "exp": In(4000)},
    {"iat": "x"}, {"nbf": In(0)}, {"nbf": In(20)}, {"nbf": In(600)}, {"nbf": In(5000), "exp": In(4000)},
    {"sub": None}, {"sub": ""}, {"sub": " "}, {"sub": 7}, {"sub": ["a"]}, {"sub": "a b"}, {"scope": "a b"},
    {"scope": ["a", "b"]}, {"scope": None}, {"jti": "x"}, {"anything": {"deep": [1]}},
]  # fmt: skip
HEADERS: list[dict[str, Any]] = [
    {"typ": "at+jwt"}, {"alg": "none"}, {"alg": "HS256"}, {"alg": "RS512"}, {"kid": "unknown"}, {"crit": ["x"], "x": 1},
    {"cty": "JWT"}, {"cty": "application/jwt"}, {"cty": "json"}, {"x5t": "abc"}, {"unheard": "of"},
]  # fmt: skip


def test_the_same_tokens_are_taken(ports: Ports) -> None:
    issuer = ports.issuer
    tokens = {f"claims {c}": issuer.token(**c) for c in CHANGES}
    tokens |= {f"header {h}": issuer.token(header=h) for h in HEADERS}
    tokens["another issuer"] = Issuer().token()
    tokens["unsigned"] = unsigned({"alg": "none"}, claims())
    tokens["cut"] = issuer.token()[:-4]
    tokens["two parts"] = issuer.token().rpartition(".")[0]
    tokens["four parts"] = issuer.token() + ".x"
    theirs, ours = ({name: taken(port, t) for name, t in tokens.items()} for port in (ports.kafka, ports.barnabas))
    assert {name for name in tokens if theirs[name] != ours[name]} == set()
    assert 8 < sum(ours.values()) < len(tokens) - 20


async def test_our_client_comes_to_apache_kafka_with_a_token(ports: Ports, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(ports.issuer.token())
    config = ClientConfig.from_properties(
        {
            "bootstrap.servers": f"localhost:{ports.kafka}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            URL: f"file://{token}",
        }
    )
    async with Admin(config) as admin:
        assert await admin.nodes()
