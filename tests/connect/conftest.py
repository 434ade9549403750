"""A broker for the tests of Connect's shell, in this process and without ceremony."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from barnabas.testing.local import LocalCluster
from barnabas.testing.logs import log_by_logging_unless_told
from tests.peers.kafka import RealKafka

OURS, THEIRS = "our brokers", "their brokers"


@pytest.fixture(scope="session", autouse=True)
def _logs() -> None:
    log_by_logging_unless_told()


@pytest.fixture(scope="module")
def connect_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Give one plaintext node of ours for the module; use topic and group names of your own.

    Not for the whole run: what goes on in another thread takes from `random`, which Hypothesis wants for itself.
    """
    with LocalCluster(tmp_path_factory.mktemp("connect"), combined=1, plaintext=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def bootstrap(connect_cluster: LocalCluster) -> str:
    """Give where that node listens."""
    return next(iter(connect_cluster)).bootstrap


@pytest.fixture(params=[OURS, pytest.param(THEIRS, marks=[pytest.mark.slow, pytest.mark.peer])])
def brokers(request: pytest.FixtureRequest) -> str:
    """Give where brokers listen, for tests that are run on both: that node, and one of Apache Kafka's."""
    if request.param == THEIRS:
        kafka: RealKafka = request.getfixturevalue("real_kafka")
        return kafka.bootstrap("PLAINTEXT")
    cluster: LocalCluster = request.getfixturevalue("connect_cluster")
    return next(iter(cluster)).bootstrap


@pytest.fixture
def group() -> str:
    """Give the name of a Connect group of the test's own."""
    return f"connect-{uuid.uuid4().hex[:10]}"
