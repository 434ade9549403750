"""`barnabas reassign`, `leader-election`, `quorum`, `features` and `cluster` on three nodes, Kafka's and ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.processes import ProcessCluster
from tests.cli.conftest import Barnabas, Run, create_topic, until
from tests.peers.apache import ApacheKafka
from tests.peers.tools import (
    FEATURE_COMMAND,
    LEADER_ELECTION_COMMAND,
    METADATA_QUORUM_COMMAND,
    REASSIGN_PARTITIONS_COMMAND,
    run_tool,
    run_tool_result,
)

pytestmark = [pytest.mark.peer, pytest.mark.cluster]


@pytest.fixture(scope="module", params=["apache", "ours"])
def three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Give three nodes, each broker and controller, on two racks: of Apache Kafka, then of ours."""
    apache = request.param == "apache"
    cluster = ProcessCluster(
        tmp_path_factory.mktemp("three"),
        combined=3,
        plaintext=True,
        dynamic=True,
        racks=("a", "b"),
        properties={"auto.leader.rebalance.enable": "false"},  # or a leader is elected before a test elects it
        software=(lambda _: ApacheKafka()) if apache else None,
    )
    with cluster:
        yield cluster


@pytest.fixture
def tool(barnabas: Barnabas, three: ProcessCluster) -> Barnabas:
    """Give the command, speaking to that cluster."""

    def run(name: str, *words: str, stdin: str = "") -> Run:
        return barnabas(name, *words, "--bootstrap-server", three.bootstrap, stdin=stdin)

    return run


@pytest.fixture
def create(barnabas: Barnabas, three: ProcessCluster) -> Callable[..., None]:
    """Give what creates a topic, which each of the brokers shows then."""

    def run(topic: str, *words: str) -> None:
        for node in three.brokers:
            at = ("--bootstrap-server", node.bootstrap)
            create_topic(lambda *told: barnabas(*told, *at), topic, "--if-not-exists", *words)  # noqa: B023

    return run


def is_ours(cluster: ProcessCluster) -> bool:
    return not isinstance(cluster.node(1).software, ApacheKafka)


def controllers(cluster: ProcessCluster) -> str:
    return ",".join(n.plan.controller.text for n in cluster.controllers if n.plan.controller)


def plan_file(path: Path, topic: str, replicas: list[list[int]], **more: Any) -> str:
    partitions = [{"topic": topic, "partition": n, "replicas": r, **more} for n, r in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def current_text(generated: Run) -> str:
    """Give what `--generate` says of now: a broker makes a new replica's directory a moment after the topic."""
    return json.dumps(generated.json["current"])


def until_replicas(tool: Barnabas, topic: str, wanted: list[list[int]]) -> None:
    """Wait until a broker shows these replicas: the controller, which answers for moves, knows of them first."""
    until(
        lambda: tool("topics", "--describe", "--topic", topic, "--output", "json"),
        lambda r: [p["replicas"] for p in r.json[0]["partitions"]] == wanted,
    )


def test_a_topic_is_moved_back_and_forth(
    tool: Barnabas, create: Callable[..., None], three: ProcessCluster, name: str, tmp_path: Path
) -> None:
    create(name, "--replica-assignment", "1:2,2:1")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"topics": [{"topic": name}], "version": 1}))
    generate = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3")
    refused = tool("reassign", "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,9")
    assert "no live broker 9" in refused.err
    made = until(lambda: tool("reassign", *generate, "--output", "json"), lambda r: '"any"' not in current_text(r))
    found = made.json
    by_java = run_tool(REASSIGN_PARTITIONS_COMMAND, "--bootstrap-server", three.bootstrap, *generate)
    lines = [json.loads(line) for line in by_java.splitlines() if line.startswith("{")]
    assert found["current"] == lines[0]
    assert [sorted(p["replicas"]) for p in found["proposed"]["partitions"]] == [[2, 3], [2, 3]]
    assert found["proposed"].keys() == lines[1].keys()
    assert found["proposed"]["partitions"][0].keys() == lines[1]["partitions"][0].keys()

    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(found["proposed"]))
    go = ("--execute", "--reassignment-json-file", str(plan), "--throttle", "50000000")
    begun = tool("reassign", *go, "--output", "json").json
    assert begun["before"] == found["current"]
    verify = ("reassign", "--verify", "--reassignment-json-file", str(plan), "--output", "json")
    done = until(lambda: tool(*verify), lambda r: r.code == 0 and all(row["state"] == "complete" for row in r.json))
    assert [row["now"] for row in done.json] == [p["replicas"] for p in found["proposed"]["partitions"]]
    until(lambda: tool("configs", "--describe", "--topic", name), lambda r: r.code == 0 and "throttled" not in r.out)
    before = plan_file(tmp_path / "before.json", name, [[1, 2], [2, 1]])
    waited = tool("reassign", "--execute", "--reassignment-json-file", before, "--wait", "--throttle", "1000000")
    assert waited.code == 0, waited.err
    until_replicas(tool, name, [[1, 2], [2, 1]])
    by_java = run_tool(
        REASSIGN_PARTITIONS_COMMAND,
        "--bootstrap-server",
        three.bootstrap,
        "--verify",
        "--reassignment-json-file",
        before,
    )
    assert "Reassignment of partition" in by_java
    tool("topics", "--delete", "--topic", name)


