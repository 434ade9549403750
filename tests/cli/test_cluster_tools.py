"""`barnabas quorum`, `features` and `log-dirs` against a real Apache Kafka."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Barnabas, Run, until
from tests.peers.kafka import RealKafka
from tests.peers.tools import FEATURE_COMMAND, LOG_DIRS_COMMAND, METADATA_QUORUM_COMMAND, run_tool

pytestmark = pytest.mark.peer


def test_the_quorum(tool: Barnabas, barnabas: Barnabas, real_kafka: RealKafka) -> None:
    status = tool("quorum", "describe", "--status", "--output", "json").json
    server = ("--bootstrap-server", real_kafka.bootstrap())
    by_java = run_tool(METADATA_QUORUM_COMMAND, *server, "describe", "--status")
    assert f"ClusterId:              {status['cluster_id']}" in by_java
    assert f"LeaderEpoch:            {status['leader_epoch']}" in by_java
    (voter,) = status["current_voters"]
    assert voter["endpoints"] == [f"CONTROLLER://localhost:{real_kafka.controller_port}"]
    (row,) = barnabas("quorum", "describe", *server, "--replication", "--output", "json").json
    assert (row["node_id"], row["lag"], row["status"]) == (1, 0, "Leader")
    assert " ms ago" in tool("quorum", "describe", "--replication", "--human-readable").out
    assert "exactly one of --status" in tool("quorum", "describe").err


def test_feature_levels(tool: Barnabas, real_kafka: RealKafka) -> None:
    rows = {r["feature"]: r for r in tool("features", "describe", "--output", "json").json}
    by_java = run_tool(FEATURE_COMMAND, "--bootstrap-server", real_kafka.bootstrap(), "describe")
    for line in by_java.splitlines():
        words = line.split()
        row = rows[words[1]]
        assert [row["supported_min"], row["supported_max"], row["finalized"]] == words[3:8:2]
    assert rows["metadata.version"]["finalized"] == "4.3-IV0"
    rehearsal = tool("features", "upgrade", "--release-version", "4.3", "--dry-run")
    assert "could be upgraded" in rehearsal.out
    refused = tool("features", "upgrade", "--feature", "kraft.version=99")
    assert (refused.code, "kraft.version" in refused.err) == (1, True)
    assert "4.3" in tool("features", "version-mapping").out
    assert tool("features", "downgrade", "--metadata", "1.0").code == 1


def test_log_directories(tool: Barnabas, real_kafka: RealKafka, name: str) -> None:
    tool("topics", "--create", "--topic", name, "--partitions", "2")

    def partitions(run: Run) -> list[str]:
        return [p["partition"] for p in run.json["brokers"][0]["log_dirs"][0]["partitions"]]

    shown = until(
        lambda: tool("log-dirs", "--describe", "--topic-list", name, "--output", "json"),
        lambda r: len(partitions(r)) == 2,
    )
    (directory,) = shown.json["brokers"][0]["log_dirs"]
    assert directory["log_dir"] == str(real_kafka.log_dir)
    assert partitions(shown) == [f"{name}-0", f"{name}-1"]
    server = ("--bootstrap-server", real_kafka.bootstrap())
    assert f'"partition":"{name}-1"' in run_tool(LOG_DIRS_COMMAND, *server, "--describe", "--topic-list", name)
    assert str(real_kafka.log_dir) in tool("log-dirs", "--describe", "--broker-list", "1").out
    assert "no live broker 7" in tool("log-dirs", "--describe", "--broker-list", "7").err
    tool("topics", "--delete", "--topic", name)
