"""The pytest plugin: `barnabas_cluster` for a session, `barnabas` for one test, `barnabas_clusters` for any shape,
`barnabas_sessions` for a node whose sessions end soon.

def test_orders(barnabas):
    alice = barnabas.as_user("alice").allow("write", "topic", "orders")
    barnabas.create_topic("orders")
    producer = confluent_kafka.Producer(alice.librdkafka)


def test_a_broker_dies(barnabas_clusters):
    cluster = barnabas_clusters(controllers=3, brokers=3, processes=True)
    cluster.create_topic("orders", partitions=3)
    cluster.leader("orders", 0).kill()


def test_sessions_are_renewed(barnabas_sessions):
    node = barnabas_sessions(lifetimes_ms=(2000,))
    ...  # a client that goes on working
    node.wait_for(lambda: node.count(Kind.RENEWED) >= 2)
    assert node.count(Kind.CUT_OFF) == 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, Protocol, overload

import pytest

if TYPE_CHECKING:
    from typing import Unpack

    from barnabas.testing.cluster import Cluster
    from barnabas.testing.local import LocalCluster
    from barnabas.testing.nodes import Shape
    from barnabas.testing.processes import ProcessCluster
    from barnabas.testing.sessions import SessionNode


@pytest.fixture(scope="session")
def barnabas_settings() -> dict[str, str]:
    """Kafka's keys for the cluster of the session; override it in a conftest."""
    return {}


@pytest.fixture(scope="session")
def barnabas_cluster(tmp_path_factory: pytest.TempPathFactory, barnabas_settings: dict[str, str]) -> Iterator[Cluster]:
    """A secured cluster that all tests of the session share."""
    from barnabas.testing.cluster import Cluster
    from barnabas.testing.logs import log_by_logging_unless_told

    log_by_logging_unless_told()
    with Cluster(tmp_path_factory.mktemp("barnabas"), barnabas_settings) as cluster:
        yield cluster


@pytest.fixture
def barnabas(barnabas_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster for one test: empty at its begin, whatever those left who share it, and emptied after it."""
    barnabas_cluster.reset()
    yield barnabas_cluster
    barnabas_cluster.reset()


class MakeCluster(Protocol):
    """Makes and starts a cluster; it ends with the test. shape: see NodesCluster.

    processes: each node is a process of its own, that can be killed and paused; else all run in the test's.
    """

    @overload
    def __call__(self, *, processes: Literal[False] = False, **shape: Unpack[Shape]) -> LocalCluster: ...
    @overload
    def __call__(self, *, processes: Literal[True], **shape: Unpack[Shape]) -> ProcessCluster: ...


@pytest.fixture
def barnabas_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeCluster]:
    """Makes clusters of any shape: see MakeCluster."""
    from barnabas.testing.local import LocalCluster
    from barnabas.testing.logs import log_by_logging_unless_told
    from barnabas.testing.processes import ProcessCluster

    log_by_logging_unless_told()
    made: list[LocalCluster | ProcessCluster] = []

    def make(*, processes: bool = False, **shape: Unpack[Shape]) -> LocalCluster | ProcessCluster:
        kind = ProcessCluster if processes else LocalCluster
        made.append(kind(tmp_path_factory.mktemp("cluster"), **shape))
        made[-1].start()
        return made[-1]

    yield make  # type: ignore[misc]  # one function serves both overloads
    for cluster in made:
        cluster.close()


class MakeSessions(Protocol):
    """Makes and starts a node whose sessions end soon; it ends with the test. The arguments are SessionNode's."""

    def __call__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        protocol: str = "SASL_SSL",
        lifetimes_ms: Sequence[int] = (3000,),
    ) -> SessionNode: ...


@pytest.fixture
def barnabas_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeSessions]:
    """Makes nodes whose sessions end soon (KIP-368): see MakeSessions and barnabas.testing.sessions."""
    from barnabas.testing.logs import log_by_logging_unless_told
    from barnabas.testing.sessions import SessionNode

    log_by_logging_unless_told()
    with ExitStack() as made:

        def make(
            settings: Mapping[str, str] | None = None,
            *,
            protocol: str = "SASL_SSL",
            lifetimes_ms: Sequence[int] = (3000,),
        ) -> SessionNode:
            directory = tmp_path_factory.mktemp("sessions")
            return made.enter_context(SessionNode(directory, settings, protocol=protocol, lifetimes_ms=lifetimes_ms))

        yield make
