"""What Connect 4.3.1's own classes say: settings, signatures, messages of the group, JSON, and assignments."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from barnabas.connect.config import WorkerConfig
from barnabas.connect.config_keys import WORKER_KEYS
from barnabas.core.connect import algorithms
from barnabas.core.connect.assignment import eager
from barnabas.core.connect.assignment.work import Shares, Unit, connectors_of, tasks_of
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.json_converter import Json, encode_json
from barnabas.core.connect.session_keys import SessionKey
from barnabas.core.connect.signature import SIGNATURE_HEADER, sign, verify
from barnabas.core.connect.subprotocol import (
    Assignment,
    ExtendedAssignment,
    Subprotocol,
    WorkerState,
    decode_assignment,
    decode_extended,
    decode_worker_state,
    encode_assignment,
    encode_extended,
    encode_worker_state,
)
from barnabas.core.connect.versions import BadVersionError, VersionRange
from barnabas.model.config import REQUIRED, ConfigError
from tests.conformance.java_oracle import JavaOracle
from tests.core.connect.group_simulation import MAX_DELAY_MS, Group, shake
from tests.peers.maven import connect_classpath

pytestmark = pytest.mark.peer
JAVAS_MACS = ["HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512", *algorithms.usable()[6:]]
WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
OURS = {
    # A non-negative long, as KIP-507 has it; 4.3.1 takes an int.
    "inter.worker.key.ttl.ms": {"type"},
    # A Python function here, and none unless one is named.
    "sasl.oauthbearer.jwt.retriever.class": {"default"},
}
"""Where a row of the table differs from Java's, and in what."""


class Java:
    """Connect's classes, asked in JSON."""

    def __init__(self, oracle: JavaOracle) -> None:
        self._oracle = oracle

    def ask(self, op: str, **more: Any) -> Any:
        """Give the answer; AssertionError when Java refused."""
        return json.loads(self._oracle.ask(json.dumps({"op": op, **more})))


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    """Give Connect's own classes."""
    with JavaOracle("ConnectGroupOracle.java", connect_classpath()) as oracle:
        yield Java(oracle)


@pytest.mark.requirement("C-01", "C-02", "C-03", "C-04", "C-05")
def test_the_table_of_settings_is_connects(java: Java) -> None:
    theirs = {row["name"]: row for row in java.ask("keys")}
    ours = {key.name: key for key in WORKER_KEYS if not key.name.startswith("barnabas.")}
    assert sorted(ours) == sorted(theirs)
    for name, key in ours.items():
        row = {
            "name": name,
            "type": key.type.name,
            "importance": key.importance.name,
            "required": key.default is REQUIRED,
            "default": None if key.default is REQUIRED else key.format(key.default),
        }
        different = {part for part in row if row[part] != theirs[name][part]}
        assert different == OURS.get(name, set()), (row, theirs[name])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"connect.protocol": "EAGER"},
        {"connect.protocol": "never"},
        {"inter.worker.key.ttl.ms": "0"},
        {"inter.worker.key.ttl.ms": "-1"},
        {"inter.worker.key.size": "8"},
        {"inter.worker.key.size": "40"},
        {"inter.worker.key.size": "128"},
        {"inter.worker.key.size": "8", "inter.worker.key.generation.algorithm": "HmacSHA1"},
        {"inter.worker.key.generation.algorithm": "HmacSHA512"},
        {"inter.worker.key.generation.algorithm": "hmacsha512"},
        {"inter.worker.key.generation.algorithm": "HmacSHA489"},
        {"inter.worker.signature.algorithm": "HmacSHA512"},
        {"inter.worker.signature.algorithm": "HmacSHA489"},
        {"inter.worker.signature.algorithm": "hmacsha256"},
        {"inter.worker.verification.algorithms": "HmacSHA1"},
        {"inter.worker.verification.algorithms": "HmacSHA1,HmacSHA256"},
        {"inter.worker.verification.algorithms": "HmacSHA256,HmacSHA489"},
        {"inter.worker.verification.algorithms": ""},
        {"scheduled.rebalance.max.delay.ms": "-1"},
        {"offset.storage.partitions": "0"},
        {"offset.storage.partitions": "-1"},
        {"config.storage.replication.factor": "0"},
        {"bootstrap.servers": ""},
        {"bootstrap.servers": "a:1,a:1"},
        {"bootstrap.servers": "a:1, ,b:1"},
        {"config.providers": "file,,env"},
        {"ssl.enabled.protocols": ","},
        {"listeners": ""},
        {"plugin.path": ""},
        {"plugin.discovery": "Only_Scan"},
        {"security.protocol": "sasl_ssl"},
        {"security.protocol": "TLS"},
        {"ssl.client.auth": "maybe"},
        {"ssl.client.auth": "REQUIRED"},
        {"metrics.recording.level": "debug"},
        {"response.http.headers.config": 'add X-A: b, "set C:d,e"'},
        {"response.http.headers.config": "put X-A: b"},
        {"response.http.headers.config": "add X A: b"},
        {"topic.tracking.enable": "yes"},
        {"session.timeout.ms": "12345678901"},
        {"exactly.once.source.support": "never"},
    ],
    ids=str,
)
@pytest.mark.requirement("C-02", "C-03", "C-06")
def test_settings_are_taken_and_refused_as_by_java(java: Java, settings: dict[str, str]) -> None:
    try:
        theirs = java.ask("worker", properties=WORKER | settings) == "good"
    except AssertionError:
        theirs = False
    try:
        ours = WorkerConfig.from_properties(WORKER | settings) is not None
    except ConfigError:
        ours = False
    assert ours == theirs


