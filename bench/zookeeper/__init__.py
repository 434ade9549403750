"""ZooKeeper mode: the security migration tool on a large tree, and a cluster's start and change of controller.

Apache Kafka is 3.9.1 here, the last release that runs on ZooKeeper. Both systems have the same ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.goals import Results
from bench.zookeeper.brokers import measure_brokers
from bench.zookeeper.security_tool import measure_tool
from bench.zookeeper.sizes import Say, ZooKeeperSizes

__all__ = ["FULL", "QUICK", "ZooKeeperSizes", "measure_zookeeper"]

FULL: Final = ZooKeeperSizes(repeats=5, znodes=50_000, zk_partitions=2_000)
QUICK: Final = ZooKeeperSizes(repeats=2, znodes=5_000, zk_partitions=200)


def measure_zookeeper(found: Mapping[str, Results], sizes: ZooKeeperSizes, say: Say) -> None:
    """Measure the systems in `found`: `kafka`, `barnabas`, or both."""
    measure_tool(found, sizes, say)
    for system, results in found.items():
        say(f"  {system}, two brokers")
        measure_brokers(system == "kafka", sizes, results, say)
