"""OAUTHBEARER through real nodes, which log in to each other by it as well (KIP-255, KIP-768, KIP-368)."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.core.sasl.mechanisms.oauthbearer import OAuthBearerClient
from barnabas.model.config import ConfigError
from barnabas.net.bearer_tokens import CLIENT_ID, CLIENT_SECRET, RETRIEVER, SCOPE, URL, bearer_tokens
from barnabas.net.client import AuthenticationError as RefusedError
from barnabas.net.client import DisconnectedError
from barnabas.server.config import NodeConfig
from barnabas.server.logins.oauth import UNSECURED
from barnabas.server.node import Node, NodeStartError
from barnabas.testing.logs import logged_by_logging
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.forwarding.in_process import InProcess
from tests.server.frames import FramePeer
from tests.server.requests import build

from .issuer import AUDIENCE, ISSUER, Issuer, unsigned
from .logins import log_in
from .tokens_of_our_own import TOKENS

pytestmark = pytest.mark.slow
K, E = ApiKey, ErrorCode
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def url(issuer: Issuer) -> Iterator[str]:
    with issuer.serving() as found:
        yield found


def settings(url: str, inside: str = "OAUTHBEARER") -> dict[str, Any]:
    """Give what makes the nodes take tokens, and, unless `inside` says otherwise, come with tokens themselves."""
    return {
        "sasl__enabled__mechanisms": "PLAIN,OAUTHBEARER",
        "sasl__mechanism__controller__protocol": inside,
        "sasl__mechanism__inter__broker__protocol": inside,
        "sasl__oauthbearer__jwks__endpoint__url": f"{url}/keys",
        "sasl__oauthbearer__expected__issuer": ISSUER,
        "sasl__oauthbearer__expected__audience": AUDIENCE,
        "sasl__oauthbearer__token__endpoint__url": f"{url}/token",
        "sasl__oauthbearer__client__credentials__client__id": "root",
        "sasl__oauthbearer__client__credentials__client__secret": "root-secret",
        "connections__max__reauth__ms": str(HOUR_MS),
    }


@pytest.fixture(scope="module")
def cluster(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with InProcess(tmp_path_factory.mktemp("oauth"), controllers=(101,), brokers=(1,), **settings(url)) as found:
        yield found


def by_bearer(peer: FramePeer, token: str) -> Any:
    return log_in(peer, "OAUTHBEARER", OAuthBearerClient(token))


def client(cluster: InProcess, **more: str) -> ClientConfig:
    """Give our client's settings."""
    return ClientConfig.from_properties(
        {
            "bootstrap.servers": f"127.0.0.1:{cluster.ports[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            **more,
        }
    )


def credentials(url: str, name: str) -> dict[str, str]:
    return {URL: f"{url}/token", CLIENT_ID: name, CLIENT_SECRET: f"{name}-secret", SCOPE: "kafka"}


@pytest.mark.requirement("R-05")
def test_a_session_ends_with_its_token_or_sooner(cluster: InProcess, issuer: Issuer) -> None:
    now = int(time.time())
    with FramePeer(cluster.ports[1]) as peer:
        left_ms = by_bearer(peer, issuer.token(exp=now + 45 * 60)).session_lifetime_ms
        assert 44 * 60_000 < left_ms <= 45 * 60_000
        assert peer.call(build(K.METADATA)).topics is not None
    with FramePeer(cluster.ports[1]) as peer:
        assert by_bearer(peer, issuer.token(exp=now + 2 * 3600)).session_lifetime_ms == HOUR_MS


def test_the_token_says_who_one_is(cluster: InProcess, issuer: Issuer) -> None:
    topic = {"name": "by-token", "num_partitions": 1, "replication_factor": 1}
    for user, error in (("alice", E.TOPIC_AUTHORIZATION_FAILED), ("root", E.NONE)):
        with FramePeer(cluster.ports[1]) as peer:
            by_bearer(peer, issuer.token(user))
            answer = peer.call(build(K.CREATE_TOPICS, topics=[topic], timeout_ms=9000))
            assert [t.error_code for t in answer.topics] == [error], user


def test_the_nodes_know_each_other_by_tokens(cluster: InProcess, issuer: Issuer) -> None:
    assert {asked["grant_type"] for asked in issuer.asked} == {"client_credentials"}
    assert any(asked["Authorization"].startswith("Basic ") for asked in issuer.asked)
    assert cluster.ask(1, K.METADATA, None, "root").brokers


def test_connections_to_other_brokers_share_a_token(cluster: InProcess, issuer: Issuer) -> None:
    broker = cluster.nodes[1].broker
    assert broker is not None
    fetchers = broker.replicas.fetchers

    async def log_in() -> None:
        exchange = fetchers.channel_settings().sasl
        assert exchange is not None
        made = exchange("127.0.0.1")
        assert isinstance(made, Awaitable)
        await made

    cluster.do(log_in())
    asked = len(issuer.asked)
    cluster.do(log_in())
    assert len(issuer.asked) == asked


