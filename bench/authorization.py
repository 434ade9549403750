"""What one authorization costs with many rules: our StandardAuthorizer in process, Kafka's in a Java program."""

from __future__ import annotations

import gc
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.maven import java, kafka_classpath

from barnabas.cli.run import STARTING_GC_THRESHOLD
from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.core.metadata.acls import acl_record, binding_of
from barnabas.model.acl import AclBinding, AclOperation, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid
from barnabas.wire.message import decode, encode
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from bench.rules import USERS, rules

COUNTS: Final = {"1k": 1_000, "10k": 10_000, "100k": 100_000, "200k": 200_000}
"""With how many rules there is a row of the comparison, by the name in its key."""
_ASKING: Final = KafkaPrincipal("User", "user-7")
_HOST: Final = "127.0.0.1"


class AuthorizationCost(NamedTuple):
    """one: µs to say whether user-7 may read this topic; any_topic: µs for whether it may write to any topic at all (it
    may not); load: ms to take up all rules at once, as a node does when it starts; memory: bytes a rule."""

    one: float
    any_topic: float
    load: float
    memory: float


def ours(count: int) -> AuthorizationCost:
    """Measure Barnabas' authorizer with so many rules."""
    bare = StandardAuthorizer(frozenset({"User:admin"}))
    memory = _memory(bare, count)
    authorizer, load = _loaded(bare, _bindings(_records(count)))
    names = [f"topic-{i * USERS + 7}" for i in range(count // USERS)]

    def one(i: int) -> None:
        authorizer.authorize(_ASKING, _HOST, AclOperation.READ, ResourceType.TOPIC, names[i % len(names)])

    def any_topic(_: int) -> None:
        authorizer.authorize_by_resource_type(_ASKING, _HOST, AclOperation.WRITE, ResourceType.TOPIC)

    return AuthorizationCost(_median_us(one, 20_000), _median_us(any_topic, 5), load, memory)


def kafkas(count: int) -> AuthorizationCost:
    """Measure Kafka's."""
    source = Path(__file__).with_name("AuthorizerTiming.java")
    done = subprocess.run(
        [java(), "-Xmx2G", "-cp", kafka_classpath(), str(source), str(count)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    return AuthorizationCost(*map(float, done.stdout.splitlines()[-1].split()))


def _loaded(bare: StandardAuthorizer, bindings: Mapping[Uuid, AclBinding]) -> tuple[StandardAuthorizer, float]:
    """Give the authorizer with the rules, and how many ms it took, with the collector set as in a node that starts."""
    threshold = gc.get_threshold()
    gc.set_threshold(STARTING_GC_THRESHOLD, *threshold[1:])
    try:
        begin = time.perf_counter()
        authorizer = bare.with_acls(bindings)
        return authorizer, (time.perf_counter() - begin) * 1e3
    finally:
        gc.set_threshold(*threshold)


def _memory(bare: StandardAuthorizer, count: int) -> float:
    """Give the bytes that a rule takes, with all that is kept to find it."""
    tracemalloc.start()
    try:
        authorizer = bare.with_acls(_bindings(_records(count)))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / authorizer.acl_count
    finally:
        tracemalloc.stop()


def _bindings(records: Iterable[AccessControlEntryRecord]) -> dict[Uuid, AclBinding]:
    return {record.id: binding_of(record) for record in records}


def _records(count: int) -> list[AccessControlEntryRecord]:
    """Give the rules as they stand in a metadata log, no text shared by two of them."""
    records = []
    for i, binding in enumerate(rules(count)):
        written = acl_record(Uuid(i.to_bytes(16, "big")), binding)
        records.append(decode(AccessControlEntryRecord, written.version, encode(written.record, written.version)))
    return records


def _median_us(call: Callable[[int], None], calls: int) -> float:
    rounds = []
    for _ in range(7):
        begin = time.perf_counter()
        for i in range(calls):
            call(i)
        rounds.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(rounds)
