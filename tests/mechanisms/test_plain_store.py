"""PLAIN against a store of credentials of one's own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.model.config import ConfigError
from barnabas.server.logins.plain_store import HANDLER, KAFKAS_OWN, password_check
from barnabas.wire.errors import ErrorCode
from tests.forwarding.in_process import InProcess
from tests.server.controllers import node_config
from tests.server.frames import FramePeer

KEY = f"listener.name.clients.plain.{HANDLER}"
JAAS = "listener.name.clients.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def check(store: str | None, jaas: str | None = f'{MODULE} required suffix="!" user_x="y";') -> Any:
    given = {KEY: store, JAAS: jaas}
    config = node_config(Path("nowhere"), **{key: value for key, value in given.items() if value is not None})
    return password_check(config, "CLIENTS")


def test_a_store_is_asked_in_place_of_the_jaas_entry() -> None:
    verify = check("tests.mechanisms.stores:Reversed")
    assert verify("alice", "ecila!")
    assert not verify("alice", "ecila")
    assert not verify("x", "y")
    assert check("tests.mechanisms.stores.Reversed", None)("alice", "ecila")
    with pytest.raises(AuthenticationError, match="the vault is sealed") as refused:
        verify("broken", "nekorb!")
    assert refused.value.public is None


def test_without_a_store_the_jaas_entry_counts() -> None:
    for store in (None, KAFKAS_OWN):
        assert check(store)("x", "y")
        with pytest.raises(ConfigError, match=r"listener\.name\.clients\.plain\.sasl\.jaas\.config is missing"):
            check(store, None)


def test_nothing_but_true_opens() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the coroutine that nobody awaits
        assert not check("tests.mechanisms.stores:Late")("alice", "ecila!")


@pytest.mark.parametrize("store", ["tests.mechanisms.stores:Nothing", "tests.mechanisms.stores:Gone", "nonsense"])
def test_what_is_no_store_is_refused_by_the_name_of_its_setting(store: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.clients\.plain\.sasl\.server\.callback\.handler\.class"):
        check(store)


@pytest.mark.slow
def test_a_client_logs_in_against_a_store(tmp_path: Path) -> None:
    settings: dict[str, Any] = {KEY.replace(".", "__"): "tests.mechanisms.stores:Reversed"}
    with InProcess(tmp_path, controllers=(101,), brokers=(1,), **settings) as cluster:
        for user, password, error in (
            ("alice", "ecila", ErrorCode.NONE),
            ("alice", "alice-secret", ErrorCode.SASL_AUTHENTICATION_FAILED),
            ("broken", "nekorb", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ):
            with FramePeer(cluster.ports[1]) as peer:
                answer = peer.login(user, password)
                assert answer.error_code == error
                assert "vault" not in (answer.error_message or "")
