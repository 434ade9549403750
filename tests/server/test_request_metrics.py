"""What is told of requests: where their time went, what their answers said, and by which way they came."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any, cast

import pytest

from barnabas.model.metrics import Metrics
from barnabas.net.clock import SystemClock
from barnabas.server.context import RequestContext
from barnabas.server.request_metrics import RequestMetrics, RequestStats
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.wire.messages.find_coordinator import FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

NAME = "kafka.network:type=RequestMetrics,name="
MS = 1_000_000


@dataclass(frozen=True)
class Request:
    """As much of a request as is counted. It was read at 0."""

    version: int = 9
    started_ns: int = 0
    queued_ns: int = 1 * MS
    waited_ns: int = 5 * MS
    throttle_ms: int = 7
    size: int = 120


def count(stats: RequestStats, request: Request, answered_ms: int = 9, size: int = 50) -> None:
    stats.answered(cast("RequestContext", request), answered_ms * MS, size)


@pytest.fixture
def registry() -> Metrics:
    return Metrics(SystemClock())


@pytest.fixture
def metrics(registry: Metrics) -> RequestMetrics:
    return RequestMetrics(registry)


def seen(registry: Metrics, name: str) -> dict[str, Any]:
    """Give the one MBean of that name."""
    [(_, attributes)] = registry.values(NAME + name)
    return dict(attributes)


def test_the_times_of_a_request_add_up(registry: Metrics, metrics: RequestMetrics) -> None:
    before_ns = perf_counter_ns()
    request = Request(started_ns=before_ns)
    metrics.table()[ApiKey.PRODUCE].answered(cast("RequestContext", request), before_ns + 9 * MS, 50)
    times = ("RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseSendTimeMs", "TotalTimeMs", "ThrottleTimeMs")
    took = {name: seen(registry, f"{name},request=Produce")["Max"] for name in times}
    assert (took["RequestQueueTimeMs"], took["LocalTimeMs"], took["RemoteTimeMs"]) == (1, 4, 4)
    assert took["ThrottleTimeMs"] == 7
    parts = took["RequestQueueTimeMs"] + took["LocalTimeMs"] + took["RemoteTimeMs"] + took["ResponseSendTimeMs"]
    assert parts == pytest.approx(took["TotalTimeMs"])
    assert seen(registry, "RequestBytes,request=Produce")["Mean"] == 120


def test_requests_of_all_ways_are_counted_together(registry: Metrics, metrics: RequestMetrics) -> None:
    clients, brokers = metrics.table(), metrics.table()
    for table in (clients, clients, brokers, metrics.forwarded):
        count(table[ApiKey.CREATE_TOPICS], Request(version=7))
    count(clients[ApiKey.CREATE_TOPICS], Request(version=5))
    assert seen(registry, "RequestsPerSec,request=CreateTopics,version=7")["Count"] == 4
    assert seen(registry, "RequestsPerSec,request=CreateTopics,version=5")["Count"] == 1
    assert seen(registry, "TotalTimeMs,request=CreateTopics")["Count"] == 5
    assert [stats.count for stats in clients.all()] == [3]
    assert list(registry.values(NAME + "*request=DeleteTopics*")) == []


def test_followers_fetches_are_counted_apart_and_with_all_others(registry: Metrics, metrics: RequestMetrics) -> None:
    fetches = metrics.table()[ApiKey.FETCH]
    count(fetches, Request(size=10))
    count(fetches.of_followers(), Request(size=1_000))
    count(fetches.of_followers(), Request(size=1_000))
    sizes = {
        kind: seen(registry, f"RequestBytes,request={kind}") for kind in ("FetchConsumer", "FetchFollower", "Fetch")
    }
    assert {kind: (found["Count"], found["Max"]) for kind, found in sizes.items()} == {
        "FetchConsumer": (1, 10),
        "FetchFollower": (2, 1_000),
        "Fetch": (3, 1_000),
    }
    assert seen(registry, "RequestsPerSec,request=Fetch,version=9")["Count"] == 3


def test_a_listener_knows_its_bytes(metrics: RequestMetrics) -> None:
    table = metrics.table()
    count(table[ApiKey.PRODUCE], Request(size=100), size=40)
    count(table[ApiKey.PRODUCE], Request(size=300), size=0)
    [stats] = table.all()
    assert (stats.bytes_in, stats.bytes_out, stats.count, stats.unanswered) == (400, 40, 2, 1)
    assert table.largest == 300


def test_only_the_latest_requests_are_remembered(registry: Metrics, metrics: RequestMetrics) -> None:
    stats = metrics.table()[ApiKey.METADATA]
    for size in range(2_000):
        count(stats, replace(Request(), size=size))
    found = seen(registry, "RequestBytes,request=Metadata")
    assert (found["Count"], found["Min"], found["Max"]) == (2_000, 2_000 - 1_024, 1_999)


def produced(*codes: int) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index=n, error_code=code) for n, code in enumerate(codes)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (produced(0, 0, 6), {0: 2, 6: 1}),
        (ProduceResponse(), {}),
        (HeartbeatResponse(error_code=27), {27: 1}),
        (FindCoordinatorResponse(), {0: 1}),
        (
            FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(error_code=1)])]),
            {0: 1, 1: 1},
        ),
    ],
    ids=["partitions", "nothing", "top", "both", "top-and-partitions"],
)
def test_every_error_code_of_an_answer_is_counted(answer: Any, counts: dict[int, int]) -> None:
    stats = RequestStats()
    stats.count_errors(answer)
    assert dict(stats.errors) == counts
    stats.count_errors(answer)
    assert dict(stats.errors) == {code: 2 * number for code, number in counts.items()}


@pytest.mark.requirement("F-41")
def test_errors_are_shown_by_name_and_request(registry: Metrics, metrics: RequestMetrics) -> None:
    stats = metrics.table()[ApiKey.PRODUCE]
    stats.count_errors(produced(0, 0, 6))
    count(stats, Request())
    assert seen(registry, "ErrorsPerSec,request=Produce,error=NONE")["Count"] == 2
    assert seen(registry, "ErrorsPerSec,request=Produce,error=NOT_LEADER_OR_FOLLOWER")["Count"] == 1
