"""Java's own classes read the same values from our bytes and write the same bytes, every message and version."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from barnabas.model.uuid import Uuid
from barnabas.wire.declaration import Message, Struct, field_specs
from barnabas.wire.message import encode
from tests.peers.maven import kafka_classpath, old_clients_jar
from tests.wire.instances import VERSIONS, Maker

from .java_oracle import JavaOracle

pytestmark = pytest.mark.peer
ZOOKEEPER_ERA = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
OWN = {("EnvelopeRequest", 1), ("EnvelopeResponse", 1), ("RequestHeader", 0)}


JAVA_CANNOT_WRITE_DEFAULT = {"FetchSnapshotResponse"}
"""Their default holds a null that may not be written."""


def is_old(cls: type[Message]) -> bool:
    """Whether only Kafka 3.9 has the message."""
    return cls.NAME.removesuffix("Request").removesuffix("Response") in ZOOKEEPER_ERA


@pytest.mark.requirement("F-16", "F-17")
@pytest.mark.parametrize("old", [False, True], ids=["4.3.1", "3.9.1"])
def test_java_reads_and_writes_the_same(old: bool) -> None:
    classpath = kafka_classpath()
    asked = 0
    with JavaOracle("MessageOracle.java", f"{old_clients_jar()}:{classpath}" if old else classpath) as java:
        for cls, version in VERSIONS:
            if is_old(cls) != old or (cls.NAME, version) in OWN:
                continue
            for seed in range(3):
                check(java, cls, version, seed)
                asked += 1
            if cls.NAME not in JAVA_CANNOT_WRITE_DEFAULT:
                assert java.ask(f"default {java_name(cls)} {version}") == (encode(cls(), version).hex() or "-")
    assert asked > (60 if old else 2000)


def java_name(cls: type[Message]) -> str:
    """Give the name of Java's class."""
    return cls.NAME + ("Data" if cls.KIND in ("request", "response", "header") else "")


def check(java: JavaOracle, cls: type[Message], version: int, seed: int) -> None:
    """Send one instance through Java."""
    msg = Maker(version, Random(seed)).make(cls)
    data = encode(msg, version)
    answer = java.ask(f"message {java_name(cls)} {version} {data.hex()}")
    where = f"{cls.NAME} v{version} seed {seed}"
    written, _, values = answer.partition(" ")
    assert written == data.hex(), where
    assert_values(msg, json.loads(values), version, where)


def camel(name: str) -> str:
    """Give Kafka's JSON name of a field."""
    first, *rest = name.replace("kraft", "k_raft").split("_")
    return first + "".join(word.capitalize() for word in rest)


def assert_values(ours: Struct, theirs: dict[str, Any], version: int, where: str) -> None:
    """Compare field by field; Java leaves tagged fields with their default out."""
    for spec in field_specs(type(ours)):
        if version not in spec.on.versions:
            continue
        value, name = getattr(ours, spec.name), camel(spec.name)
        if spec.kind == "records":
            continue  # JSON does not hold them; the bytes were compared
        if name not in theirs and version in spec.on.tagged:
            assert value == spec.fresh_default(), f"{where}: {name}"
            continue
        assert_value(value, theirs[name], version, f"{where}: {name}")


def assert_value(value: Any, other: Any, version: int, where: str) -> None:
    if isinstance(value, list):
        assert len(value) == len(other), where
        for mine, their in zip(value, other, strict=True):
            assert_value(mine, their, version, where)
    elif isinstance(value, Struct):
        assert_values(value, other, version, where)
    elif isinstance(value, Uuid):
        assert str(value) == other, where
    elif isinstance(value, bytes):
        assert value == base64.b64decode(other), where
    else:
        assert value == other, where
