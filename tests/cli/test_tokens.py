"""`barnabas tokens`: a token's life, and logging in with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.logs import logged_by_logging
from tests.cli.conftest import Barnabas, until
from tests.forwarding.in_process import InProcess

pytestmark = pytest.mark.slow
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings: dict[str, Any] = {
        "delegation__token__secret__key": "of all nodes",
        "sasl__enabled__mechanisms": "PLAIN,SCRAM-SHA-512",
        "connections__max__reauth__ms": "3600000",
    }
    folder = tmp_path_factory.mktemp("cli")
    # What the nodes say is not to stand between what the command prints.
    with logged_by_logging(), InProcess(folder, controllers=(101,), brokers=(1,), **settings) as found:
        yield found


def config(folder: Path, cluster: InProcess, mechanism: str, jaas: str) -> str:
    path = folder / f"{mechanism}-{abs(hash(jaas))}.properties"
    path.write_text(
        f"bootstrap.servers=127.0.0.1:{cluster.ports[1]}\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    return str(path)


@pytest.fixture
def as_alice(cluster: InProcess, tmp_path: Path) -> str:
    return config(tmp_path, cluster, "PLAIN", f'{_PLAIN} required username="alice" password="alice-secret";')


def test_the_life_of_a_token(barnabas: Barnabas, cluster: InProcess, as_alice: str, tmp_path: Path) -> None:
    def tokens(*words: str, who: str = as_alice) -> Any:
        return barnabas("tokens", "--command-config", who, *words, "--output", "json")

    [made] = tokens("--create", "--renewer-principal", "User:bob", "--max-life-time-period", "3600000").json
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
    listed = until(lambda: tokens("--describe"), lambda r: len(r.json) == 1)
    assert listed.json == [made]
    assert tokens("--describe", "--owner-principal", "User:bob").json == [made]
    assert tokens("--renew", "--hmac", made["hmac"], "--renew-time-period", "60000").json["expires_ms"] > 0

    jaas = f'{_SCRAM} required username="{made["token id"]}" password="{made["hmac"]}" tokenauth="true";'
    with_token = config(tmp_path, cluster, "SCRAM-SHA-512", jaas)
    assert barnabas("topics", "--list", "--command-config", with_token).code == 0
    refused = tokens("--create", who=with_token)
    assert (refused.code, "cannot be handled over this kind of connection" in refused.err) == (1, True)

    shown = barnabas("tokens", "--command-config", as_alice, "--expire", "--hmac", made["hmac"])
    assert shown.out.startswith("The token ends at 20")
    until(lambda: tokens("--describe"), lambda r: r.json == [])
    assert "There are no tokens" in barnabas("tokens", "--command-config", as_alice, "--describe").out
    gone = barnabas("topics", "--list", "--command-config", with_token)
    assert (gone.code, "not valid for SCRAM-SHA-512" in gone.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--create", "--describe"), "exactly one of"),
        (("--renew",), "--hmac is missing"),
        (("--renew", "--hmac", "?"), "--hmac is not base64"),
        (("--renew", "--hmac", "eHg="), "no such delegation token"),
        (("--create", "--owner-principal", "bob"), "--owner-principal: 'bob' is not a principal"),
        (("--create", "--owner-principal", "User:a", "--owner-principal", "User:b"), "a token has one owner"),
        (("--create", "--owner-principal", "User:bob"), "lacks CreateTokens on the user"),
    ],
)
def test_what_is_refused(barnabas: Barnabas, as_alice: str, words: tuple[str, ...], why: str) -> None:
    refused = barnabas("tokens", "--command-config", as_alice, *words)
    assert (refused.code, why in refused.err) == (1, True), refused.err


def test_a_token_needs_scram(barnabas: Barnabas, cluster: InProcess, tmp_path: Path) -> None:
    jaas = f'{_PLAIN} required username="id" password="hmac" tokenauth="true";'
    refused = barnabas("topics", "--list", "--command-config", config(tmp_path, cluster, "PLAIN", jaas))
    assert (refused.code, "takes no delegation tokens" in refused.err) == (1, True)
