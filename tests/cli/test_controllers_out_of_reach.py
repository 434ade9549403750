"""Every tool that changes something, by a single bootstrap broker, where nobody but brokers can reach a controller."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.testing.local import LocalCluster
from barnabas.testing.logs import logged_by_logging
from barnabas.testing.network import CLIENTS
from tests.cli.conftest import Barnabas, Run, create_topic, until

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F-14")]
CONTROLLERS = (101, 102)
Tool = Callable[..., Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Give three secured brokers, a controller that votes and one that could; clients reach the brokers only."""
    folder = tmp_path_factory.mktemp("reach")
    with (
        logged_by_logging(),  # standard output is the tools'
        LocalCluster(folder, controllers=1, brokers=3, dynamic=True, proxied=True) as cluster,
    ):
        cluster.add_controller().start()
        cluster.network.partition(CLIENTS, CONTROLLERS)
        yield cluster


@pytest.fixture
def client_file(cluster: LocalCluster, tmp_path: Path) -> str:
    """Give the super user's client settings, without any address."""
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{k}={v}\n" for k, v in cluster.client().items() if k != "bootstrap.servers"))
    return str(path)


@pytest.fixture(params=[1, 2])
def tool(
    request: pytest.FixtureRequest, barnabas: Barnabas, cluster: LocalCluster, client_file: str
) -> Iterator[Barnabas]:
    """Give the command, told of one broker; nothing that it does may so much as knock at a controller."""
    at = cluster.node(request.param).bootstrap

    def run(*words: str, stdin: str = "") -> Run:
        return barnabas(*words, "--bootstrap-server", at, "--command-config", client_file, stdin=stdin)

    yield run
    assert [cluster.network.connections(CLIENTS, node) for node in CONTROLLERS] == [(0, 0)] * 2


@pytest.fixture
def do(tool: Barnabas) -> Tool:
    """Give the command as one that must succeed."""

    def run(*words: str, stdin: str = "") -> str:
        done = tool(*words, stdin=stdin)
        assert done.code == 0, (words, done.err)
        return done.out

    return run


@pytest.fixture
def create(tool: Barnabas) -> Tool:
    """Give what creates a topic, which the broker shows then."""
    return partial(create_topic, tool)


@pytest.fixture
def shown(tool: Barnabas) -> Tool:
    """Give a look at what the cluster says, taken again until it is as wanted."""

    def look(*words: str, wanted: Callable[[Any], bool]) -> Any:
        return until(lambda: tool(*words, "--output", "json"), lambda r: wanted(r.json)).json

    return look


def values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in rows}


def test_topics(do: Tool, create: Tool, shown: Tool, name: str) -> None:
    create(name, "--partitions", "2", "--config", "retention.ms=7000")
    do("topics", "--alter", "--topic", name, "--partitions", "5")
    shown("topics", "--describe", "--topic", name, wanted=lambda t: len(t[0]["partitions"]) == 5)
    do("topics", "--delete", "--topic", name)
    shown("topics", "--list", wanted=lambda topics: name not in str(topics))


def test_a_topic_that_comes_by_producing_to_it(do: Tool, shown: Tool, name: str) -> None:
    do("produce", "--topic", name, stdin="one\ntwo\n")
    shown("topics", "--describe", "--topic", name, wanted=lambda t: len(t) == 1)
    do("topics", "--delete", "--topic", name)


def test_configs(do: Tool, create: Tool, shown: Tool, name: str) -> None:
    create(name)
    changes: list[tuple[tuple[str, ...], str, str]] = [
        (("--topic", name), "retention.ms", "7000"),
        (("--broker", "3"), "log.cleaner.threads", "2"),
        (("--broker-defaults",), "log.retention.ms", "7200000"),
        (("--user", name), "producer_byte_rate", "5.0"),
        (("--client", name), "request_percentage", "50.0"),
        (("--ip", "127.9.9.9"), "connection_creation_rate", "7.0"),
    ]
    for entity, key, value in changes:
        do("configs", "--alter", *entity, "--add-config", f"{key}={value}")
        shown("configs", "--describe", *entity, wanted=lambda r, k=key, v=value: str(values(r).get(k)) == v)
        do("configs", "--alter", *entity, "--delete-config", key)
        shown("configs", "--describe", *entity, wanted=lambda r, k=key: k not in values(r))
    do("configs", "--alter", "--user", name, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=x]")
    shown("configs", "--describe", "--user", name, wanted=lambda r: "SCRAM-SHA-256" in values(r))
    do("configs", "--alter", "--user", name, "--delete-config", "SCRAM-SHA-256")
    logger = logging.getLogger("kafka.server.OutOfReach")
    do("configs", "--alter", "--broker-logger", "3", "--add-config", f"{logger.name}=ERROR")
    assert logger.level == logging.ERROR
    do("configs", "--alter", "--broker-logger", "3", "--delete-config", logger.name)
    do("topics", "--delete", "--topic", name)


def test_rules(do: Tool, shown: Tool, name: str) -> None:
    rule = ("--allow-principal", "User:x", "--operation", "Read", "--topic", name)
    do("acls", "--add", *rule)
    shown("acls", "--list", "--topic", name, wanted=lambda rules: len(rules) == 1)
    do("acls", "--remove", "--force", *rule)
    shown("acls", "--list", "--topic", name, wanted=lambda rules: rules == [])