@pytest.mark.requirement("C-07")
@pytest.mark.parametrize("algorithm", JAVAS_MACS)
def test_signatures_are_javas(java: Java, algorithm: str) -> None:
    chance = Random(algorithm)
    for key_size, body_size in ((1, 0), (32, 100), (200, 10_000)):
        key, body = chance.randbytes(key_size), chance.randbytes(body_size)
        session_key = SessionKey(key, "HmacSHA256", 0)
        headers = sign(body, session_key, algorithm)
        assert headers[SIGNATURE_HEADER] == java.ask("mac", algorithm=algorithm, key=_b64(key), body=_b64(body))
        verify(headers, body, session_key, [algorithm])
        question = {"algorithm": algorithm, "key": _b64(key), "key_algorithm": "HmacSHA256", "body": _b64(body)}
        assert java.ask("verify", signature=headers[SIGNATURE_HEADER], **question) is True
        assert java.ask("verify", signature=_b64(bytes(32)), **question) is False


@pytest.mark.requirement("C-02")
@pytest.mark.parametrize("algorithm", JAVAS_MACS)
def test_keys_are_as_long_as_javas(java: Java, algorithm: str) -> None:
    for bits in (None, 0, 1, 8, 39, 40, 41, 128, 256, 1_999):
        try:
            theirs: int | None = java.ask("generate", algorithm=algorithm, bits=bits)
        except AssertionError:
            theirs = None
        try:
            ours: int | None = algorithms.key_bytes(algorithm, bits)
        except algorithms.KeySizeError:
            ours = None
        assert ours == theirs, bits


def _a_task(chance: Random) -> ConnectorTaskId:
    return ConnectorTaskId(chance.choice(["file", "a b/ü", "jdbc-1"]), chance.randrange(20))


def _some_work(chance: Random) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
    names = chance.sample(["file", "a b/ü", "jdbc-1"], chance.randrange(4))
    return tuple(names), tuple(dict.fromkeys(_a_task(chance) for _ in range(chance.randrange(6))))


def _an_extended(chance: Random, version: int) -> ExtendedAssignment:
    work, gone = _some_work(chance), _some_work(chance)
    return ExtendedAssignment(
        version,
        chance.randrange(2),
        "m-1",
        "http://a:8083/",
        chance.randrange(1 << 40),
        *work,
        *gone,
        chance.randrange(9),
    )


def _told(value: Assignment | ExtendedAssignment) -> dict[str, Any]:
    out: dict[str, Any] = {
        "error": value.error,
        "leader": value.leader,
        "url": value.leader_url,
        "offset": value.config_offset,
        "connectors": list(value.connectors),
        "tasks": [[t.connector, t.task] for t in value.tasks],
    }
    if isinstance(value, ExtendedAssignment):
        out |= {
            "version": value.version,
            "delay": value.delay_ms,
            "revoked_connectors": list(value.revoked_connectors),
            "revoked_tasks": [[t.connector, t.task] for t in value.revoked_tasks],
        }
    return out


