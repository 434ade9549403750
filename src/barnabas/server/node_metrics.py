"""What of a node is read off when somebody looks, rather than counted."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.model.metrics import Metrics, Value, mbean
from barnabas.net.client import SOFTWARE_VERSION
from barnabas.server.log_metrics import FlushTimes, publish_cleaner, publish_directories, publish_logs
from barnabas.server.loop_metrics import publish_loop_metrics
from barnabas.server.network.metrics import ListenerMetrics

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.node import Node
    from barnabas.server.replication.fetch_sessions import FetchSessions
    from barnabas.storage.log import Log

_PROCESS_IO: Final = Path("/proc/self/io")


class BrokerState(IntEnum):
    """Kafka's numbers for where a broker is in its life."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6


def publish_node_metrics(node: Node) -> None:
    """Publish what a node has; call it on the loop's thread, when the listeners and the metadata log are open."""
    registry, config = node.metrics.registry, node.config
    publish_loop_metrics(registry, is_broker=config.is_broker, is_controller=config.is_controller)
    ListenerMetrics(registry, node.listeners, node.listeners[0].budget)
    flushes = FlushTimes(registry)
    if node.mode.metadata_log is not None:
        flushes.watch(node.mode.metadata_log.env)
    publish_logs(registry, lambda: _logs(node))
    gauge = registry.gauge
    gauge(mbean("kafka.server", type="Authorizer", name="AclCount"), node.acl_count)
    info = mbean("kafka.server", type="app-info", id=str(config.node_id))
    started_ms = registry.clock.now_ms()
    gauge(info, lambda: started_ms, "StartTimeMs")
    gauge(info, lambda: SOFTWARE_VERSION, "Version")
    servers = {"KafkaServer": node.broker is not None, "ControllerServer": config.is_controller}
    for server in (name for name, is_one in servers.items() if is_one):
        gauge(mbean("kafka.server", type=server, name="ClusterId"), lambda: node.cluster_id)
        _disk_use(registry, server)
    if node.broker is not None:
        flushes.watch(node.log_dirs.env)
        _publish_broker(node, node.broker)


def _logs(node: Node) -> Iterator[Log]:
    if node.mode.metadata_log is not None:
        yield node.mode.metadata_log.log
    yield from list(node.log_dirs.logs.values())
    yield from list(node.log_dirs.futures.values())


def _publish_broker(node: Node, broker: Broker) -> None:
    registry = node.metrics.registry
    node.metrics.topics.publish()
    registry.gauge(mbean("kafka.server", type="KafkaServer", name="BrokerState"), lambda: int(broker.state))
    publish_directories(registry, node.log_dirs, broker.cordoned_directories)
    if node.config["log.cleaner.enable"]:
        publish_cleaner(registry, node.log_dirs)
    _publish_sessions(registry, broker.fetch_sessions)


def _publish_sessions(registry: Metrics, sessions: FetchSessions) -> None:
    def name(last: str) -> str:
        return mbean("kafka.server", type="FetchSessionCache", name=last)

    registry.gauge(name("NumIncrementalFetchSessions"), lambda: len(sessions))
    registry.gauge(name("NumIncrementalFetchPartitionsCached"), lambda: sessions.partition_count)
    registry.counted(name("IncrementalFetchSessionEvictionsPerSec"), lambda: sessions.evictions, "evictions")


def _disk_use(registry: Metrics, server: str) -> None:
    """Publish what this process has read from disks and written to them, where the kernel tells (Linux)."""
    if not _PROCESS_IO.exists():
        return
    for what, key in (("linux-disk-read-bytes", "read_bytes"), ("linux-disk-write-bytes", "write_bytes")):
        registry.gauge(mbean("kafka.server", type=server, name=what), partial(_of_process, key))


def _of_process(key: str) -> Value:
    fields = dict(line.split(": ") for line in _PROCESS_IO.read_text().splitlines())
    return int(fields[key])
