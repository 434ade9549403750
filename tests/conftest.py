"""Fixtures of the whole test run: real peers are started once and shared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from .peers.kafka import RealKafka
from .peers.tools import ToolRunner, close_shared_runner, shared_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("barnabas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("barnabas")

_TESTS = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each simulation with BARNABAS_SEEDS seeds (20), from BARNABAS_SEED (0) on; `make sim` asks for more."""
    if "sim_seed" in metafunc.fixturenames:
        first, count = int(os.environ.get("BARNABAS_SEED", "0")), int(os.environ.get("BARNABAS_SEEDS", "20"))
        metafunc.parametrize("sim_seed", range(first, first + count))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what wants a real ZooKeeper by its folder."""
    for item in items:
        if item.path.is_relative_to(_TESTS / "zookeeper") or item.path.is_relative_to(_TESTS / "net" / "zookeeper"):
            item.add_marker("zookeeper")


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Give one Apache Kafka 4.3.1 for the run, with a listener of each security protocol, ACLs on.

    The plain listener's ANONYMOUS and `admin` are super users; `alice` and `bob` have SCRAM credentials and
    no ACLs. Tests share it: use topic, group and principal names of your own.
    """
    kafka = RealKafka(
        tmp_path_factory.mktemp("real-kafka"),
        listeners=("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL"),
        scram_users={"alice": "alice-secret", "bob": "bob-secret"},
        authorizer=True,
    )
    with kafka:
        yield kafka


@pytest.fixture(scope="session")
def java_tools() -> ToolRunner:
    """Give the warm JVM that runs Kafka's own tools; `peers.tools.run_tool` uses the same one."""
    return shared_runner()


@pytest.fixture(scope="session", autouse=True)
def _end_of_java_tools() -> Iterator[None]:
    yield
    close_shared_runner()


@pytest.fixture(scope="session")
def event_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of Spark's event logs, written as plain text."""
    return tmp_path_factory.mktemp("event-logs")


@pytest.fixture(scope="session")
def spark(event_logs: Path) -> Iterator[SparkSession]:
    """Give Spark's session, of which a process has one, with event logs.

    Tests name their topics, paths and groups themselves.
    """
    from barnabas.spark.session import open_session

    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    session = open_session("barnabas tests", master="local[2]", quiet=True, settings=settings)
    yield session
    session.stop()