def _like(value: dict[str, Any]) -> dict[str, Any]:
    """Give what is told, in an order of its own: maps on the way do not keep one."""
    return {key: sorted(part) if isinstance(part, list) else part for key, part in value.items()}


@pytest.mark.requirement("C-08")
@pytest.mark.parametrize("seed", range(30))
def test_messages_of_the_group_are_connects(java: Java, seed: int) -> None:
    chance = Random(seed)
    whole = Assignment(chance.randrange(2), "m-1", "http://a:8083/", chance.randrange(1 << 40), *_some_work(chance))
    assert _like(java.ask("decode", kind="whole", bytes=_b64(encode_assignment(whole)))) == _like(_told(whole))
    theirs = java.ask("encode", kind="whole", version=0, **_told(whole))
    assert _like(_told(decode_assignment(base64.b64decode(theirs)))) == _like(_told(whole))
    for version in (1, 2):
        extended = _an_extended(chance, version)
        mine = encode_extended(extended)
        assert _like(java.ask("decode", kind="extended", bytes=_b64(mine))) == _like(_told(extended))
        theirs = base64.b64decode(java.ask("encode", kind="extended", **_told(extended)))
        assert _like(_told(decode_extended(theirs))) == _like(_told(extended))
        assert sorted(mine) == sorted(theirs), "the same bytes but for the order of connectors"


@pytest.mark.requirement("C-08")
@pytest.mark.parametrize("subprotocol", list(Subprotocol))
def test_the_state_of_a_member_is_connects(java: Java, subprotocol: Subprotocol) -> None:
    chance = Random(subprotocol.version)
    version = subprotocol.version
    has = ExtendedAssignment(version, 0, "m-1", "http://a:8083/", 7, ("file",), (_a_task(chance),), delay_ms=300_000)
    for assignment in (None, has) if version else (None,):
        state = WorkerState("http://b:8083/", 1 << 40, assignment)
        told = None if assignment is None else _told(assignment)
        question = {"kind": "worker", "version": version, "url": state.url, "offset": state.config_offset}
        mine = encode_worker_state(state, subprotocol)
        assert _b64(mine) == java.ask("encode", assignment=told, **question)
        assert decode_worker_state(mine) == state
        back = java.ask("decode", kind="worker", bytes=_b64(mine))
        assert back == {"url": state.url, "offset": state.config_offset, "assignment": told}


@pytest.mark.parametrize(
    "value",
    [
        {},
        ["name", {"filename": '/tmp/ä "b"\\c\u001f\u007f\u2028.txt'}],
        {"position": 1 << 60, "part": -0.5, "large": 1.5e10, "small": 1.25e-5, "none": None, "yes": True},
        {"properties": {"name": "x", "tasks.max": "1", "emoji": "😀", "path": "c:\\u00ff", "tab": "a\tb\nc\rd\be\ff/"}},
    ],
    ids=str,
)
def test_json_is_the_internal_converters(java: Java, value: Json) -> None:
    assert encode_json(value).decode() == java.ask("json", value=value)


@pytest.mark.parametrize("seed", range(20))
def test_eager_assignments_are_javas(java: Java, seed: int) -> None:
    chance = Random(seed)
    members = [f"worker-{chance.randrange(1000)}-{n}" for n in range(chance.randint(1, 6))]
    connectors = {f"c{chance.randrange(1000)}-{n}": chance.randrange(7) for n in range(chance.randrange(6))}
    tasks = [ConnectorTaskId(c, n) for c, count in connectors.items() for n in range(count)]
    shares = eager.share_out([*connectors, *tasks], members)
    theirs = java.ask("eager", members=members, connectors=connectors)
    for member in members:
        mine = {key: sorted(part) for key, part in _part(shares.assigned[member]).items()}
        assert mine == {key: sorted(theirs[member][key]) for key in mine}


def _part(units: Sequence[Unit]) -> dict[str, Any]:
    return {"connectors": list(connectors_of(units)), "tasks": [[t.connector, t.task] for t in tasks_of(units)]}


