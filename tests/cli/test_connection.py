"""Refusals become one line that says what happened and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.connection import client_config, exactly_one, explain, pairs, require
from barnabas.cli.errors import CliError
from barnabas.client.config import ClientConfig
from barnabas.net.client import AuthenticationError, DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError

PLAIN = {"bootstrap.servers": "a:1"}
ALICE = PLAIN | {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "x",
}


@pytest.mark.parametrize(
    ("error", "settings", "line"),
    [
        (
            ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not authorized on topic 't'"),
            ALICE,
            "Not authorized: Not authorized on topic 't'. User:alice lacks Read on t; "
            "an administrator grants it with `barnabas acls --add`.",
        ),
        (
            ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"),
            PLAIN,
            "Not authorized: No. User:ANONYMOUS lacks Read on t; "
            "an administrator grants it with `barnabas acls --add`.",
        ),
        (ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"), PLAIN, "It is there. (TOPIC_ALREADY_EXISTS)"),
        (
            AuthenticationError("a:1: refused"),
            ALICE,
            "a:1: refused. Check user name, password and sasl.mechanism in the client settings.",
        ),
        (
            AuthenticationError("a:1: refused"),
            PLAIN | {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            "a:1: refused. Check ticket or keys, sasl.kerberos.service.name and sasl.mechanism in the client settings.",
        ),
        (DisconnectedError("cannot connect to a:1: refused"), PLAIN, "Cannot connect to a:1: refused."),
        (
            RequestTimeoutError("a:1 did not answer"),
            PLAIN,
            "a:1 did not answer. The node may be overloaded; raise request.timeout.ms to wait longer.",
        ),
        (
            ProtocolError("X v1 cannot be encoded: y"),
            PLAIN,
            "The cluster is too old for this: X v1 cannot be encoded: y.",
        ),
        (ProtocolError("a batch ends too early"), PLAIN, "What came is damaged: a batch ends too early."),
    ],
)
def test_each_kind_of_failure_has_its_line(error: Exception, settings: dict[str, str], line: str) -> None:
    assert explain(error, ClientConfig.from_properties(settings), "Read on t") == line


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nlinger.ms=2\n")
    config = client_config("flag:1", path, {"linger.ms": "9", "acks": "1"})
    assert (config.bootstrap[0].host, config.integer("linger.ms"), config.text("acks")) == ("flag", 2, "1")
    assert client_config(None, path).bootstrap[0].host == "file"
    with pytest.raises(CliError, match="--bootstrap-server"):
        client_config(None, None)


def test_flags_are_checked() -> None:
    assert exactly_one({"--a": False, "--b": True}) == "--b"
    with pytest.raises(CliError, match="exactly one of --a, --b or --c"):
        exactly_one({"--a": True, "--b": True, "--c": False})
    with pytest.raises(CliError, match="--topic is missing: which"):
        require(None, "--topic", "which")
    assert pairs(["a=1", "b = x=y"], "--config") == {"a": "1", "b": "x=y"}
    with pytest.raises(CliError, match="want KEY=VALUE"):
        pairs(["a"], "--config")
