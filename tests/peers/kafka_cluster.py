"""Clusters of real Apache Kafka nodes and ours, in any mixture: one directory each, one cluster id, one quorum.

Each node's directory is formatted by its own kind: a real node's by Kafka's StorageTool, ours by ours. Roles, ports,
static or dynamic voters and security are those of `barnabas.testing.processes.ProcessCluster`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from barnabas.testing.processes import Barnabas, NodeProcess, ProcessCluster, Software
from barnabas.testing.shape import NodePlan

from .apache import START_TIMEOUT_S, STOP_TIMEOUT_S, ApacheKafka
from .tools import STORAGE_TOOL, run_tool

LEVELS: Final = {"share.version": 0, "streams.version": 0}
"""What Barnabas does not offer yet: at 0 Kafka's nodes do not use it either."""
SMALLER_JVM: Final = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512K")
SMALL_NODE: Final = {
    "log.cleaner.dedupe.buffer.size": "2097152",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
}
"""What makes a real node fit into a small heap, and changes nothing that others see."""


class PatientProcess(NodeProcess):
    """A node that may take as long as a JVM takes on a busy machine."""

    def wait_ready(self, timeout_seconds: float = START_TIMEOUT_S) -> None:
        """Wait until the node serves."""
        super().wait_ready(timeout_seconds)

    def stop(self, timeout_seconds: float = STOP_TIMEOUT_S) -> int:
        """Ask it to leave in order, kill it when it does not."""
        return super().stop(timeout_seconds)


class MixedCluster(ProcessCluster):
    """A cluster in which the nodes `real` are Apache Kafka's and the others ours.

    with MixedCluster(tmp_path, real={1, 101}, controllers=1, brokers=2) as cluster:
        cluster.node(1).restart(kill=True)
    """

    def __init__(self, directory: Path, *, real: Collection[int], log_requests: bool = False, **shape: Any) -> None:
        """Write and format everything; nothing runs yet.

        log_requests: real nodes write every request that they get into their log. shape: as ProcessCluster takes it.
        """
        self.real = frozenset(real)
        self._log_requests = log_requests
        shape["features"] = {**LEVELS, **shape.get("features", {})}
        super().__init__(directory, **shape)

    def run_as(self, node_id: int, *, real: bool, properties: Mapping[str, str] | None = None) -> None:
        """Let a stopped node go on as the other kind, on the same files. properties: Kafka's keys over the file's."""
        node = self.nodes[node_id]
        assert not node.running, f"node {node_id} still runs"
        if properties:
            self.plan.write(node.plan, properties)
        node.software = self._software_of(node.plan, real=real)

    def add_controller(self, *, real: bool = False) -> NodeProcess:
        """Add a controller of either kind to a dynamic quorum, an observer until it is made a voter; not started."""
        if real:
            self.real |= {max(n.node_id for n in self.controllers) + 1}
        return super().add_controller()

    @property
    def is_mixed(self) -> bool:
        """Say whether the controllers are of both kinds."""
        return len({n.node_id in self.real for n in self.controllers}) > 1

    def data(self, node_id: int) -> Path:
        """Give the log directory of a node."""
        return self.plan.files.node(node_id).data

    def _prepare(self, plan: NodePlan) -> None:
        if plan.node_id not in self.real:
            super()._prepare(plan)
            return
        file = self.plan.write(plan, SMALL_NODE)
        run_tool(STORAGE_TOOL, "format", "--config", str(file), *self._format_arguments(plan))

    def _make(self, plan: NodePlan) -> NodeProcess:
        software = self._software_of(plan, real=plan.node_id in self.real)
        return PatientProcess(plan, self.plan.files.node(plan.node_id), software)

    def _software_of(self, plan: NodePlan, *, real: bool) -> Software:
        if not real:
            return Barnabas()
        logins = []
        if plan.client is not None and not self.plan.plaintext:
            logins = [self.client(bootstrap=plan.client.text)]
        return ApacheKafka(SMALLER_JVM, logins=logins, log_requests=self._log_requests)

    def _format_arguments(self, plan: NodePlan) -> list[str]:
        """Give what StorageTool is told of the cluster; users and levels count on controllers only."""
        arguments = ["--cluster-id", self.plan.cluster_id]
        if plan.controller is None:
            return arguments
        for name, level in LEVELS.items():
            arguments += ["--feature", f"{name}={level}"]
        for scram in self.plan.scram():
            arguments += ["--add-scram", scram]
        if self.plan.dynamic:
            is_first = plan.node_id in self.plan.voters
            arguments += (
                ["--initial-controllers", self.plan.initial_controllers()] if is_first else ["--no-initial-controllers"]
            )
        return arguments