class SideBySide:
    """Asks Java's assignor for the same round and compares; use as `Group.on_round`."""

    def __init__(self, java: Java, max_delay_ms: int) -> None:
        self._java = java
        self._max_delay_ms = max_delay_ms
        self.begin()

    def begin(self) -> None:
        """Have a new leader, who remembers nothing."""
        self._java.ask("incremental", max_delay=self._max_delay_ms)

    def __call__(self, group: Group, held: Mapping[str, Sequence[Unit]], shares: Shares) -> None:
        theirs = self._java.ask(
            "incremental",
            now=group.now_ms,
            last=group.last_generation,
            generation=group.generation,
            members={member: _part(units) for member, units in held.items()},
            connectors=group.connectors,
        )
        assert shares.delay_ms == theirs["delay"]
        for member in held:
            begun, gone = _part(shares.assigned[member]), _part(shares.revoked[member])
            mine = begun | {f"revoked_{key}": sorted(part) for key, part in gone.items()}
            said = theirs["members"][member]
            assert mine == {key: sorted(part) if key.startswith("rev") else part for key, part in said.items()}


@pytest.mark.requirement("H-31")
@pytest.mark.parametrize("seed", range(60))
def test_incremental_assignments_are_javas(java: Java, seed: int) -> None:
    chance = Random(seed)
    max_delay_ms = chance.choice([0, 1, 1_000, MAX_DELAY_MS, MAX_DELAY_MS])
    side_by_side = SideBySide(java, max_delay_ms)
    group = Group(max_delay_ms, members={"m0": ()}, connectors={"x": 3}, on_round=side_by_side)
    joined = 1
    for _ in range(25):
        what = chance.choice(["join", "leave", "create", "delete", "tasks", "time", "leader", "failed sync", "settle"])
        # Java's sets of so few ids have our order; what a new leader finds deleted, ours revokes at once.
        if what == "leader" and set(group.work).issuperset(u for units in group.members.values() for u in units):
            group.new_leader()
            side_by_side.begin()
        elif what == "failed sync":
            group.last_generation -= 1
        elif what == "settle":
            group.settle()
        elif what != "join" or joined < 10:
            shake(group, what, chance, f"m{joined}")
            joined += what == "join"
        group.rebalance(missing=[m for m in sorted(group.members) if chance.random() < 0.1])
    group.settle()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_PARTS = ("0", "1", "01", "2", "10", "4000000000", "alpha", "b", "m", "x", "RC", "cr", "SNAPSHOT", "ga", "sp", "final")
_SEPARATORS = (".", "-", "", "..", ".-")
_FORMS = ("{0}", "[{0}]", "[{0},{1}]", "[{0},{1})", "({0},{1}]", "({0},{1})", "({0},)", "(,{0}]", "[{0},{1}),[{2},)")
_ODD = (
    "", " ", "latest", "LATEST", " latest", "[]", "()", "[,]", "(,)", "[1", "1]", "(1)", "[1)", "[1,2", "1,2",
    "[1,2,3]", "[1],[2]", "[2],[1]", "[1] [2]", "[1],2", "[1]x", "[1,),[2,3]", "[2,1]", "[1,1)", "(1,1)", "[1,1]",
    "[1.0,2.0),", " [1] ",
)  # fmt: skip


@pytest.mark.requirement("C-26")
def test_ranges_of_versions_hold_what_mavens_hold(java: Java) -> None:
    rng = Random(891)

    def version() -> str:
        made = "".join(rng.choice(_PARTS) + rng.choice(_SEPARATORS) for _ in range(rng.randrange(1, 5)))
        return made.rstrip(".-") if rng.random() < 0.7 else made

    for wanted in (*_ODD, *(rng.choice(_FORMS).format(*sorted(version() for _ in range(3))) for _ in range(1_500))):
        versions = [version() for _ in range(8)] + ["", "1", "1.0", "4.3.1"]
        assert _taken(wanted, versions) == java.ask("versions", wanted=wanted, versions=versions), wanted


def _taken(wanted: str, versions: Sequence[str]) -> object:
    try:
        found = VersionRange.wanted(wanted)
    except BadVersionError:
        return "refused"
    return None if found is None else [each for each in versions if each in found]
