"""People with odd names: as users, in rules and quotas, beside Apache Kafka; as owners of tokens and in our tools."""

from __future__ import annotations

import asyncio
import json
import secrets
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.cli.main import main
from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import EntityMatch, ScramDeletion, ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.core.sasl.client import client_mechanism
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.config import Password
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from tests.peers.kafka import RealKafka
from tests.server.frames import FramePeer, port_of
from tests.server.requests import build
from tests.sessions.nodes import LONG, OPEN, session_settings

from .logins import by_token, log_in

pytestmark = pytest.mark.peer

SCRAM: Final = "SCRAM-SHA-256"
PASSWORD: Final = "p,=w\u00a0"
TOPIC: Final = "odd"
ASCII: Final = (
    "comma,name", "a=b", "=2C", "CN=web, O=Ex", 'quo"ted', "it's", "back\\slash", "co:lon", "User:alice",
    " lead", "trail ", "two words", "*", "User:*", "a*", "semi;colon", "a/b", "a\tb", "%20", "<default>", "null",
    "../x",
    "x" * 200, "$(id)", "a\nb",
)  # fmt: skip
BEYOND: Final = ("jürgen", "пользователь", "\u202eecila", "\U0001f600", "e\u0301", "\u00a0")
"""Names that Apache Kafka's SCRAM lets nobody log in by (docs/decisions/authorizer.md)."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = session_settings(
        barnabas__sessions__socket=str(tmp_path_factory.mktemp("s") / "sessions"),
        delegation__token__secret__key="of all nodes",
    )
    with Cluster(tmp_path_factory.mktemp("odd"), settings) as found:
        found.create_topic(TOPIC)
        yield found


@pytest.fixture(scope="module")
def kafka(real_kafka: RealKafka) -> Iterator[RealKafka]:
    async def change(*, create: bool) -> None:
        async with Admin(ClientConfig.from_properties(real_kafka.client_properties("PLAINTEXT"))) as admin:
            if create:
                await admin.create_topics([NewTopic(TOPIC, 1, 1)])
            else:
                await admin.delete_topics([TOPIC])

    asyncio.run(change(create=True))
    yield real_kafka
    asyncio.run(change(create=False))


def rule(name: str) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, TOPIC)
    return AclBinding(pattern, f"User:{name}", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)


@contextmanager
def enter(port: int, user: str) -> Iterator[FramePeer]:
    """Log in by SCRAM."""
    with FramePeer(port) as peer:
        log_in(peer, SCRAM, client_mechanism(SCRAM, user, PASSWORD, lambda: secrets.token_urlsafe(24)))
        yield peer


def seen(port: int, user: str) -> str:
    """Say whether a user gets in, and is shown the topic."""
    try:
        with enter(port, user) as peer:
            asked = build(ApiKey.METADATA, topics=[{"name": TOPIC}])
            (topic,) = peer.call(asked, 12).topics
    except AuthenticationError:
        return "stays out"
    return ErrorCode(topic.error_code).name


def code(error: Exception | None) -> str:
    assert error is None or isinstance(error, ApiError)
    return "NONE" if error is None else error.code.name


async def settled(admin: Admin, name: str, wanted: list[str]) -> list[str]:
    """Wait until a broker knows of the rules; gives whose they are."""
    found: list[str] = []
    for _ in range(500):
        found = [b.principal for b in await admin.describe_acls(AclBindingFilter(principal=f"User:{name}"))]
        if found == wanted:
            break
        await asyncio.sleep(0.01)
    return found


async def told(bootstrap: str, port: int, name: str) -> dict[str, object]:
    """Give what becomes of somebody called so."""
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    outcome: dict[str, object] = {}
    async with Admin(config) as admin:
        made = await admin.alter_scram([ScramUpsertion(name, SCRAM, Password(PASSWORD))])
        outcome["user"] = {user: code(error) for user, error in made.items()}
        outcome["rule"] = [code(error) for error in await admin.create_acls([rule(name)])]
        outcome["rules"] = await settled(admin, name, [f"User:{name}"])
        try:
            await admin.alter_quotas({"user": name}, {"producer_byte_rate": 1e6})
        except ApiError as e:
            outcome["quota"] = e.code.name
        else:
            for _ in range(500):
                quotas = await admin.describe_quotas([EntityMatch("user", name)])
                if quotas:
                    break
                await asyncio.sleep(0.01)
            outcome["quota"] = quotas
            await admin.alter_quotas({"user": name}, {"producer_byte_rate": None})
        if made.get(name, 1) is None:
            for _ in range(500):
                known = await admin.describe_scram([name])
                if not isinstance(known[name], ApiError):
                    break
                await asyncio.sleep(0.01)
            outcome["known"] = known
            outcome["with its rule"] = await asyncio.to_thread(seen, port, name)
        removed = await admin.delete_acls([rule(name).as_filter])
        outcome["removed"] = [r.principal for r in removed]
        await settled(admin, name, [])
        if made.get(name, 1) is None:
            outcome["without"] = await asyncio.to_thread(seen, port, name)
            assert await admin.alter_scram(deletions=[ScramDeletion(name, SCRAM)]) == {name: None}
    return outcome


@pytest.mark.parametrize("name", ["", *ASCII, *BEYOND], ids=lambda name: ascii(name)[:20])
async def test_somebody_called_so_fares_as_at_apache_kafka(cluster: Cluster, kafka: RealKafka, name: str) -> None:
    ours = await told(f"127.0.0.1:{port_of(cluster, OPEN)}", port_of(cluster, LONG), name)
    theirs = await told(kafka.bootstrap("PLAINTEXT"), kafka.ports["SASL_PLAINTEXT"], name)
    if name == "*":
        # Its StandardAuthorizer fails for the user that everybody's rules are written as; it is not refused, either.
        assert (theirs["with its rule"], theirs["without"]) == ("UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR")
        theirs |= {"with its rule": "NONE", "without": "TOPIC_AUTHORIZATION_FAILED"}
    if name in BEYOND:
        assert (theirs["with its rule"], theirs["without"]) == ("stays out", "stays out")
        theirs |= {"with its rule": "NONE", "without": "TOPIC_AUTHORIZATION_FAILED"}
    assert ours == theirs
    if name:
        assert (ours["with its rule"], ours["without"]) == ("NONE", "TOPIC_AUTHORIZATION_FAILED")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run `barnabas`, and give what it prints for programs."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*words, "--output", "json"])
    said = capsys.readouterr()
    assert ended.value.code in (None, 0), said.err
    return json.loads(said.out)


@pytest.mark.parametrize("name", [*ASCII, *BEYOND], ids=lambda name: ascii(name)[:20])
def test_our_tools_and_tokens_know_them(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": f"127.0.0.1:{port_of(cluster, OPEN)}"})

    async def change(*, there: bool) -> None:
        async with Admin(config) as admin:
            if there:
                assert await admin.alter_scram([ScramUpsertion(name, SCRAM, Password(PASSWORD))]) == {name: None}
                assert await admin.create_acls([rule(name)]) == [None]
            else:
                assert await admin.alter_scram(deletions=[ScramDeletion(name, SCRAM)]) == {name: None}
                assert await admin.delete_acls([rule(name).as_filter]) == [rule(name)]

    asyncio.run(change(there=True))
    principals = ("--principal", f"User:{name}", "--host", "127.0.0.1", "--operation", "describe", "--topic", TOPIC)
    answer = run(capsys, "acls", "explain", "--metadata", str(cluster.files.data), *principals)
    assert answer["allowed"] is True
    assert answer["rule"]["principal"] == f"User:{name}"

    def who() -> set[str]:
        listed = run(capsys, "sessions", "list", "--config", str(cluster.files.properties))
        return {one["principal"] for one in listed}

    with enter(port_of(cluster, LONG), name) as peer:
        assert f"User:{name}" in who()
        made = peer.call(build(ApiKey.CREATE_DELEGATION_TOKEN, max_lifetime_ms=-1))
        assert (made.error_code, made.principal_type, made.principal_name) == (0, "User", name)
        mine = peer.call(build(ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=None)).tokens
        assert (made.token_id, name) in {(token.token_id, token.principal_name) for token in mine}
    assert f"User:{name}" not in who()
    with FramePeer(port_of(cluster, LONG)) as peer:
        by_token(peer, made.token_id, b64encode(made.hmac).decode())
        assert f"User:{name}" in who()
    asyncio.run(change(there=False))
