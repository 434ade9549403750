"""Delegation tokens held against Apache Kafka: the same requests, the same answers, the same records (KIP-48)."""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.server.raft.metadata_log import read_batches
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.metadata_records import decode_metadata_record
from barnabas.wire.records.delegation_token_record import DelegationTokenRecord
from barnabas.wire.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from tests.forwarding.in_process import InProcess
from tests.peers.eventually import eventually
from tests.peers.kafka import RealKafka
from tests.server.frames import FramePeer
from tests.server.requests import build

from .logins import by_token

pytestmark = pytest.mark.peer
K = ApiKey
KEY = "of all nodes"
USERS = {name: f"{name}-secret" for name in ("root", "alice", "bob")}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def wait(read: Callable[[], object], wanted: object) -> None:
    """Wait until `read` gives what is wanted."""

    async def ask() -> object:
        return read()

    asyncio.run(eventually(ask, wanted))


@dataclass
class Side:
    """One of the two clusters. log: the file of its metadata log."""

    port: int
    log: Path
    steps: list[tuple[str, Any]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def ask(self, user: str, key: ApiKey, version: int | None = None, /, **fields: Any) -> Any:
        """Ask, and note what came, with what differs from run to run made alike."""
        now_ms = time.time() * 1000
        with FramePeer(self.port) as peer:
            assert peer.login(user).error_code == 0
            answer = peer.call(build(key, **fields), version)
        tokens = getattr(answer, "tokens", None)
        shown = [self._shown(t, now_ms) for t in tokens] if tokens is not None else self._shown(answer, now_ms)
        self.steps.append((f"{user} {key.name} v{version}", (answer.error_code, shown)))
        return answer

    def create(self, user: str, version: int | None = None, /, **fields: Any) -> Any:
        made = self.ask(user, K.CREATE_DELEGATION_TOKEN, version, **{"max_lifetime_ms": -1, **fields})
        if made.error_code == 0:
            assert bytes(made.hmac) == hmac.digest(KEY.encode(), made.token_id.encode(), "sha512")
            self.known(user, made.token_id)
        return made

    def known(self, user: str, token_id: str) -> None:
        """Wait until the broker knows of a token."""

        def shown() -> bool:
            with FramePeer(self.port) as peer:
                peer.login("root")
                tokens = peer.call(build(K.DESCRIBE_DELEGATION_TOKEN, owners=None)).tokens
            return any(t.token_id == token_id for t in tokens)

        wait(shown, True)

    def records(self) -> list[Any]:
        """Give what stands about tokens in the metadata log."""
        found: list[Any] = []
        for batch in read_batches(self.log.read_bytes()):
            for record in () if batch.control else batch.records:
                made, version = decode_metadata_record(record.value or b"")
                if isinstance(made, DelegationTokenRecord):
                    lasts = [
                        round((t - made.issue_timestamp) / 1e5) for t in (made.expiration_timestamp, made.max_timestamp)
                    ]
                    who = (made.owner, made.requester, tuple(made.renewers))
                    found.append((version, self.names[made.token_id], *who, *lasts))
                elif isinstance(made, RemoveDelegationTokenRecord):
                    found.append((version, self.names[made.token_id], "removed"))
        return found

    def _shown(self, value: Any, now_ms: float) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name in (f.name for f in dataclasses.fields(value)):
            found = getattr(value, name)
            if "timestamp" in name and found > 0:
                found = round((found - now_ms) / 1e5)
            elif name == "token_id" and found:
                found = self.names.setdefault(found, f"token {len(self.names)}")
            elif name == "hmac":
                found = len(found)
            elif name == "renewers":
                found = [(r.principal_type, r.principal_name) for r in found]
            out[name] = found
        return out


def user(name: str, kind: str = "User") -> dict[str, str]:
    return {"principal_type": kind, "principal_name": name}


def owner(name: str) -> dict[str, str]:
    return {"owner_principal_type": "User", "owner_principal_name": name}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Give Apache Kafka's side and ours."""
    jaas = f'{_PLAIN} required username="admin" password="admin-secret" user_admin="admin-secret";'
    properties = {
        "delegation.token.secret.key": KEY,
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "super.users": "User:admin;User:root",
    }
    folder = tmp_path_factory.mktemp("kafka")
    real = RealKafka(folder, ("SASL_PLAINTEXT",), USERS, authorizer=True, properties=properties)
    settings: dict[str, Any] = {
        "delegation__token__secret__key": KEY,
        "sasl__enabled__mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    ours = InProcess(tmp_path_factory.mktemp("ours"), controllers=(101,), brokers=(1,), **settings)
    with real, ours:
        log = f"__cluster_metadata-0/{0:020d}.log"
        yield (
            Side(real.ports["SASL_PLAINTEXT"], real.log_dir / log),
            Side(ours.ports[1], Path(ours.config(101)["log.dirs"]) / log),
        )


def script(side: Side) -> None:
    """Do everything that can be done with tokens, and much that cannot."""
    for version in (1, 2, 3):
        side.create("alice", version)
    made = side.create("alice", renewers=[user("bob")], max_lifetime_ms=3_600_000)
    side.create("bob", **owner("alice"))
    of_root = side.create("root", **owner("alice"))
    side.create("alice", renewers=[user("g", "Group")])
    for lifetime in (0, -5, 1 << 62):
        side.create("alice", max_lifetime_ms=lifetime)
    for who in ("alice", "bob", "root"):
        for period in (-1, 0, 1_000_000, (1 << 63) - 1):
            side.ask(who, K.RENEW_DELEGATION_TOKEN, hmac=made.hmac, renew_period_ms=period)
    side.ask("root", K.RENEW_DELEGATION_TOKEN, 1, hmac=of_root.hmac, renew_period_ms=-1)
    for rubbish in (b"", b"x", bytes(64), made.hmac[:-1]):
        side.ask("alice", K.RENEW_DELEGATION_TOKEN, hmac=rubbish, renew_period_ms=-1)
        side.ask("alice", K.EXPIRE_DELEGATION_TOKEN, hmac=rubbish, expiry_time_period_ms=-1)
    side.ask("root", K.EXPIRE_DELEGATION_TOKEN, hmac=made.hmac, expiry_time_period_ms=-1)
    side.ask("bob", K.EXPIRE_DELEGATION_TOKEN, hmac=made.hmac, expiry_time_period_ms=1_000_000)
    side.ask("alice", K.EXPIRE_DELEGATION_TOKEN, 1, hmac=made.hmac, expiry_time_period_ms=(1 << 63) - 1)
    with FramePeer(side.port) as peer:
        by_token(peer, made.token_id, b64encode(made.hmac).decode(), "SCRAM-SHA-512")
        for key, fields in (
            (K.CREATE_DELEGATION_TOKEN, {"max_lifetime_ms": -1}),
            (K.RENEW_DELEGATION_TOKEN, {"hmac": made.hmac, "renew_period_ms": -1}),
            (K.EXPIRE_DELEGATION_TOKEN, {"hmac": made.hmac, "expiry_time_period_ms": -1}),
            (K.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
        ):
            shown = side._shown(peer.call(build(key, **fields)), time.time() * 1000)
            side.steps.append((f"by token {key.name}", shown))
    side.ask("bob", K.EXPIRE_DELEGATION_TOKEN, hmac=made.hmac, expiry_time_period_ms=-1)
    wait(lambda: _logs_in(side.port, made), False)
    for who in ("alice", "bob", "root"):
        asked: list[Any] = [(None, o) for o in (None, [], [user("alice")], [user("bob")], [user("nobody")])]
        for version, owners in [*asked, (1, None), (2, [user("alice")])]:
            answer = side.ask(who, K.DESCRIBE_DELEGATION_TOKEN, version, owners=owners)
            name, (code, shown) = side.steps.pop()
            assert len(shown) == len(answer.tokens)
            side.steps.append((f"{name} {owners}", (code, sorted(shown, key=lambda t: str(t["token_id"])))))


def _logs_in(port: int, made: Any) -> bool:
    with FramePeer(port) as peer:
        try:
            by_token(peer, made.token_id, b64encode(made.hmac).decode())
        except AuthenticationError:
            return False
    return True


@pytest.mark.requirement("F-01", "H-10")
def test_tokens_are_as_with_apache_kafka(sides: tuple[Side, Side]) -> None:
    theirs, ours = sides
    for side in sides:
        script(side)
    for kafka, barnabas in zip(theirs.steps, ours.steps, strict=True):
        assert barnabas == kafka
    assert ours.records() == theirs.records()
    assert len(ours.records()) > 10
