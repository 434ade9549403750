"""What is known of a running cluster at a moment: its processes, from the system; the rest, from the nodes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.net.client import ChannelError
from barnabas.testing.nodes import NodesCluster
from barnabas.testing.processes import NodeProcess, NodeProcessError, ProcessCluster
from barnabas.testing.shape import CONTROLLER_USER
from barnabas.wire.errors import ApiError, ProtocolError

LOOK_SECONDS: Final = 1.0
_TIMEOUT_MS: Final = "2000"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What nodes say. in_quorum: by node, (part, log end offset, lag); led, in_sync, held: partitions by broker."""

    problem: str = "nobody has answered yet"
    leader: int = -1
    epoch: int = -1
    high_watermark: int = -1
    in_quorum: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    fenced: frozenset[int] = frozenset()
    led: Counter[int] = field(default_factory=Counter)
    in_sync: Counter[int] = field(default_factory=Counter)
    held: Counter[int] = field(default_factory=Counter)
    partitions: int = 0
    under_replicated: int = 0
    without_leader: int = 0


class Watch:
    """Asks the nodes again and again, on a thread of its own."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._cpu: dict[int, tuple[float, float]] = {}
        self.facts = ClusterFacts()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        self._over.set()
        self._thread.join()

    def rows(self) -> list[dict[str, Any]]:
        """Give a row for each node."""
        return [self._row(node) for node in sorted(self._cluster, key=lambda n: n.node_id)]

    def summary(self) -> str:
        """Give one line about the whole."""
        facts = self.facts
        if facts.problem:
            return f"The nodes do not answer: {facts.problem}"
        leader = f"controller {facts.leader}, epoch {facts.epoch}" if facts.leader >= 0 else "no controller"
        return (
            f"{leader}; high watermark {facts.high_watermark}; {facts.partitions} partitions, "
            f"{facts.under_replicated} under-replicated, {facts.without_leader} without a leader"
        )

    def _row(self, node: NodeProcess) -> dict[str, Any]:
        facts, plan = self.facts, node.plan
        part, end, lag = facts.in_quorum.get(node.node_id, ("-", None, None))
        is_broker = plan.client is not None
        state = node.state
        if state == "running" and is_broker and node.node_id in facts.fenced:
            state = "fenced"
        address = plan.client or plan.controller
        return {
            "node": node.node_id,
            "roles": plan.roles,
            "state": state,
            "pid": node.pid if node.running else None,
            "address": None if address is None else address.text,
            "rack": plan.rack,
            "quorum": part,
            "log_end": end,
            "lag": lag,
            "leads": facts.led[node.node_id] if is_broker else None,
            "in_sync": f"{facts.in_sync[node.node_id]}/{facts.held[node.node_id]}" if is_broker else None,
            "rss_mb": self._rss_mb(node),
            "cpu_percent": self._cpu_percent(node),
            "starts": node.starts,
        }

    def _rss_mb(self, node: NodeProcess) -> int | None:
        with suppress(OSError, NodeProcessError):
            return round(node.rss_bytes() / 1e6)
        return None

    def _cpu_percent(self, node: NodeProcess) -> int | None:
        """Give the share of one core that the process took since it was looked at before."""
        try:
            numbers = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, NodeProcessError):
            return None
        used, now = (int(numbers[11]) + int(numbers[12])) / _TICKS, time.monotonic()
        before = self._cpu.get(node.pid, (used, now))
        if now - before[1] >= LOOK_SECONDS / 2 or node.pid not in self._cpu:
            self._cpu[node.pid] = (used, now)
        return round(100 * (used - before[0]) / (now - before[1])) if now > before[1] else 0

    def _run(self) -> None:
        asyncio.run(self._look_again_and_again())

    async def _look_again_and_again(self) -> None:
        admin: Admin | None = None
        asked = ""
        while not self._over.is_set():
            config = self._config()
            if admin is None or asked != config.properties.get("bootstrap.servers", ""):
                if admin is not None:
                    await admin.close()
                admin, asked = Admin(config), config.properties.get("bootstrap.servers", "")
            try:
                self.facts = await _ask(admin)
            except (ApiError, ChannelError, ProtocolError) as e:
                self.facts = ClusterFacts(problem=str(e))
            await asyncio.to_thread(self._over.wait, LOOK_SECONDS)
        if admin is not None:
            await admin.close()

    def _config(self) -> ClientConfig:
        cluster = self._cluster
        more = {"request.timeout.ms": _TIMEOUT_MS, "default.api.timeout.ms": _TIMEOUT_MS}
        if cluster.brokers:
            # Those that are paused accept connections, and then keep one waiting.
            up = ",".join(n.bootstrap for n in cluster.brokers if n.state == "running")
            return ClientConfig.from_properties({**cluster.client(bootstrap=up), **more})
        return ClientConfig.from_properties({**controllers_client(cluster), **more})


def controllers_client(cluster: NodesCluster[Any]) -> dict[str, str]:
    """Give client settings for the controllers themselves."""
    at = [n.plan.controller.text for n in cluster.controllers if n.plan.controller is not None]
    settings = {"bootstrap.controllers": ",".join(at)}
    if cluster.plan.plaintext:
        return settings
    login = f'username="{CONTROLLER_USER}" password="{cluster.plan.secrets.controller}"'
    return settings | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{_PLAIN} required {login};",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.plan.files.ca),
    }


async def _ask(admin: Admin) -> ClusterFacts:
    quorum = (await admin.describe_quorum()).partition
    by_id = {v.replica_id: v for v in quorum.current_voters}
    leader = by_id.get(quorum.leader_id)
    in_quorum = {}
    for part, replicas in (("observer", quorum.observers), ("voter", quorum.current_voters)):
        for r in replicas:
            shown = "leader" if r.replica_id == quorum.leader_id else part
            lag = 0 if leader is None else leader.log_end_offset - r.log_end_offset
            in_quorum[r.replica_id] = (shown, r.log_end_offset, lag)
    found = ClusterFacts("", quorum.leader_id, quorum.leader_epoch, quorum.high_watermark, in_quorum)
    return found if admin.cluster.config.asks_controllers else await _with_partitions(admin, found)


async def _with_partitions(admin: Admin, found: ClusterFacts) -> ClusterFacts:
    fenced: frozenset[int] = frozenset()
    with suppress(ChannelError):  # nodes before Kafka 4.0 do not say
        described = await admin.describe_cluster(include_fenced=True)
        fenced = frozenset(b.broker_id for b in described.brokers if b.is_fenced)
    partitions = [p for topic in (await admin.topics()).values() for p in topic.partitions.values()]
    return ClusterFacts(
        found.problem,
        found.leader,
        found.epoch,
        found.high_watermark,
        found.in_quorum,
        fenced,
        led=Counter(p.leader for p in partitions),
        in_sync=Counter(broker for p in partitions for broker in p.isr),
        held=Counter(broker for p in partitions for broker in p.replicas),
        partitions=len(partitions),
        under_replicated=sum(len(p.isr) < len(p.replicas) for p in partitions),
        without_leader=sum(p.leader < 0 for p in partitions),
    )
