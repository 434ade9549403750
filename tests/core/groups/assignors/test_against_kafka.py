"""The same groups through Apache Kafka's own assignors: partition for partition the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from barnabas.core.groups.assignors import ASSIGNORS
from barnabas.core.groups.assignors.spec import GroupSpec
from tests.peers.maven import compiled, java, kafka_classpath

from .groups import Cluster, shown, situations

SOURCE = Path(__file__).parents[3] / "peers" / "java" / "AssignorOracle.java"
Kafka = Callable[[str, GroupSpec, Cluster], str]

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """Give Kafka's answer for a group."""
    classpath = f"{compiled(SOURCE)}:{kafka_classpath()}"
    with subprocess.Popen(
        [java(), "-XX:TieredStopAtLevel=1", "-cp", classpath, "AssignorOracle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        bufsize=1,
    ) as oracle:
        assert oracle.stdin is not None
        assert oracle.stdout is not None
        questions, answers = oracle.stdin, oracle.stdout

        def ask(name: str, spec: GroupSpec, cluster: Cluster) -> str:
            questions.write(asked(name, spec, cluster) + "\n")
            return answers.readline().rstrip("\n")

        yield ask
        questions.close()


def asked(name: str, spec: GroupSpec, cluster: Cluster) -> str:
    """Write a group as the oracle reads it."""
    topics = " ".join(f"{int.from_bytes(t, 'big')}:{count}" for t, count in sorted(cluster.sizes.items()))
    members = []
    for member_id, one in sorted(spec.members.items()):
        wanted = ",".join(str(int.from_bytes(t, "big")) for t in sorted(one.subscribed))
        has = written(shown({member_id: one.assigned})[member_id])
        members.append(f"{member_id}|{one.instance_id or ''}|{wanted}|{has}")
    return "\t".join((name, str(spec.homogeneous).lower(), topics, " ".join(members)))


def written(partitions: dict[int, list[int]]) -> str:
    return ";".join(f"{number}:{','.join(map(str, numbers))}" for number, numbers in sorted(partitions.items()))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(max_examples=400, deadline=None)
@given(situations())
def test_kafka_assigns_the_same(kafka: Kafka, name: str, situation: tuple[GroupSpec, Cluster]) -> None:
    spec, cluster = situation
    ours = shown(ASSIGNORS[name](spec, cluster))
    theirs = kafka(name, spec, cluster)
    if name == "uniform" and not any(one.subscribed for one in spec.members.values()):
        assert theirs == ""  # Kafka gives no members at all, where we give members with nothing
        return
    assert " ".join(f"{member_id}|{written(ours[member_id])}" for member_id in sorted(ours)) == theirs
