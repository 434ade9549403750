"""kcat against nodes of ours."""

from __future__ import annotations

import json
import subprocess

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from tests.clients.nodes import ServedNode

pytestmark = pytest.mark.peer


@pytest.fixture(params=["plain", "secured"])
def node(request: pytest.FixtureRequest) -> ServedNode:
    found: ServedNode = request.getfixturevalue(request.param)
    return found


def kcat(node: ServedNode, *args: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-F", str(node.librdkafka_file()), *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def create(node: ServedNode, name: str, partitions: int) -> None:
    async def work(admin: Admin) -> None:
        assert await admin.create_topics([NewTopic(name, partitions)]) == {name: None}

    node.as_admin(work)


def test_it_lists_brokers_topics_and_partitions(node: ServedNode, name: str) -> None:
    create(node, name, 3)
    listed = json.loads(kcat(node, "-L", "-J"))
    assert [b["name"] for b in listed["brokers"]] == [node.bootstrap]
    (topic,) = [t for t in listed["topics"] if t["topic"] == name]
    assert [(p["partition"], p["leader"], p["isrs"]) for p in topic["partitions"]] == [
        (i, 1, [{"id": 1}]) for i in range(3)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back(node: ServedNode, name: str, codec: str) -> None:
    create(node, name, 1)
    lines = "".join(f"key{i}:value{i}\n" for i in range(500))
    kcat(node, "-P", "-t", name, "-K", ":", "-z", codec, "-H", "from=kcat", stdin=lines)
    back = kcat(node, "-C", "-t", name, "-o", "beginning", "-e", "-q", "-f", "%k:%s|%h|%o\n")
    assert back.splitlines() == [f"key{i}:value{i}|from=kcat|{i}" for i in range(500)]
    assert kcat(node, "-Q", "-t", f"{name}:0:-1").strip() == f"{name} [0] offset 500"


def test_a_group_reads_on_where_it_stopped(node: ServedNode, name: str) -> None:
    create(node, name, 1)
    kcat(node, "-P", "-t", name, stdin="a\nb\nc\n")
    group = ("-G", name, "-X", "auto.offset.reset=earliest", "-q", "-f", "%s\n")
    assert kcat(node, *group, "-c", "2", name).split() == ["a", "b"]
    assert kcat(node, *group, "-c", "1", name).split() == ["c"]
