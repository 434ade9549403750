"""Nodes of ours that log in to each other by Kerberos, and clients of ours at them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.producer import Producer
from barnabas.core.sasl.exchange import AuthenticationError as Refused
from barnabas.core.sasl.mechanisms.gssapi import NAME, GssapiClient
from barnabas.net.client import AuthenticationError
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients.nodes import until
from tests.mechanisms.logins import log_in
from tests.peers.eventually import eventually
from tests.server.frames import FramePeer
from tests.server.requests import build

from .kdc import REALM, SERVICE, Kdc, by_key_table
from .nodes import LIFE_MS, KerberosNodes, client, open_channel, same_client

pytestmark = pytest.mark.peer
BEAN = "kafka.server:type=socket-server-metrics,listener={},networkProcessor=0"
ACLS = ApiKey.CREATE_ACLS


def count(nodes: KerberosNodes, node: int, name: str) -> float:
    listener = "CONTROLLER" if node in nodes.controllers else "CLIENTS"
    return float(nodes.metric(node, BEAN.format(listener))[name])


def exchange(jaas_table: str, principal: str, service: str = "kafka") -> GssapiClient:
    """Give a log-in, begun."""
    from barnabas.net.kerberos import Tickets

    return GssapiClient(*Tickets.by_key_table(jaas_table, principal).begin(service, "localhost"))


Counts = dict[int, dict[str, float]]


def counts(nodes: KerberosNodes) -> Counts:
    """Give what broker 1, which hears clients and the other broker, and the controller, which hears both, count."""
    names = ("successful-reauthentication", "failed-reauthentication", "successful-authentication-no-reauth",
             "connection-creation")  # fmt: skip
    return {node: {name: count(nodes, node, f"{name}-total") for name in names} for node in (1, 101)}


@pytest.mark.requirement("R-04", "R-13")
async def test_sessions_between_nodes_and_of_clients_are_renewed(nodes: KerberosNodes, alice: str) -> None:
    async with Admin(client(nodes.bootstrap, alice)) as admin, Producer(client(nodes.bootstrap, alice)) as producer:
        assert await admin.create_topics([NewTopic("renewed", assignments={0: [1, 2]})]) == {"renewed": None}
        await (await producer.send("renewed", b"replicated", partition=0))  # all connections stand now
        before = after = await asyncio.to_thread(counts, nodes)

        async def renewed() -> bool:
            nonlocal after
            await (await producer.send("renewed", b"x", partition=0))
            after = await asyncio.to_thread(counts, nodes)
            name = "successful-reauthentication"
            return all(after[node][name] >= before[node][name] + 3 for node in after)

        await eventually(renewed, True, 60)
    for node, found in after.items():
        assert {k: v - before[node][k] for k, v in found.items() if k != "successful-reauthentication"} == {
            "failed-reauthentication": 0, "successful-authentication-no-reauth": 0, "connection-creation": 0,
        }  # fmt: skip


@pytest.mark.requirement("R-04")
def test_a_session_lasts_as_long_as_the_setting_says(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    table = str(kdc.folder / "alice.keytab")
    with FramePeer(nodes.ports[1]) as peer:
        assert log_in(peer, NAME, exchange(table, "alice")).session_lifetime_ms == LIFE_MS
        assert log_in(peer, NAME, exchange(table, "alice")).session_lifetime_ms == LIFE_MS
        assert peer.call(build(ApiKey.METADATA, topics=[])).brokers


@pytest.mark.requirement("R-11")
def test_tokens_without_a_header_begin_a_session_that_ends_as_well(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    """Clients from before KIP-152 send them so; they are not told when the session ends."""
    ours = exchange(str(kdc.folder / "alice.keytab"), "alice")
    with FramePeer(nodes.ports[1]) as peer:
        peer.call(SaslHandshakeRequest(mechanism=NAME), 0)
        token: bytes | None = ours.first()
        while not ours.complete:
            peer.send_raw(token or b"")
            token = ours.step(peer.receive_raw())
        asked = build(ApiKey.METADATA, topics=[])
        try:
            while True:
                assert peer.call(asked).brokers
        except ConnectionError:
            pass  # at the first request after its end


@pytest.mark.requirement("R-14")
def test_a_renewal_by_somebody_else_is_refused(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    bob = kdc.principal("bob")
    with FramePeer(nodes.ports[1]) as peer:
        log_in(peer, NAME, exchange(str(kdc.folder / "alice.keytab"), "alice"))
        with pytest.raises(Refused, match="principal may not change from User:alice to User:bob"):
            log_in(peer, NAME, exchange(bob, "bob"))


async def test_a_node_takes_new_keys_of_its_own_while_it_runs(nodes: KerberosNodes, kdc: Kdc) -> None:
    config = client(nodes.bootstrap, by_key_table(kdc.principal("early"), "early"))
    kdc.change_keys(SERVICE)
    with pytest.raises(AuthenticationError, match="the credentials are not valid"):
        await open_channel(config)
    kdc.add_keys(SERVICE, kdc.service())
    await open_channel(client(nodes.bootstrap, by_key_table(kdc.principal("late"), "late")))


async def test_many_log_in_at_once(nodes: KerberosNodes, alice: str) -> None:
    log_in_again = same_client(client(nodes.bootstrap, alice))
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(log_in_again())


async def test_rules_make_users_of_names(nodes: KerberosNodes, kdc: Kdc) -> None:
    jaas = by_key_table(kdc.principal("admin/ops"), "admin/ops")
    async with Admin(client(nodes.bootstrap, jaas)) as admin:
        refused = (await admin.create_topics([NewTopic("of-rules", 1, 1)]))["of-rules"]
        assert refused is not None
        assert refused.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        rule = {"resource_type": 2, "resource_name": "of-rules", "resource_pattern_type": 3,
                "principal": "User:ADMIN-OPS", "host": "*", "operation": 5, "permission_type": 3}  # fmt: skip
        answer = await asyncio.to_thread(nodes.ask, 1, ACLS, creations=[rule])
        assert [r.error_code for r in answer.results] == [0]

        async def allowed() -> bool:
            return (await admin.create_topics([NewTopic("of-rules", 1, 1)]))["of-rules"] is None

        await eventually(allowed, True)


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_that_wants_more_than_a_login_is_told(
    nodes: KerberosNodes, kdc: Kdc, alice: str, version: int
) -> None:
    """It asks for integrity of all messages, which RFC 4752 has and Kafka has not."""
    from barnabas.net.kerberos import Tickets

    context, token = Tickets.by_key_table(str(kdc.folder / "alice.keytab"), "alice").begin("kafka", "localhost")
    with FramePeer(nodes.ports[1]) as peer:
        peer.call(SaslHandshakeRequest(mechanism=NAME))
        reply = peer.call(SaslAuthenticateRequest(auth_bytes=token), version)
        assert context.step(reply.auth_bytes) == b""
        offer = context.unwrap(peer.call(SaslAuthenticateRequest(auth_bytes=b""), version).auth_bytes)
        assert offer == b"\x01\0\0\0"
        reply = peer.call(SaslAuthenticateRequest(auth_bytes=context.wrap(b"\x02\0\xff\xff")), version)
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "without a security layer; use TLS" in reply.error_message
        assert peer.closed()


@pytest.mark.parametrize("token", [b"", b"nonsense", b"\x60\x03\x06\x01\x01", bytes(2000)])
def test_a_token_that_is_none_is_refused(nodes: KerberosNodes, token: bytes) -> None:
    with FramePeer(nodes.ports[1]) as peer:
        peer.call(SaslHandshakeRequest(mechanism=NAME))
        reply = peer.call(SaslAuthenticateRequest(auth_bytes=token))
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert reply.error_message == "Authentication failed: the credentials are not valid for GSSAPI"
        assert peer.closed()


def test_a_token_is_good_once(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    token = exchange(str(kdc.folder / "alice.keytab"), "alice").first()
    codes = []
    for _ in range(2):
        with FramePeer(nodes.ports[1]) as peer:
            peer.call(SaslHandshakeRequest(mechanism=NAME))
            codes.append(peer.call(SaslAuthenticateRequest(auth_bytes=token)).error_code)
    assert codes == [ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED]


def test_what_comes_after_the_context_must_be_what_belongs_there(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    with FramePeer(nodes.ports[1]) as peer:
        peer.call(SaslHandshakeRequest(mechanism=NAME))
        ours = exchange(str(kdc.folder / "alice.keytab"), "alice")
        peer.call(SaslAuthenticateRequest(auth_bytes=ours.first()))
        assert peer.call(SaslAuthenticateRequest(auth_bytes=b"more")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with FramePeer(nodes.ports[1]) as peer:
        peer.call(SaslHandshakeRequest(mechanism=NAME))
        ours = exchange(str(kdc.folder / "alice.keytab"), "alice")
        peer.call(SaslAuthenticateRequest(auth_bytes=ours.first()))
        peer.call(SaslAuthenticateRequest(auth_bytes=b""))
        reply = peer.call(SaslAuthenticateRequest(auth_bytes=b"not wrapped"))
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_service_that_the_nodes_are_not(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    with pytest.raises(AuthenticationError, match=r"Server unheard/localhost@.* not found in Kerberos database"):
        await open_channel(client(nodes.bootstrap, alice, sasl__kerberos__service__name="unheard"))
    kdc.principal("other/localhost")
    failures = await asyncio.to_thread(count, nodes, 1, "failed-authentication-total")
    with pytest.raises(AuthenticationError, match="the credentials are not valid for GSSAPI"):
        await open_channel(client(nodes.bootstrap, alice, sasl__kerberos__service__name="other"))
    assert await asyncio.to_thread(count, nodes, 1, "failed-authentication-total") == failures + 1


async def test_a_name_that_no_rule_makes_a_user_of(nodes: KerberosNodes, kdc: Kdc) -> None:
    name = f"{'x' * 10}/a/b@{REALM}"
    with pytest.raises(AuthenticationError, match="Authentication failed: no user here is 'xxxxxxxxxx/a/b@"):
        await open_channel(client(nodes.bootstrap, by_key_table(kdc.principal(name), name)))


def test_whoever_is_refused_hears_it_late(kdc: Kdc, tmp_path: Path) -> None:
    with (
        KerberosNodes(tmp_path, kdc, connection__failed__authentication__delay__ms="60000") as nodes,
        FramePeer(nodes.ports[1]) as peer,
    ):
        before = count(nodes, 1, "failed-authentication-total")
        peer.call(SaslHandshakeRequest(mechanism=NAME))
        peer.send(SaslAuthenticateRequest(auth_bytes=b"nonsense"))
        until(lambda: count(nodes, 1, "failed-authentication-total"), lambda failed: failed == before + 1, 20)
        assert peer.silent(0.3)


def test_a_builder_of_principals_sees_the_whole_name(kdc: Kdc, tmp_path: Path) -> None:
    jaas = by_key_table(kdc.principal("admin/all"), "admin/all")
    plug_in = {"principal__builder__class": "tests.kerberos.builders:WholeName"}
    known = f"User:root;User:kafka;Admin:admin/all@{REALM}"

    async def create(bootstrap: str) -> None:
        async with Admin(client(bootstrap, jaas)) as admin:
            assert await admin.create_topics([NewTopic("mine", 1, 1)]) == {"mine": None}

    with KerberosNodes(tmp_path, kdc, super__users=known, **plug_in) as nodes:
        asyncio.run(create(nodes.bootstrap))
