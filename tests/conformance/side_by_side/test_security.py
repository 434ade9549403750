"""ACLs, SCRAM credentials, client quotas, and what may be said before and during a login."""

# ruff: noqa: E501 - tables of requests

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from barnabas.model.acl import AclOperation, ResourceType

from .requests import request
from .script import side_by_side
from .side import NOBODY, Connection, Side

pytestmark = pytest.mark.peer
ANY: Final = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
RULE: Final = {
    "resource_type": 2, "resource_name": "acls-a", "resource_pattern_type": 3, "principal": "User:carol", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip


@side_by_side
def test_acls(s: Side) -> None:
    rules: list[dict[str, Any]] = [
        RULE,
        {**RULE, "resource_name": "acls-", "resource_pattern_type": 4},
        {**RULE, "resource_name": "*", "operation": 8, "permission_type": 2},
        {**RULE, "principal": "User:dave", "host": "10.0.0.1"},
        {**RULE, "resource_type": 4, "resource_name": "kafka-cluster", "operation": 8},
        {**RULE, "resource_type": 3, "operation": 2},
    ]
    s.every_version(request("CreateAcls", creations=rules), users=(NOBODY, "admin", "admin"))
    bad: list[dict[str, Any]] = [
        {**RULE, "resource_type": 0}, {**RULE, "resource_type": 1}, {**RULE, "resource_type": 9},
        {**RULE, "resource_name": ""}, {**RULE, "resource_pattern_type": 1}, {**RULE, "resource_pattern_type": 2},
        {**RULE, "resource_pattern_type": 0}, {**RULE, "operation": 1}, {**RULE, "operation": 0},
        {**RULE, "operation": 77}, {**RULE, "permission_type": 1}, {**RULE, "permission_type": 0},
        {**RULE, "principal": "carol"}, {**RULE, "principal": ""}, {**RULE, "principal": "User:"}, {**RULE, "host": ""},
        {**RULE, "resource_type": 4, "resource_name": "other"}, {**RULE, "principal": ":carol"},
        {**RULE, "resource_type": 4, "resource_name": "kafka-cluster", "operation": 3},
        {**RULE, "resource_type": 4, "resource_name": "kafka-", "resource_pattern_type": 4, "operation": 8},
        {**RULE, "resource_type": 3, "operation": 4}, {**RULE, "operation": 9}, {**RULE, "resource_name": "bad name!"},
        {**RULE, "resource_type": 7, "resource_name": "User:x", "operation": 13},
        {**RULE, "resource_type": 6, "operation": 8}, {**RULE, "resource_type": 5, "operation": 15},
    ]  # fmt: skip
    for each in bad:
        s.every_version(request("CreateAcls", creations=[each]), users=("admin",), note=f"{each}")
    s.call(request("CreateAcls", creations=[bad[0], RULE, bad[12]]))
    s.call(request("CreateAcls", creations=[]))
    s.settle()
    filters: list[dict[str, Any]] = [
        ANY, {**ANY, "resource_type_filter": 2}, {**ANY, "resource_name_filter": "acls-a"},
        {**ANY, "resource_type_filter": 2, "resource_name_filter": "acls-a", "pattern_type_filter": 2},
        {**ANY, "resource_name_filter": "acls-", "pattern_type_filter": 4},
        {**ANY, "resource_name_filter": "*", "pattern_type_filter": 3}, {**ANY, "principal_filter": "User:dave"},
        {**ANY, "host_filter": "10.0.0.1"}, {**ANY, "operation": 8}, {**ANY, "permission_type": 2},
        {**ANY, "operation": 2}, {**ANY, "resource_type_filter": 0}, {**ANY, "resource_type_filter": 50},
        {**ANY, "pattern_type_filter": 0}, {**ANY, "operation": 0}, {**ANY, "permission_type": 0},
        {**ANY, "principal_filter": "dave"}, {**ANY, "principal_filter": ""}, {**ANY, "host_filter": ""},
        {**ANY, "resource_name_filter": ""},
    ]  # fmt: skip
    for each in filters:
        s.every_version(request("DescribeAcls", **each), note=f"{each}")
    for each in filters[11:]:
        s.every_version(request("DeleteAcls", filters=[each]), note=f"{each}")
    for each in (filters[4], filters[4], filters[6], filters[3], {**ANY, "principal_filter": "User:carol"}):
        s.call(request("DeleteAcls", filters=[each]), 1, NOBODY, note=f"{each}")
        s.call(request("DeleteAcls", filters=[each]), 1, note=f"{each}")
        s.settle()
    s.call(request("DeleteAcls", filters=[]))
    s.call(request("DeleteAcls", filters=[filters[6], filters[11], filters[6]]), 3)
    s.settle()


@side_by_side
def test_who_may_look_at_acls(s: Side) -> None:
    s.allow("alice", AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    s.every_version(request("DescribeAcls", **ANY), users=("alice", "bob"))
    s.call(request("CreateAcls", creations=[RULE]), user="alice")
    s.call(request("DeleteAcls", filters=[ANY]), user="alice")
    others: dict[str, dict[str, Any]] = {
        "DescribeQuorum": {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        "DescribeUserScramCredentials": {"users": [{"name": "alice"}]},
        "ListPartitionReassignments": {"topics": None},
        "DescribeClientQuotas": {},
    }
    for name, fields in others.items():
        s.call(request(name, **fields), user="alice")


def _upsert(name: str, mechanism: int = 2, iterations: int = 4096, salt: bytes = b"s" * 10) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": salt, "salted_password": b"p" * 64}


@side_by_side
def test_scram_credentials(s: Side) -> None:
    """Left out: all users, asked for by somebody without rights, which Kafka never answers."""

    def described(*names: str) -> Any:
        return request("DescribeUserScramCredentials", users=[{"name": name} for name in names])

    s.every_version(described("alice", "bob", "stranger"))
    s.every_version(described("alice", "alice"))
    s.every_version(described(""))
    s.every_version(request("DescribeUserScramCredentials", users=None), users=("admin",))
    s.every_version(request("DescribeUserScramCredentials", users=[]))
    for deletions, upsertions in (
        ([], [_upsert("erin")]),
        ([], [_upsert("erin", 1, 5000)]),
        ([], [_upsert("erin", 1), _upsert("erin", 2)]),
        ([], [_upsert("erin"), _upsert("erin")]),
        ([{"name": "erin", "mechanism": 1}], [_upsert("erin", 1)]),
        ([{"name": "erin", "mechanism": 1}], [_upsert("erin", 2)]),
        ([{"name": "erin", "mechanism": 1}], []),
        ([{"name": "stranger", "mechanism": 1}, {"name": "erin", "mechanism": 2}], [_upsert("frank")]),
        ([{"name": "frank", "mechanism": 0}], []),
        ([{"name": "frank", "mechanism": 9}], []),
        ([{"name": "", "mechanism": 1}], []),
        ([], [_upsert("")]),
        ([], [_upsert("erin", 0)]),
        ([], [_upsert("erin", 7)]),
        ([], [_upsert("erin", 2, 4095)]),
        ([], [_upsert("erin", 2, 16384)]),
        ([], [_upsert("erin", 2, 16385)]),
        ([], [_upsert("erin", 2, -1)]),
        ([], [_upsert("erin", 2, 4096, b"")]),
        ([], [_upsert("bad"), _upsert("bad", 9)]),
        ([], [{**_upsert("erin"), "salted_password": b""}]),
        ([], [_upsert("grace", 2, 1), _upsert("heidi")]),
        ([{"name": "heidi", "mechanism": 2}, {"name": "heidi", "mechanism": 2}], []),
        ([], []),
    ):
        asked = request("AlterUserScramCredentials", deletions=deletions, upsertions=upsertions)
        s.call(asked, 0, NOBODY, note=f"{deletions} {upsertions}")
        s.call(asked, 0, note=f"{deletions} {upsertions}")
        s.settle()
        s.call(described("erin", "frank", "heidi"))


@side_by_side
def test_client_quotas(s: Side) -> None:
    def entity(**parts: str | None) -> list[dict[str, Any]]:
        return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in parts.items()]

    def alter(which: list[dict[str, Any]], *ops: tuple[str, float, bool], only: bool = False) -> Any:
        listed = [{"key": key, "value": value, "remove": remove} for key, value, remove in ops]
        return request("AlterClientQuotas", entries=[{"entity": which, "ops": listed}], validate_only=only)

    rate = ("producer_byte_rate", 1e9, False)
    for which, *ops in (
        (entity(user="ivan"), rate, ("request_percentage", 500.5, False)),
        (entity(user=None), rate),
        (entity(client_id="c"), ("consumer_byte_rate", 2e9, False)),
        (entity(client_id=None), rate),
        (entity(user="ivan", client_id="c"), ("controller_mutation_rate", 1000.0, False)),
        (entity(user="ivan", client_id=None), rate),
        (entity(ip="127.0.0.9"), ("connection_creation_rate", 900.0, False)),
        (entity(ip=None), ("connection_creation_rate", 901.0, False)),
        (entity(ip="not an ip"), ("connection_creation_rate", 900.0, False)),
        (entity(ip="example.invalid"), ("connection_creation_rate", 900.0, False)),
        (entity(ip="127.0.0.9"), rate),
        (entity(user="ivan", ip="127.0.0.9"), ("connection_creation_rate", 900.0, False)),
        (entity(user="ivan"), ("connection_creation_rate", 900.0, False)),
        (entity(user="ivan"), ("no_such_quota", 1.0, False)),
        (entity(user="ivan"), ("producer_byte_rate", -1.0, False)),
        (entity(user="ivan"), ("producer_byte_rate", 0.0, False)),
        (entity(user="ivan"), ("producer_byte_rate", 1.5, False)),
        (entity(user="ivan"), ("producer_byte_rate", 1e30, False)),
        (entity(user="ivan"), ("connection_creation_rate", 1.0, True)),
        (entity(user="ivan"), ("producer_byte_rate", 0.0, True), rate),
        (entity(user="ivan"), ("producer_byte_rate", 0.0, True)),
        (entity(user="ivan"), ("producer_byte_rate", 0.0, True)),
        (entity(user=""), rate),
        (entity(planet="mars"), rate),
        ([], rate),
        (entity(user="ivan"),),
    ):
        for only in (True, False):
            s.every_version(alter(which, *ops, only=only), note=f"{which} {ops} {only}")
    s.call(request("AlterClientQuotas", entries=[]))
    s.call(alter(entity(user="a") + entity(user="b"), rate, only=True), note="a kind twice")
    twice = alter(entity(user="twice"), rate)
    twice.entries *= 2
    s.call(twice, note="twice")
    mixed = alter(entity(user="mixed"), rate)
    mixed.entries += alter(entity(planet="mars"), rate).entries
    s.call(mixed)
    s.settle()
    for components in (
        [], [("user", 0, "ivan")], [("user", 1, None)], [("user", 2, None)], [("client-id", 0, "c")],
        [("client-id", 2, None)], [("user", 0, "ivan"), ("client-id", 0, "c")], [("user", 2, None), ("client-id", 1, None)],
        [("ip", 0, "127.0.0.9")], [("ip", 2, None)], [("ip", 1, None)], [("user", 3, None)], [("user", -1, None)],
        [("planet", 0, "mars")], [("", 0, "mars")], [("user", 0, None)], [("user", 1, "x")], [("user", 2, "x")],
        [("user", 0, "a"), ("user", 0, "b")], [("ip", 0, "1.1.1.1"), ("user", 0, "b")], [("user", 0, "")],
    ):  # fmt: skip
        listed = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
        for strict in (False, True):
            asked = request("DescribeClientQuotas", components=listed, strict=strict)
            s.every_version(asked, note=f"{components} {strict}")


HELLO: Final = (request("SaslHandshake", mechanism="PLAIN"), 1)


def _alone(s: Side, *asked: tuple[Any, int], note: str = "") -> None:
    connection = Connection(s.port)
    for each, version in asked:
        s.note(each, version, "stranger", connection.exchange(each, version), note)
    connection.close()


def token(auth: bytes) -> Any:
    """Give the SaslAuthenticate that carries these bytes."""
    return request("SaslAuthenticate", auth_bytes=auth)


@side_by_side
def test_before_the_login(s: Side) -> None:
    alone, hello = partial(_alone, s), HELLO
    good = f"\0alice\0{s.passwords['alice']}".encode()

    for version in (0, 1):
        for mechanism in ("PLAIN", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "", "plain"):
            alone((request("SaslHandshake", mechanism=mechanism), version), note=mechanism)
    for version in range(5):
        software = {"client_software_name": "x", "client_software_version": "1"} if version >= 3 else {}
        alone((request("ApiVersions", **software), version), hello, note="versions first")
        alone(
            (request("ApiVersions", **software), version), (request("ApiVersions", **software), version), note="twice"
        )
    for version in range(3):
        for name, auth in {
            "good": good, "wrong": b"\0alice\0no", "unknown": b"\0zoe\0no", "other": b"bob" + good, "own": b"alice" + good,
            "empty": b"", "two parts": b"\0alice", "no user": b"\0\0pw", "no password": b"\0alice\0",
            "four parts": good + b"\0x", "not utf-8": b"\0\xff\xfe\0x",
        }.items():  # fmt: skip
            alone(hello, (token(auth), version), note=name)
    alone((token(good), 1), note="without a handshake")
    alone(hello, hello, note="two handshakes")
    alone((request("Metadata", topics=[]), 4), note="not yet")
    alone(hello, (request("Metadata", topics=[]), 4), note="not yet")
    alone(hello, (request("ApiVersions"), 0), note="after the handshake")
    alone(hello, (token(good), 1), (token(good), 1), note="twice")
    alone(hello, (token(good), 1), hello, note="a handshake after the login")
    alone(hello, (token(good), 1), (request("ApiVersions"), 0), note="versions after the login")


@side_by_side
def test_scram_logins(s: Side) -> None:
    alone = partial(_alone, s)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        start = (request("SaslHandshake", mechanism=mechanism), 1)
        for message in (b"n,,n=alice,r=abc", b"n,,n=alice", b"garbage", b"", b"y,,n=alice,r=x", b"p=tls,,n=alice,r=x"):
            alone(start, (token(message), 2), note=f"{mechanism} {message!r}")
        alone(start, (token(b"n,,n=alice,r=abc"), 2), (token(b"c=biws,r=abc,p=AAAA"), 2), note=f"{mechanism} bad proof")
        alone(start, (token(b"n,,n=alice,r=abc"), 2), (token(b"junk"), 2), note=f"{mechanism} junk")
