"""Our halves of SASL against Kafka's own, and JAAS entries read by both."""

from __future__ import annotations

import random
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.core.sasl.client import client_mechanism
from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified
from barnabas.core.sasl.jaas import JaasError, parse_jaas
from barnabas.core.sasl.mechanisms.plain import PlainServer, verify_in
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, ScramServer, derive_keys, salt_password
from tests.peers.maven import java, kafka_classpath

pytestmark = pytest.mark.peer

SOURCE = Path(__file__).parents[2] / "peers" / "java" / "SaslOracle.java"
USERS = ("alice", "a=b", "a,b", "=2C", "CN=x,O=y")
PASSWORDS = ("secret", "p,=w", "пароль", "x" * 300, "I\u00adX\u2168\u00a0\u00aa e\u0301")
"""The last is another one after SASLprep, which Kafka leaves out."""


class Oracle:
    """Kafka's halves, in one JVM."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, command: str, *fields: str | bytes) -> list[str]:
        encoded = [field if isinstance(field, str) else b64encode(field).decode() for field in fields]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(command, *encoded, sep="\t", file=self._process.stdin, flush=True)
        return self._process.stdout.readline().rstrip("\n").split("\t")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    folder = tmp_path_factory.mktemp("sasl-oracle")
    subprocess.run(["javac", "-cp", kafka_classpath(), "-d", str(folder), str(SOURCE)], check=True, timeout=120)
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{kafka_classpath()}", "SaslOracle"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    ) as process:
        yield Oracle(process)


@pytest.mark.parametrize("mechanism", ALGORITHMS)
@pytest.mark.parametrize("password", PASSWORDS, ids=len)
@pytest.mark.parametrize("user", USERS)
def test_our_client_logs_in_at_kafkas_server(oracle: Oracle, mechanism: str, user: str, password: str) -> None:
    algorithm = ALGORITHMS[mechanism]
    keys = derive_keys(algorithm, salt_password(algorithm, password, b"some salt", 4096), b"some salt", 4096)
    stored = (keys.salt, keys.stored_key, keys.server_key, "4096")
    assert oracle.ask("SERVER", mechanism, user.encode(), *stored) == ["OK"]
    client = client_mechanism(mechanism, user, password, lambda: "ournonce")
    kind, first = oracle.ask("STEP", client.first())
    assert kind == "TOKEN"
    final = client.step(b64decode(first))
    assert final is not None
    kind, last = oracle.ask("STEP", final)
    assert kind == "DONE"
    client.step(b64decode(last))
    assert client.complete


@pytest.mark.parametrize("mechanism", ALGORITHMS)
@pytest.mark.parametrize("password", PASSWORDS, ids=len)
@pytest.mark.parametrize("user", USERS)
def test_kafkas_client_logs_in_at_our_server(oracle: Oracle, mechanism: str, user: str, password: str) -> None:
    algorithm = ALGORITHMS[mechanism]
    keys = derive_keys(algorithm, salt_password(algorithm, password, b"some salt", 4096), b"some salt", 4096)
    server = ScramServer(algorithm, {user: keys}.get, lambda: "theirnonce", b"decoy")
    _, token = oracle.ask("CLIENT", mechanism, user.encode(), password.encode())
    challenge = server.step(b64decode(token))
    assert isinstance(challenge, Challenge)
    kind, token = oracle.ask("STEP", challenge.token)
    assert kind == "TOKEN"
    verified = server.step(b64decode(token))
    assert isinstance(verified, Verified)
    assert verified.user == user
    assert oracle.ask("STEP", verified.token)[0] == "DONE"


def test_a_wrong_password_fails_both_ways(oracle: Oracle) -> None:
    for mechanism, algorithm in ALGORITHMS.items():
        keys = derive_keys(algorithm, salt_password(algorithm, "right", b"some salt", 4096), b"some salt", 4096)
        server = ScramServer(algorithm, {"alice": keys}.get, lambda: "theirnonce", b"decoy")
        _, token = oracle.ask("CLIENT", mechanism, b"alice", b"wrong")
        _, token = oracle.ask("STEP", server.step(b64decode(token)).token)
        with pytest.raises(AuthenticationError, match="wrong password"):
            server.step(b64decode(token))
        stored = (keys.salt, keys.stored_key, keys.server_key, "4096")
        oracle.ask("SERVER", mechanism, b"alice", *stored)
        client = client_mechanism(mechanism, "alice", "wrong", lambda: "ournonce")
        final = client.step(b64decode(oracle.ask("STEP", client.first())[1]))
        assert final is not None
        assert oracle.ask("STEP", final) == ["ERROR"]


_PIECES = (
    b"n", b"y", b"p=tls-unique", b",", b",,", b"a=user", b"a=", b"n=user", b"n=other", b"r=", b"r=x", b"m=e",
    b"tokenauth=true", b"x=y", b"=", b"=2C", b"=3D", b"c=biws", b"p=", b" ", b"\x00", "é".encode(), b"\xff",
)  # fmt: skip


def _mutated(rng: random.Random, message: bytes) -> bytes:
    """Give the message with a piece put in, put over something, taken away or repeated; now and then as it is."""
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        at, until = sorted(rng.randrange(len(message) + 1) for _ in range(2))
        if rng.random() < 0.6:  # at a border of attributes
            borders = [0, len(message), *(n for n, c in enumerate(message) if c in b",=")]
            at = rng.choice(borders)
            until = rng.choice([at, at, *(b for b in borders if b >= at)])
        between = rng.choice((b"", rng.choice(_PIECES), message[at:until] * 2))
        message = message[:at] + between + message[until:]
    return message


def test_no_message_gets_in_here_that_kafka_refuses(oracle: Oracle) -> None:
    """Where the two differ, ours is the one that refuses: what RFC 5802 forbids and Kafka lets pass."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    algorithm = ALGORITHMS["SCRAM-SHA-256"]
    keys = derive_keys(algorithm, salt_password(algorithm, "pencil", b"some salt", 4096), b"some salt", 4096)
    both = ours_alone = 0
    for _ in range(1500):
        client = client_mechanism("SCRAM-SHA-256", "user", "pencil", lambda: "ournonce")
        first = _mutated(rng, client.first())
        change = rng.randrange(1 << 30)
        oracle.ask("SERVER", "SCRAM-SHA-256", b"user", keys.salt, keys.stored_key, keys.server_key, "4096")
        kind, *token = oracle.ask("STEP", first)
        # Ours takes the same nonce, so that all messages are the same.
        nonce = (
            b64decode(token[0]).partition(b",")[0].rpartition(b"ournonce")[2].decode()
            if kind == "TOKEN"
            else "theirnonce"
        )
        server = ScramServer(algorithm, {"user": keys}.get, lambda nonce=nonce: nonce, b"decoy")  # type: ignore[misc]
        let_in_by_them = let_in = False
        try:
            challenge = server.step(first).token if kind != "TOKEN" else b64decode(token[0])
            final = client.step(challenge)
            assert final is not None
            final = _mutated(random.Random(change), final)
            let_in_by_them = kind == "TOKEN" and oracle.ask("STEP", final)[0] == "DONE"
            if kind == "TOKEN":
                server.step(first)
            let_in = isinstance(server.step(final), Verified)
        except AuthenticationError:
            pass
        both += let_in and let_in_by_them
        ours_alone += let_in and not let_in_by_them
    assert both > 100, seed
    assert ours_alone == 0, seed


