"""Two controllers without brokers, Apache Kafka's and ours, formatted alike; scripts are run on both and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from barnabas.testing.processes import Barnabas, ProcessCluster, Software
from tests.peers.apache import ApacheKafka

from .side import ControllerSide, told

PROPERTIES = {
    "broker.session.timeout.ms": "3600000",
    "auto.leader.rebalance.enable": "false",
    "metadata.max.idle.interval.ms": "0",
    "default.replication.factor": "1",
}
START_TIMEOUT_S = 600
Script = Callable[[ControllerSide], None]


@dataclass
class Both:
    """The two sides of a comparison."""

    kafka: ControllerSide
    barnabas: ControllerSide

    def run(self, script: Script) -> None:
        """Run a script on each; its answers and records must be the same."""
        for side in (self.kafka, self.barnabas):
            side.begin()
            try:
                script(side)
            finally:
                side.leave()
        assert not (differing := list(told(self.kafka, self.barnabas))), "\n".join(["", *differing])


Start = Callable[[Mapping[str, int]], Both]


@pytest.fixture(scope="module")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Give what starts a pair formatted with some feature levels; pairs live as long as the module's tests.

    Six of them to the end of the run would be six JVMs beside all that comes after.
    """
    pairs: dict[tuple[tuple[str, int], ...], Both] = {}
    with ExitStack() as stack:

        def side(name: str, software: Software, features: Mapping[str, int]) -> ControllerSide:
            cluster = ProcessCluster(
                tmp_path_factory.mktemp(name),
                controllers=1,
                plaintext=True,
                properties=PROPERTIES,
                features=features,
                software=lambda node_id: software,
            )
            stack.callback(cluster.close)
            [node] = cluster
            node.start(wait=False)
            node.wait_ready(START_TIMEOUT_S)
            found = ControllerSide(name, node, cluster.plan.cluster_id)
            stack.callback(found.close)
            return found

        def start(features: Mapping[str, int]) -> Both:
            key = tuple(sorted(features.items()))
            if key not in pairs:
                pairs[key] = Both(side("kafka", ApacheKafka(), features), side("barnabas", Barnabas(), features))
            return pairs[key]

        yield start


@pytest.fixture
def both(controllers: Start) -> Both:
    """Give the pair at the newest levels, eligible leader replicas off."""
    return controllers({"eligible.leader.replicas.version": 0})


@pytest.fixture
def with_elr(controllers: Start) -> Both:
    """Give the pair that keeps eligible leader replicas."""
    return controllers({"eligible.leader.replicas.version": 1})
