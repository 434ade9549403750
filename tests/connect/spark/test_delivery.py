"""How long a source's records wait for a cluster that does not take them (`delivery.timeout.ms`), and its offsets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.runtime import Begun, Committed, Failed
from barnabas.connect.spark.writing import may_pass
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.spark.explain import RefusedError
from barnabas.testing.local import LocalCluster
from barnabas.wire.errors import ApiError, ErrorCode
from tests.connect.workers import until

from .conftest import Topics, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def config(topic: str, file: Path, **producer: str) -> dict[str, str]:
    overrides = {f"producer.override.{key.replace('_', '.')}": text for key, text in producer.items()}
    return {"connector.class": "FileStreamSource", "topic": topic, "file": str(file), **overrides}


def begun(watched: Watched) -> int:
    return sum(isinstance(event, Begun) for _, event in watched.events)


async def test_a_source_fails_when_its_records_waited_too_long(
    watched: Watched, connect_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    topic, file = topics.create(), tmp_path / "in"
    watched.may_fail = True
    task = await watched.start(config(topic, file, delivery_timeout_ms="1500"))
    file.write_text("one\n")
    await watched.until(lambda: watched.records(task) == 1)
    (node,) = connect_cluster
    await asyncio.to_thread(node.stop)
    try:
        with file.open("a") as more:
            more.write("two\n")
        failed = await watched.until_state(task, Failed)
    finally:
        await asyncio.to_thread(node.start)
    assert isinstance(failed, Failed)
    assert "not delivered within delivery.timeout.ms=1500" in failed.trace
    assert "the cluster cannot be reached" in failed.trace
    await watched.runtime.stop(task)
    again = await watched.start(config(topic, file), name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) == 2)  # both runs together
    assert topics.values(topic, 2) == [b"one", b"two"]


async def test_a_source_whose_offsets_cannot_be_kept_goes_on_and_keeps_them_later(
    watched: Watched, topics: Topics, tmp_path: Path
) -> None:
    topic, file = topics.create(), tmp_path / "in"
    file.write_text("one\n")
    watched.offsets.refuses = True
    task = await watched.start(config(topic, file))
    await watched.until(lambda: watched.records(task) == 1)
    with file.open("a") as more:
        more.write("two\n")
    await watched.until(lambda: watched.records(task) == 2)
    assert [event.failed for event in watched.of(task) if isinstance(event, Committed)] == [True, True]
    watched.offsets.refuses = False
    await until(lambda: watched.offsets.kept)  # though nothing is new
    await watched.runtime.stop(task)
    assert watched.offsets.kept[task.connector] == [ConnectorOffset({"filename": str(file)}, {"position": 8})]
    with file.open("a") as more:
        more.write("three\n")
    again = await watched.start(config(topic, file), name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) == 3)  # both runs together
    assert topics.values(topic, 3) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("producer", [{}, {"delivery_timeout_ms": "600000"}], ids=["unset", "long"])
async def test_a_source_waits_for_a_cluster_that_comes_back_in_time(
    watched: Watched, connect_cluster: LocalCluster, topics: Topics, tmp_path: Path, producer: dict[str, str]
) -> None:
    topic, file = topics.create(), tmp_path / "in"
    retries = {"errors.retry.timeout": "0"}  # that is for connectors, not for the producer
    task = await watched.start(config(topic, file, **producer) | retries)
    file.write_text("one\n")
    await watched.until(lambda: watched.records(task) == 1)
    before = begun(watched)
    (node,) = connect_cluster
    await asyncio.to_thread(node.stop)
    try:
        with file.open("a") as more:
            more.write("two\n")
        await watched.until(lambda: begun(watched) > before)
    finally:
        await asyncio.to_thread(node.start)
    await watched.until(lambda: watched.records(task) == 2)
    assert topics.values(topic, 2) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("why", "passes"),
    [
        (DisconnectedError("gone"), True),
        (RequestTimeoutError("late"), True),
        (ApiError(ErrorCode.NOT_ENOUGH_REPLICAS), True),
        (RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, "t"), True),
        (RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t"), False),
        (RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t"), False),
        (None, False),
    ],
)
def test_what_may_pass_is_waited_for(why: Exception | None, passes: bool) -> None:
    assert may_pass(why) == passes