def test_a_move_is_listed_and_called_off(
    tool: Barnabas, create: Callable[..., None], barnabas: Barnabas, three: ProcessCluster, name: str, tmp_path: Path
) -> None:
    create(name, "--replica-assignment", "1")
    record = "x" * 1000
    assert tool("produce", "--topic", name, stdin=f"{record}\n" * 4000).code == 0
    plan = plan_file(tmp_path / "plan.json", name, [[3]])
    crawling = ("reassign", "--execute", "--reassignment-json-file", plan, "--throttle", "1")
    assert "Begun" in tool(*crawling).out
    moving = until(lambda: tool("reassign", "--list", "--output", "json"), lambda r: bool(r.json)).json
    assert moving == [{"partition": f"{name}-0", "replicas": [3, 1], "adding": [3], "removing": [1]}]
    by_controllers = ("--bootstrap-controller", controllers(three), "--output", "json")
    assert barnabas("reassign", "--list", *by_controllers).json == moving
    assert "--additional" in tool(*crawling).err
    verify = ("reassign", "--verify", "--reassignment-json-file", plan, "--output", "json")
    assert tool(*verify).json[0]["state"] == "moving"
    cancel = ("reassign", "--cancel", "--reassignment-json-file", plan)
    assert tool(*cancel).out == f"Called off: {name}-0.\n"
    until_replicas(tool, name, [[1]])
    assert tool(*cancel).out == "Nothing of it is on the way.\n"
    missed = tool(*verify)
    assert (missed.code, "1 of 1 moves" in missed.err) == (1, True)
    tool("topics", "--delete", "--topic", name)


def test_flags_that_do_not_go_together(tool: Barnabas, tmp_path: Path) -> None:
    path = plan_file(tmp_path / "plan.json", "t", [[1], [1, 1]])
    assert "--throttle does not go with --verify" in tool("reassign", "--verify", "--throttle", "5").err
    assert "two replicas on one broker" in tool("reassign", "--verify", "--reassignment-json-file", path).err
    short = plan_file(tmp_path / "short.json", "t", [[1, 2]], log_dirs=["any"])
    assert "log_dirs" in tool("reassign", "--verify", "--reassignment-json-file", short).err


