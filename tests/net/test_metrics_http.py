"""Measurements over HTTP: what Prometheus and strict readers of JSON make of them, and how many there may be."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.model.metrics import Bean, Metrics, mbean
from barnabas.net.clock import SystemClock
from barnabas.net.metrics_http import SLICE, MetricsServer

pytestmark = pytest.mark.asyncio


@pytest.fixture
def registry() -> Metrics:
    return Metrics(SystemClock())


@pytest.fixture
async def address(registry: Metrics) -> AsyncIterator[str]:
    server = MetricsServer("http://127.0.0.1:0", registry)
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await server.stop()


async def text_at(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.text()


async def test_prometheus_reads_names_labels_and_numbers(registry: Metrics, address: str) -> None:
    name = mbean("kafka.server", type="Odd", name="Size", topic='a"b\\c,d', partition="3")
    registry.gauge(name, lambda: 1.5)
    registry.gauge(name, lambda: math.nan, "of-late")
    registry.gauge(name, lambda: "text", "Unit")
    registry.source("kafka.server:type=Odd", lambda: [(mbean("kafka.server", type="Odd", name="Size"), {"Value": 2})])
    families = {f.name: f for f in text_string_to_metric_families(await text_at(address + "/metrics"))}
    assert set(families) == {"kafka_server_odd_size", "kafka_server_odd_size_of_late"}
    sizes = {sample.labels.get("partition"): sample.value for sample in families["kafka_server_odd_size"].samples}
    assert sizes == {"3": 1.5, None: 2}
    [late] = families["kafka_server_odd_size_of_late"].samples
    assert math.isnan(late.value)
    assert late.labels["partition"] == "3"


async def test_what_is_no_number_is_text_in_json(registry: Metrics, address: str) -> None:
    for attribute, value in (("mean", math.nan), ("top", math.inf), ("count", 2)):
        registry.gauge("kafka.server:type=Odd", lambda v=value: v, attribute)  # type: ignore[misc]

    def no_json(text: str) -> float:
        raise AssertionError(f"{text} is no JSON")

    [bean] = json.loads(await text_at(address + "/jmx?qry=kafka.server:*"), parse_constant=no_json)["beans"]
    assert bean == {"name": "kafka.server:type=Odd", "mean": "NaN", "top": "Infinity", "count": 2}


async def test_the_loop_goes_on_while_much_is_looked_at(registry: Metrics, address: str) -> None:
    many = 5 * SLICE
    turns = 0
    between: list[int] = []

    def partitions() -> Iterator[Bean]:
        for number in range(many):
            if not number % SLICE:
                between.append(turns)
            yield mbean("kafka.cluster", type="Partition", name="UnderMinIsr", partition=str(number)), {"Value": 0}

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    registry.source("kafka.cluster:type=Partition", partitions)
    task = asyncio.create_task(count_turns())
    try:
        for path in ("/metrics", "/jmx"):
            between.clear()
            assert (await text_at(address + path)).count("partition") >= many
            assert len(set(between)) == 5, "looked at in one turn of the loop"
    finally:
        task.cancel()
