"""Each transformation and predicate gives what Kafka's own gives, from bytes to bytes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.conformance.java_oracle import JavaOracle
from tests.connect.spark.kafka_side import Outcome, java_outcomes, our_outcomes
from tests.peers.maven import connect_classpath

from .cases import CASES

pytestmark = [pytest.mark.peer, pytest.mark.spark]


@pytest.fixture(scope="module")
def kafka() -> dict[str, list[Outcome]]:
    """Give what Kafka's classes make of each case."""
    with JavaOracle("ConnectOracle.java", connect_classpath()) as oracle:
        return {case.name: java_outcomes(oracle, case) for case in CASES}


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> dict[str, list[Outcome]]:
    """Give what ours make of each case."""
    return our_outcomes(spark, CASES)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_it_does_to_records_what_kafkas_does(
    name: str, kafka: dict[str, list[Outcome]], ours: dict[str, list[Outcome]]
) -> None:
    assert ours[name] == kafka[name]