def test_bad_tokens_are_refused_and_said_why_in_the_log_only(
    cluster: InProcess, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "iat": now, "exp": now + 100}
    bad = {
        "it ended": issuer.token("root", exp=now - 100),
        "signature is wrong": Issuer().token("root"),
        "its issuer is": issuer.token("root", iss="https://stranger.test"),
        "its alg is 'none'": unsigned({"alg": "none"}, claims),
        "65536": "a" * 70_000,
    }
    with logged_by_logging(), caplog.at_level(logging.WARNING):
        for why, token in bad.items():
            with FramePeer(cluster.ports[1]) as peer, pytest.raises(AuthenticationError) as refused:
                by_bearer(peer, token)
            assert str(refused.value) == '{"status":"invalid_token"}', why
            assert any(why in str(vars(record)) for record in caplog.records), why


def test_an_oversized_message_ends_the_connection(cluster: InProcess) -> None:
    with FramePeer(cluster.ports[1]) as peer:
        peer.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        with suppress(ConnectionError):  # it may be closed before all is sent
            peer.send(SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer " + b"a" * 600_000 + b"\x01\x01"))
        assert peer.closed()


def test_a_new_key_is_fetched_when_a_token_names_it(cluster: InProcess, issuer: Issuer) -> None:
    fetched = issuer.fetched
    issuer.add_key("of-today", curve=True)
    token = issuer.token()
    with FramePeer(cluster.ports[1]) as peer, pytest.raises(AuthenticationError):
        by_bearer(peer, token)
    cluster.wait(lambda: issuer.fetched > fetched, True)

    def known() -> bool:
        sources = cluster.nodes[1]._mechanisms._sources
        return any(key.kid == "of-today" for source in sources for key in source.known())

    cluster.wait(known, True)
    with FramePeer(cluster.ports[1]) as peer:
        by_bearer(peer, token)


def test_librdkafka_comes_with_a_token(cluster: InProcess, issuer: Issuer) -> None:
    def give(_: str) -> tuple[str, float]:
        return issuer.token("root"), time.time() + 3600

    config: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{cluster.ports[1]}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": give,
    }
    delivered: list[Any] = []
    producer = confluent_kafka.Producer(config)
    cluster.ask(1, K.CREATE_TOPICS, topics=[{"name": "rd", "num_partitions": 1, "replication_factor": 1}])
    producer.produce("rd", b"x", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(60) == 0
    assert delivered == [None]


@pytest.mark.requirement("R-05")
async def test_our_client_fetches_tokens_and_keeps_them(cluster: InProcess, issuer: Issuer, url: str) -> None:
    before = len(issuer.asked)
    async with Admin(client(cluster, **credentials(url, "root"))) as admin:
        assert await admin.nodes()
    assert issuer.asked[before]["scope"] == "kafka"
    assert len(issuer.asked) == before + 1, "two connections, one token"


async def test_tokens_from_a_file(cluster: InProcess, issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(issuer.token("root") + "\n")
    async with Admin(client(cluster, **{URL: f"file://{path}"})) as admin:
        assert await admin.nodes()
    async with Admin(client(cluster, **{URL: f"file://{path}.gone"})) as admin:
        with pytest.raises(RefusedError, match="No such file"):
            await admin.nodes()


@pytest.mark.parametrize("name", ["pop", "Retriever"])
async def test_tokens_from_a_function(cluster: InProcess, issuer: Issuer, name: str) -> None:
    TOKENS[:] = [issuer.token("root")] * 3
    async with Admin(client(cluster, **{RETRIEVER: f"tests.mechanisms.tokens_of_our_own:{name}"})) as admin:
        assert await admin.nodes()
    async with Admin(client(cluster, **{RETRIEVER: "tests.mechanisms.tokens_of_our_own:fail"})) as admin:
        with pytest.raises(RefusedError, match="no token today"):
            await admin.nodes()


async def test_a_token_is_renewed_before_it_ends_and_kept_when_there_is_no_other(issuer: Issuer) -> None:
    now = int(time.time())
    TOKENS[:] = [issuer.token(exp=now + 100, iat=now - 900), issuer.token(exp=now + 50, iat=now - 950, jti="first")]
    first = TOKENS[-1]
    source = bearer_tokens(
        {RETRIEVER: "tests.mechanisms.tokens_of_our_own:pop", "sasl.login.refresh.window.factor": "0"}, {}
    )
    assert await source.token() == first
    second = TOKENS[-1]
    assert await source.token() == second
    assert await source.token() == second, "there is no third, and this one is still good"


def test_an_issuer_that_is_away_may_come_back(cluster: InProcess) -> None:
    async def ask() -> None:
        channel_settings = client(cluster, **credentials("http://127.0.0.1:1", "root"))
        async with Admin(channel_settings.with_properties(default_api_timeout_ms="1500")) as admin:
            await admin.nodes()

    with pytest.raises(DisconnectedError, match=r"127\.0\.0\.1:1"):
        cluster.do(ask())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "token.endpoint.url"),
        ({URL: "ftp://x"}, "is not an https"),
        ({URL: "http://x/token"}, "client.credentials.client.id is missing"),
        ({URL: "http://x/token", CLIENT_ID: "a"}, "client.secret is missing"),
        ({RETRIEVER: "tests.mechanisms.tokens_of_our_own:nothing"}, "cannot load"),
        ({RETRIEVER: "tests.mechanisms.tokens_of_our_own:TOKENS"}, "neither a function"),
        ({URL: "file:///x", "sasl.login.refresh.window.factor": "x"}, "want a number"),
    ],
)
def test_settings_that_give_no_tokens(changes: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        bearer_tokens(changes, {})


async def test_a_node_wants_keys(cluster: InProcess, tmp_path: Path) -> None:
    config = {**cluster.config(1), "log.dirs": str(tmp_path)}
    without = {k: v for k, v in config.items() if k != "sasl.oauthbearer.jwks.endpoint.url"}
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url is missing"):
        Node(NodeConfig.parse(without))
    nowhere = {**cluster.config(1), "sasl.oauthbearer.jwks.endpoint.url": "http://127.0.0.1:1/keys"}
    cluster.stop_node(1)
    try:
        with pytest.raises(NodeStartError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url: http://127\.0\.0\.1:1"):
            await Node(NodeConfig.parse(nowhere)).start()
    finally:
        cluster.start_node(1)


def test_unsecured_tokens_only_where_they_are_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = int(time.time())
    token = unsigned({"alg": "none"}, {"sub": "alice", "iat": now, "exp": now + 100, "aud": "anybody"})
    asked_for = {
        "sasl__enabled__mechanisms": "PLAIN,OAUTHBEARER",
        "listener__name__clients__oauthbearer__sasl__server__callback__handler__class": UNSECURED,
        "listener__name__controller__sasl__enabled__mechanisms": "PLAIN",
    }
    more: dict[str, Any] = asked_for
    with logged_by_logging(), caplog.at_level(logging.WARNING):
        with InProcess(tmp_path, controllers=(101,), brokers=(1,), **more) as cluster:
            with FramePeer(cluster.ports[1]) as peer:
                by_bearer(peer, token)
            with FramePeer(cluster.ports[1]) as peer, pytest.raises(AuthenticationError):
                by_bearer(peer, Issuer().token("root"))
        assert any("anybody can log in as anybody" in str(vars(r)) for r in caplog.records)


@pytest.mark.requirement("F-30")
def test_what_a_token_claims_goes_with_its_owner(issuer: Issuer, url: str, tmp_path: Path) -> None:
    builder = {"principal__builder__class": "tests.mechanisms.builders:ByClaim"}
    topic = {"name": "acme-orders", "num_partitions": 1, "replication_factor": 1}
    with InProcess(tmp_path, controllers=(101,), brokers=(1,), **settings(url, inside="PLAIN"), **builder) as cluster:
        cluster.stop_node(101)
        cluster.start_node(101, authorizer__class__name="tests.mechanisms.builders:OwnTenant")
        for tenant, error in (("other", E.TOPIC_AUTHORIZATION_FAILED), ("acme", E.NONE)):
            with FramePeer(cluster.ports[1]) as peer:
                by_bearer(peer, issuer.token("alice", tenant=tenant))
                answer = peer.call(build(K.CREATE_TOPICS, topics=[topic], timeout_ms=9000))
                assert [t.error_code for t in answer.topics] == [error], tenant
        with FramePeer(cluster.ports[1]) as peer, pytest.raises(AuthenticationError, match="not valid for OAUTHBEARER"):
            by_bearer(peer, issuer.token("alice"))


@pytest.mark.requirement("R-13")
def test_our_clients_and_nodes_renew_their_sessions(issuer: Issuer, url: str, tmp_path: Path) -> None:
    short = {**settings(url), "connections__max__reauth__ms": "2500"}
    listeners = {1: "CLIENTS", 101: "CONTROLLER"}

    def renewed(cluster: InProcess, node_id: int) -> float:
        name = f"kafka.server:type=socket-server-metrics,listener={listeners[node_id]},networkProcessor=0"
        values = next(v for _, v in cluster.nodes[node_id].metrics.registry.values(name) if v)
        assert values["failed-reauthentication-total"] == 0
        return float(values["successful-reauthentication-total"])

    with InProcess(tmp_path, controllers=(101,), brokers=(1,), **short) as cluster:

        async def ask() -> int:
            questions = 0
            async with Admin(client(cluster, **credentials(url, "root"))) as admin:
                while renewed(cluster, 1) < 1 or renewed(cluster, 101) < 1:
                    assert await admin.nodes()
                    questions += 1
            return questions

        assert cluster.do(ask()) > 1
        killed = "kafka.server:type=socket-server-metrics,listener=CLIENTS,networkProcessor=0"
        assert cluster.metric(1, killed)["expired-connections-killed-count"] == 0
