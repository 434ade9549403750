"""The pytest plugin: `barnabas_cluster` for a session, `barnabas` for one test, reset after it.

def test_orders(barnabas):
    alice = barnabas.as_user("alice").allow("write", "topic", "orders")
    barnabas.create_topic("orders")
    producer = confluent_kafka.Producer(alice.librdkafka)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.cluster import Cluster


@pytest.fixture(scope="session")
def barnabas_settings() -> dict[str, str]:
    """Kafka's keys for the cluster of the session; override it in a conftest."""
    return {}


@pytest.fixture(scope="session")
def barnabas_cluster(tmp_path_factory: pytest.TempPathFactory, barnabas_settings: dict[str, str]) -> Iterator[Cluster]:
    """A secured cluster that all tests of the session share."""
    from barnabas.testing.cluster import Cluster

    _log_by_logging()
    with Cluster(tmp_path_factory.mktemp("barnabas"), barnabas_settings) as cluster:
        yield cluster


@pytest.fixture
def barnabas(barnabas_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster for one test: empty at its begin, and emptied after it."""
    yield barnabas_cluster
    barnabas_cluster.reset()


def _log_by_logging() -> None:
    """Let the node's log lines go where the tests' go, unless somebody has said where."""
    import structlog

    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                structlog.stdlib.render_to_log_kwargs,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
