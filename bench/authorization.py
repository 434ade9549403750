"""What one authorization costs with many rules: our StandardAuthorizer in process, Kafka's in a Java program."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.maven import java, kafka_classpath

from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid

USERS: Final = 1000
_ASKING: Final = KafkaPrincipal("User", "user-7")
_HOST: Final = "127.0.0.1"


class AuthorizationCost(NamedTuple):
    """Microseconds. one: may user-7 read this topic; any_topic: may it write to any topic at all (it may not)."""

    one: float
    any_topic: float


def ours(rules: int) -> AuthorizationCost:
    """Measure Barnabas' authorizer."""
    authorizer = StandardAuthorizer(frozenset({"User:admin"})).with_acls(_rules(rules))
    names = [f"topic-{i * USERS + 7}" for i in range(rules // USERS)]

    def one(i: int) -> None:
        authorizer.authorize(_ASKING, _HOST, AclOperation.READ, ResourceType.TOPIC, names[i % len(names)])

    def any_topic(_: int) -> None:
        authorizer.authorize_by_resource_type(_ASKING, _HOST, AclOperation.WRITE, ResourceType.TOPIC)

    return AuthorizationCost(_median_us(one, 20_000), _median_us(any_topic, 5))


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
    one, any_topic = done.stdout.splitlines()[-1].split()
    return AuthorizationCost(float(one), float(any_topic))


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
