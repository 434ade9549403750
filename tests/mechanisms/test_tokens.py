"""Delegation tokens through real nodes: three roles of people, through whichever broker (KIP-48, KIP-373)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.core.forwarding.envelope import wrap
from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.delegation_tokens import may_ask_for_tokens
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from tests.forwarding.in_process import BROKERS, InProcess
from tests.forwarding.scripted import client_request
from tests.server.frames import LOGIN, OPEN, FramePeer, decoded, port_of, several_listeners
from tests.server.requests import build

from .builders import TenantPrincipal
from .logins import by_token

pytestmark = pytest.mark.slow
K, E = ApiKey, ErrorCode
DAY, HOUR = 86_400_000, 3_600_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """Give the cluster that these tests share: two brokers and a controller that sweeps all the time."""
    settings: dict[str, Any] = {
        "delegation__token__secret__key": "of all nodes",
        "delegation__token__expiry__check__interval__ms": "20",
        "connections__max__reauth__ms": str(HOUR),
        "sasl__enabled__mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    with InProcess(tmp_path_factory.mktemp("tokens"), controllers=(101,), **settings) as found:
        yield found


def create(cluster: InProcess, broker: int = 1, user: str = "alice", **fields: Any) -> Any:
    """Make a token and wait until every node knows of it."""
    made = cluster.ask(broker, K.CREATE_DELEGATION_TOKEN, user=user, **{"max_lifetime_ms": -1, **fields})
    if made.error_code == E.NONE:
        for node in cluster.nodes:
            cluster.wait(lambda n=node: made.token_id in cluster.nodes[n].image().tokens.by_id, True)  # type: ignore[misc]
    return made


def gone(cluster: InProcess, token_id: str) -> None:
    """Wait until no node knows of a token."""
    for node in cluster.nodes:
        cluster.wait(lambda n=node: token_id in cluster.nodes[n].image().tokens.by_id, False)  # type: ignore[misc]


def ids(cluster: InProcess, broker: int, user: str, owners: Any = None) -> set[str]:
    """Give the tokens that somebody is shown."""
    answer = cluster.ask(broker, K.DESCRIBE_DELEGATION_TOKEN, user=user, owners=owners)
    assert answer.error_code == 0
    return {token.token_id for token in answer.tokens}


def password(made: Any) -> str:
    """Give what proves a token."""
    return b64encode(made.hmac).decode()


def user(name: str) -> dict[str, str]:
    """Give a principal as requests carry it."""
    return {"principal_type": "User", "principal_name": name}


def allow(cluster: InProcess, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
    """Let bob do something, and wait until the brokers know."""
    rule = {
        "resource_type": resource_type, "resource_name": name, "principal": "User:bob", "host": "*",
        "operation": operation, "permission_type": 3,
    }  # fmt: skip
    assert cluster.ask(1, K.CREATE_ACLS, creations=[rule]).results[0].error_code == 0
    for broker in BROKERS:
        acls = cluster.nodes[broker]
        cluster.wait(
            lambda n=acls: any(a.operation == operation for a in n.image().acls.by_id.values()),  # type: ignore[misc]
            True,
        )


@pytest.mark.requirement("F-01")
@pytest.mark.parametrize("broker", BROKERS)
def test_a_token_made_at_one_broker_is_changed_at_the_other(cluster: InProcess, broker: int) -> None:
    other = next(b for b in BROKERS if b != broker)
    made = create(cluster, broker, renewers=[user("bob")])
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "alice")
    assert made.token_id in ids(cluster, other, "alice")
    assert made.token_id in ids(cluster, other, "bob", [user("alice")])
    renewed = cluster.ask(other, K.RENEW_DELEGATION_TOKEN, user="bob", hmac=made.hmac, renew_period_ms=3 * DAY)
    assert (renewed.error_code, renewed.expiry_timestamp_ms > made.issue_timestamp_ms) == (0, True)
    refused = cluster.ask(other, K.RENEW_DELEGATION_TOKEN, user="root", hmac=made.hmac, renew_period_ms=-1)
    assert refused.error_code == E.DELEGATION_TOKEN_OWNER_MISMATCH
    ended = cluster.ask(other, K.EXPIRE_DELEGATION_TOKEN, user="alice", hmac=made.hmac, expiry_time_period_ms=-1)
    assert ended.error_code == 0
    gone(cluster, made.token_id)
    assert made.token_id not in ids(cluster, broker, "alice")


@pytest.mark.requirement("H-10")
@pytest.mark.parametrize("broker", BROKERS)
def test_who_came_with_a_token_cannot_make_another_one(cluster: InProcess, broker: int) -> None:
    made = create(cluster)
    with FramePeer(cluster.ports[broker]) as peer:
        by_token(peer, made.token_id, password(made))
        assert peer.call(build(K.METADATA)).topics is not None
        for key, fields in (
            (K.CREATE_DELEGATION_TOKEN, {"max_lifetime_ms": -1}),
            (K.RENEW_DELEGATION_TOKEN, {"hmac": made.hmac, "renew_period_ms": -1}),
            (K.EXPIRE_DELEGATION_TOKEN, {"hmac": made.hmac, "expiry_time_period_ms": -1}),
            (K.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
        ):
            assert peer.call(build(key, **fields)).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, key
    assert made.token_id in ids(cluster, broker, "alice")


@pytest.mark.requirement("H-10", "F-29")
def test_the_controller_sees_that_a_forwarded_request_came_with_a_token(cluster: InProcess) -> None:
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    principal = KafkaPrincipal("User", "alice", token_authenticated=True)
    envelope = wrap(client_request(request, 3)[1], principal, "127.0.0.1", DefaultPrincipalSerde())
    with cluster.frames(101, "broker-1") as peer:
        answer = peer.call(envelope)
    inside: CreateDelegationTokenResponse = decoded(request, 3, bytes(answer.response_data))
    assert (answer.error_code, inside.error_code) == (0, E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def test_one_needs_a_permission_to_make_a_token_for_somebody_else(cluster: InProcess) -> None:
    carol = {"owner_principal_type": "User", "owner_principal_name": "carol"}
    assert create(cluster, 2, user="bob", **carol).error_code == E.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    allow(cluster, AclOperation.CREATE_TOKENS, ResourceType.USER, "User:carol")
    made = create(cluster, 2, user="bob", **carol)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "carol", "bob")
    assert made.token_id not in ids(cluster, 1, "bob")
    allow(cluster, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol")
    assert made.token_id in ids(cluster, 1, "bob")
    with FramePeer(cluster.ports[1]) as peer:
        by_token(peer, made.token_id, password(made), "SCRAM-SHA-512")


@pytest.mark.requirement("R-05")
def test_a_session_ends_with_its_token(cluster: InProcess) -> None:
    long, short = create(cluster), create(cluster, max_lifetime_ms=HOUR // 2)
    with FramePeer(cluster.ports[1]) as peer:
        assert by_token(peer, long.token_id, password(long)).session_lifetime_ms == HOUR
    with FramePeer(cluster.ports[1]) as peer:
        assert 0 < by_token(peer, short.token_id, password(short)).session_lifetime_ms <= HOUR // 2


def test_what_is_past_its_time_is_gone_from_every_node(cluster: InProcess) -> None:
    made = create(cluster, max_lifetime_ms=1500)
    gone(cluster, made.token_id)
    with FramePeer(cluster.ports[1]) as peer, pytest.raises(AuthenticationError, match="credentials are not valid"):
        by_token(peer, made.token_id, password(made))


def test_neither_another_password_nor_an_unknown_token_logs_in(cluster: InProcess) -> None:
    made, answers = create(cluster), []
    for token_id, secret in ((made.token_id, "x" * 88), ("no-such-token", password(made))):
        with FramePeer(cluster.ports[2]) as peer, pytest.raises(AuthenticationError) as refused:
            by_token(peer, token_id, secret)
        answers.append(str(refused.value))
    assert len(set(answers)) == 1


def test_every_api_of_tokens_is_offered(cluster: InProcess) -> None:
    keys = {int(row.key) for row in API_KEYS.values() if "DELEGATION_TOKEN" in row.key.name}
    for node, offered in ((1, keys), (2, keys), (101, keys - {int(K.DESCRIBE_DELEGATION_TOKEN)})):
        with cluster.frames(node) as peer:
            assert offered <= {api.api_key for api in peer.call(build(K.API_VERSIONS), 2).api_keys}


def test_tokens_outlive_their_nodes(cluster: InProcess) -> None:
    made = create(cluster)
    cluster.stop_node(1)
    cluster.start_node(1)
    cluster.stop_node(101)
    cluster.start_node(101)
    with FramePeer(cluster.ports[1]) as peer:
        by_token(peer, made.token_id, password(made))
    renewed = cluster.ask(1, K.RENEW_DELEGATION_TOKEN, user="alice", hmac=made.hmac, renew_period_ms=-1)
    assert renewed.error_code == 0


@pytest.mark.requirement("H-10")
def test_an_open_listener_hands_out_no_tokens(tmp_path: Path) -> None:
    settings = several_listeners(delegation__token__secret__key="of all nodes")
    with Cluster(tmp_path, settings) as open_one:
        for listener, error in ((OPEN, E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED), (LOGIN, E.NONE)):
            with FramePeer(port_of(open_one, listener)) as peer:
                if listener == LOGIN:
                    peer.login("alice")
                codes = {
                    peer.call(build(key)).error_code for key in (K.CREATE_DELEGATION_TOKEN, K.DESCRIBE_DELEGATION_TOKEN)
                }
                assert codes == {error}, listener


def test_without_a_key_there_are_no_tokens(tmp_path: Path) -> None:
    with Cluster(tmp_path, several_listeners()) as without, FramePeer(port_of(without, LOGIN)) as peer:
        peer.login("alice")
        for key in (
            K.CREATE_DELEGATION_TOKEN,
            K.RENEW_DELEGATION_TOKEN,
            K.EXPIRE_DELEGATION_TOKEN,
            K.DESCRIBE_DELEGATION_TOKEN,
        ):
            assert peer.call(build(key)).error_code == E.DELEGATION_TOKEN_AUTH_DISABLED, key


@dataclass
class Asked:
    """As much of a request's context as is looked at."""

    connection: ClientConnection

    @property
    def principal(self) -> KafkaPrincipal:
        return self.connection.principal


@pytest.mark.requirement("H-10")
@pytest.mark.parametrize(
    ("protocol", "principal", "may"),
    [
        ("PLAINTEXT", KafkaPrincipal("User", "alice"), False),
        ("SSL", KafkaPrincipal("User", "ANONYMOUS"), False),
        ("SSL", TenantPrincipal("User", "ANONYMOUS", False, "none"), False),
        ("SSL", KafkaPrincipal("User", "CN=alice"), True),
        ("SASL_SSL", KafkaPrincipal("User", "alice"), True),
        ("SASL_PLAINTEXT", TenantPrincipal("User", "alice", False, "acme"), True),
        ("SASL_SSL", KafkaPrincipal("User", "alice", token_authenticated=True), False),
    ],
)
def test_where_tokens_may_be_asked_for(protocol: str, principal: KafkaPrincipal, may: bool) -> None:
    asked = Asked(ClientConnection("id", "192.0.2.7", 1, "L", protocol, principal))
    assert may_ask_for_tokens(cast(RequestContext, asked)) is may
