"""What one authorization costs with many rules: our StandardAuthorizer in process, Kafka's in a Java program."""

from __future__ import annotations

import gc
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.maven import java, kafka_classpath

from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid

USERS: Final = 1000
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


def ours(rules: int) -> AuthorizationCost:
    """Measure Barnabas' authorizer."""
    bare = StandardAuthorizer(frozenset({"User:admin"}))
    memory = _memory(bare, rules)
    made = _rules(rules)
    begin = time.perf_counter()
    authorizer = bare.with_acls(made)
    load = (time.perf_counter() - begin) * 1e3
    names = [f"topic-{i * USERS + 7}" for i in range(rules // USERS)]

    def one(i: int) -> None:
        authorizer.authorize(_ASKING, _HOST, AclOperation.READ, ResourceType.TOPIC, names[i % len(names)])

    def any_topic(_: int) -> None:
        authorizer.authorize_by_resource_type(_ASKING, _HOST, AclOperation.WRITE, ResourceType.TOPIC)

    return AuthorizationCost(_median_us(one, 20_000), _median_us(any_topic, 5), load, memory)


def kafkas(rules: int) -> AuthorizationCost:
    """Measure Kafka's."""
    source = Path(__file__).with_name("AuthorizerTiming.java")
    done = subprocess.run(
        [java(), "-Xmx2G", "-cp", kafka_classpath(), str(source), str(rules)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    return AuthorizationCost(*map(float, done.stdout.splitlines()[-1].split()))


def _memory(bare: StandardAuthorizer, rules: int) -> float:
    """Give the bytes that a rule takes, with all that is kept to find it."""
    tracemalloc.start()
    try:
        authorizer = bare.with_acls(_rules(rules))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / authorizer.acl_count
    finally:
        tracemalloc.stop()


def _rules(count: int) -> dict[Uuid, AclBinding]:
    rules = {}
    for i in range(count):
        prefixed = i % 10 == 0
        pattern = ResourcePattern(
            ResourceType.TOPIC,
            f"{'team' if prefixed else 'topic'}-{i}",
            PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        )
        rules[Uuid(i.to_bytes(16, "big"))] = AclBinding(
            pattern, f"User:user-{i % USERS}", "*", AclOperation.READ, AclPermissionType.ALLOW
        )
    return rules


def _median_us(call: Callable[[int], None], calls: int) -> float:
    rounds = []
    for _ in range(7):
        begin = time.perf_counter()
        for i in range(calls):
            call(i)
        rounds.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(rounds)