def test_leaders_are_elected(
    tool: Barnabas, create: Callable[..., None], three: ProcessCluster, name: str, tmp_path: Path
) -> None:
    create(name, "--replica-assignment", "1:2")
    swapped = plan_file(tmp_path / "swapped.json", name, [[2, 1]])
    assert tool("reassign", "--execute", "--reassignment-json-file", swapped, "--wait").code == 0

    def leader() -> Run:
        return tool("topics", "--describe", "--topic", name, "--output", "json")

    elect = ("leader-election", "--election-type", "PREFERRED")
    partitions = tmp_path / "partitions.json"
    partitions.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0}]}))
    (row,) = tool(*elect, "--path-to-json-file", str(partitions), "--output", "json").json
    assert row == {"partition": f"{name}-0", "election": "preferred", "result": "elected"}
    until(leader, lambda r: r.json[0]["partitions"][0]["leader"] == 2)
    (again,) = tool(*elect, "--topic", name, "--partition", "0", "--output", "json").json
    assert again["result"] == "not needed"
    unclean = tool("leader-election", "--election-type", "unclean", "--topic", name, "--partition", "0")
    assert "not needed" in unclean.out
    failed = tool(*elect, "--topic", name, "--partition", "7")
    assert (failed.code, f"{name}-7" in failed.out) == (1, True)
    assert "--partition is missing" in tool(*elect, "--topic", name).err
    run_tool(
        LEADER_ELECTION_COMMAND, "--bootstrap-server", three.bootstrap, "--election-type", "preferred",
        "--all-topic-partitions",
    )  # fmt: skip
    assert tool(*elect, "--all-topic-partitions").code == 0
    tool("topics", "--delete", "--topic", name)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_controller_loses_its_vote_and_gets_it_back(barnabas: Barnabas, three: ProcessCluster, leads: bool) -> None:
    at = ("--bootstrap-controller", controllers(three))
    status = barnabas("quorum", *at, "describe", "--status", "--output", "json").json
    chosen = next(v for v in status["current_voters"] if (v["id"] == status["leader_id"]) == leads)
    out = ("-i", str(chosen["id"]), "-d", chosen["directory_id"])
    assert "DRY RUN of removing" in barnabas("quorum", *at, "remove-controller", *out, "--dry-run").out
    removed = barnabas("quorum", *at, "remove-controller", *out).out
    assert removed.startswith(f"Removed KRaft controller {chosen['id']} ")
    until(
        lambda: barnabas("quorum", *at, "describe", "--replication", "--output", "json"),
        lambda r: [row["status"] for row in r.json if row["node_id"] == chosen["id"]] == ["Observer"],
    )
    refused = run_tool_result(METADATA_QUORUM_COMMAND, *at, "remove-controller", *map(str, out))
    assert refused.code == 1
    file = str(three.node(chosen["id"]).files.properties)
    # Kafka's brokers go on forwarding to a leader that was removed: it says NOT_LEADER_OR_FOLLOWER, which they hand on.
    through = ("--bootstrap-server", three.bootstrap) if is_ours(three) else at
    added = barnabas("quorum", *through, "add-controller", "--config", file)
    assert added.out.startswith(f"Added controller {chosen['id']} with directory id {chosen['directory_id']}"), (
        added.err
    )
    voters = barnabas("quorum", *at, "describe", "--status", "--output", "json").json["current_voters"]
    assert sorted(v["id"] for v in voters) == [1, 2, 3]


def test_feature_levels_by_the_controllers(barnabas: Barnabas, three: ProcessCluster) -> None:
    at = ("--bootstrap-controller", controllers(three))
    rows = {r["feature"]: r["finalized"] for r in barnabas("features", *at, "describe", "--output", "json").json}
    assert (rows["metadata.version"], rows["kraft.version"]) == ("4.3-IV0", "1")
    elr = ("--feature", "eligible.leader.replicas.version=0", "--dry-run")
    assert "could be downgraded" in barnabas("features", *at, "downgrade", *elr).out
    # The release has a share.version that this cluster does not: to set it would be no downgrade.
    older = ("downgrade", "--release-version", "4.2", "--dry-run")
    assert barnabas("features", *at, *older).code == 1
    assert run_tool_result(FEATURE_COMMAND, *at, *older).code == 1
    refused = barnabas("features", *at, "describe", "--bootstrap-server", three.bootstrap)
    assert "not both" in refused.err


def test_the_endpoints_of_brokers_and_controllers(barnabas: Barnabas, three: ProcessCluster) -> None:
    server = ("--bootstrap-server", three.bootstrap, "--output", "json")
    brokers = barnabas("cluster", "list-endpoints", *server, "--include-fenced-brokers").json
    assert [(b["id"], f"{b['host']}:{b['port']}", b["rack"], b["state"]) for b in brokers] == [
        (n.node_id, n.bootstrap, n.plan.rack, "unfenced") for n in three.brokers
    ]
    at = ("--bootstrap-controller", controllers(three), "--output", "json")
    found = barnabas("cluster", "list-endpoints", *at).json
    assert [f"{c['host']}:{c['port']}" for c in found] == controllers(three).split(",")
    assert barnabas("cluster", "cluster-id", *at).json == {"cluster_id": three.plan.cluster_id}
    gone = barnabas("cluster", "unregister", "--bootstrap-server", three.bootstrap, "--id", "77")
    assert (gone.code, "BROKER_ID_NOT_REGISTERED" in gone.err) == (1, True)