def test_users(do: Tool, shown: Tool, name: str) -> None:
    do("users", "create", name, "--password", "secret", "--mechanism", "SCRAM-SHA-512")
    shown("users", "list", wanted=lambda users: name in str(users))
    do("users", "quota", name, "--set", "consumer_byte_rate=9")
    shown("configs", "--describe", "--user", name, wanted=lambda r: values(r).get("consumer_byte_rate") == 9.0)
    do("users", "delete", name)
    shown("users", "list", wanted=lambda users: name not in str(users))


def test_groups_and_records(do: Tool, create: Tool, shown: Tool, name: str, tmp_path: Path) -> None:
    create(name, "--partitions", "1")
    do("produce", "--topic", name, stdin="one\ntwo\nthree\n")
    reset = ("groups", "--reset-offsets", "--group", name, "--topic", name, "--execute")
    do(*reset, "--to-earliest")
    do(*reset, "--to-offset", "2")
    shown("groups", "--describe", "--group", name, wanted=lambda rows: '"lag": 1' in json.dumps(rows))
    do("groups", "--delete-offsets", "--group", name, "--topic", name)
    do("groups", "--delete", "--group", name)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 2}]}))
    do("delete-records", "--offset-json-file", str(wanted))
    do("topics", "--delete", "--topic", name)


def test_moves_and_elections(do: Tool, create: Tool, shown: Tool, name: str, tmp_path: Path) -> None:
    def plan(replicas: list[int]) -> str:
        path = tmp_path / f"to-{replicas[0]}.json"
        partition = {"topic": name, "partition": 0, "replicas": replicas}
        path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        return str(path)

    create(name, "--replica-assignment", "1")
    do("produce", "--topic", name, stdin=f"{'x' * 1000}\n" * 2_500)
    crawling = ("reassign", "--execute", "--reassignment-json-file", plan([3, 1]), "--throttle")
    do(*crawling, "1")
    # One fetch goes through before anybody knows that it was too much: there is more than that.
    assert "Called off" in do("reassign", "--cancel", "--reassignment-json-file", plan([3, 1]))
    do(*crawling, "100000000", "--wait")
    shown("topics", "--describe", "--topic", name, wanted=lambda t: t[0]["partitions"][0]["replicas"] == [3, 1])
    elect = ("leader-election", "--election-type", "preferred", "--topic", name, "--partition", "0")
    do(*elect)
    shown("topics", "--describe", "--topic", name, wanted=lambda t: t[0]["partitions"][0]["leader"] == 3)
    do("topics", "--delete", "--topic", name)


def test_feature_levels(do: Tool, shown: Tool) -> None:
    def levels(rows: list[dict[str, Any]]) -> dict[str, str]:
        return {row["feature"]: row["finalized"] for row in rows}

    name = "eligible.leader.replicas.version"
    before = levels(shown("features", "describe", wanted=lambda _: True))
    do("features", "disable", "--feature", name)
    shown("features", "describe", wanted=lambda rows: levels(rows).get(name, "0") == "0")
    do("features", "upgrade", "--feature", f"{name}=1")
    do("features", "downgrade", "--feature", f"{name}=0")
    do("features", "upgrade", "--feature", f"{name}={before[name]}")
    shown("features", "describe", wanted=lambda rows: levels(rows) == before)


def test_voters(do: Tool, shown: Tool, cluster: LocalCluster) -> None:
    file = str(cluster.node(102).files.properties)
    assert do("quorum", "add-controller", "--config", file).startswith("Added controller 102")
    look = ("quorum", "describe", "--status")
    status = shown(*look, wanted=lambda found: len(found["current_voters"]) == 2)
    directory = next(v["directory_id"] for v in status["current_voters"] if v["id"] == 102)
    do("quorum", "remove-controller", "-i", "102", "-d", directory)
    shown(*look, wanted=lambda found: len(found["current_voters"]) == 1)


def test_a_broker_that_is_gone(do: Tool, shown: Tool, cluster: LocalCluster) -> None:
    gone = cluster.add_broker()
    gone.start()
    look = ("cluster", "list-endpoints", "--include-fenced-brokers")
    shown(*look, wanted=lambda rows: gone.node_id in [r["id"] for r in rows])
    gone.stop()
    do("cluster", "unregister", "--id", str(gone.node_id))
    shown(*look, wanted=lambda rows: gone.node_id not in [r["id"] for r in rows])


async def test_who_may_ask_any_broker_asks_the_one_with_the_least_to_do(cluster: LocalCluster) -> None:
    """Broker 1 answers nothing: its requests pile up, and the next ones go to broker 2."""
    properties = {**cluster.client(bootstrap=cluster.node(1).bootstrap), "request.timeout.ms": "300000"}
    async with Admin(ClientConfig.from_properties(properties)) as admin:
        await admin.nodes()
        for node in (1, 2):
            await admin.cluster.channel(node)
        cluster.network.hold(1, CLIENTS)
        try:
            asking = [asyncio.create_task(admin.describe_cluster()) for _ in range(6)]
            answered, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            assert answered
            assert waiting
        finally:
            cluster.network.heal()
        await asyncio.gather(*asking)