def test_an_unknown_user_is_led_on_here_and_told_at_once_by_kafka(oracle: Oracle) -> None:
    algorithm = ALGORITHMS["SCRAM-SHA-256"]
    keys = derive_keys(algorithm, salt_password(algorithm, "pencil", b"some salt", 4096), b"some salt", 4096)
    for user in ("user", "nobody"):
        client = client_mechanism("SCRAM-SHA-256", user, "guess", lambda: "ournonce")
        oracle.ask("SERVER", "SCRAM-SHA-256", b"user", keys.salt, keys.stored_key, keys.server_key, "4096")
        assert oracle.ask("STEP", client.first())[0] == ("TOKEN" if user == "user" else "ERROR")
        server = ScramServer(algorithm, {"user": keys}.get, lambda: "theirnonce", b"decoy")
        final = client.step(server.step(client.first()).token)
        assert final is not None
        with pytest.raises(AuthenticationError) as refused:
            server.step(final)
        assert refused.value.public is None


@pytest.mark.parametrize("password", PASSWORDS, ids=len)
def test_plain_of_javas_client(oracle: Oracle, password: str) -> None:
    _, token = oracle.ask("CLIENT", "PLAIN", "jürgen".encode(), password.encode())
    assert PlainServer(verify_in({"jürgen": password})).step(b64decode(token)) == Verified(b"", "jürgen")


JAAS_TEXTS = (
    'org.apache.kafka.X required username="a" password="b";',
    "org.apache.kafka.X REQUIRED username='a\"b' password=\"c'd\";",
    'a.B optional k="\\t\\101\\x\\\\\\"";',
    "a.B sufficient // comment\n k=v /* more\n */ k_2=v-2 user_a$b=c;",
    'a.B requisite k="1;2" k="3";',
    'a.B required user_="x";',
    "a.B required;",
    "  \n a.B\trequired  k = 'v' ; ",
    "a.B required k=ünï;",
    'a.B required k="€";',
    "a.B required k=a/b\n;",
    "a.B maybe;",
    "a.B required",
    "a.B",
    "",
    "a.B required k;",
    "a.B required k=;",
    "a.B required k=v; c.D required;",
    "a.B required =v;",
    'a.B "required" "k"="v";',
    'a.B required k="";',
)


@pytest.mark.parametrize("text", JAAS_TEXTS)
def test_jaas_entries_are_read_as_kafka_reads_them(oracle: Oracle, text: str) -> None:
    try:
        module = parse_jaas(text)
    except JaasError:
        ours = ["ERROR"]
    else:
        rows = [module.name, module.control_flag, *(f"{k}={v}" for k, v in sorted(module.options.items()))]
        ours = rows
    theirs = oracle.ask("JAAS", text.encode())
    if theirs != ["ERROR"]:
        name, flag, *options = theirs
        pairs = ["=".join(b64decode(side).decode() for side in pair.split(":", 1)) for pair in options]
        theirs = [b64decode(name).decode(), b64decode(flag).decode().lower(), *pairs]
    assert ours == theirs
