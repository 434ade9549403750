"""The node as its clients meet it: order, bounds before and after the login, rubbish, and who is closed when."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.record_batch import Record, encode_batch
from tests.clients.nodes import until
from tests.peers.eventually import eventually

from .frames import LOGIN, OPEN, FramePeer, port_of, several_listeners

TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = several_listeners(
        socket__request__max__bytes="2000000",
        sasl__server__max__receive__size="4096",
        group__coordinator__append__linger__ms="20",  # so that a client can leave before its offset is committed
    )
    with Cluster(tmp_path_factory.mktemp("shell"), settings) as found:
        found.create_topic("data")
        yield found


@pytest.fixture
def root(cluster: Cluster) -> Iterator[FramePeer]:
    with FramePeer(port_of(cluster, LOGIN)) as peer:
        assert peer.login("root").error_code == 0
        yield peer


def produce(topic: str, value: bytes = b"value", acks: int = 1) -> ProduceRequest:
    batch = encode_batch([Record(0, time.time_ns() // 1_000_000, None, value)])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    return ProduceRequest(
        acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch(topic: str, offset: int, max_wait_ms: int = 0, max_bytes: int = 10_000_000) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)],
            )
        ],
    )


def end_of(topic: str) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])


def test_a_hundred_requests_at_once_are_answered_in_order(root: FramePeer) -> None:
    end = root.call(end_of("data")).topics[0].partitions[0].offset
    kinds: list[tuple[Any, int]] = [
        (MetadataRequest(topics=[MetadataRequestTopic(name="data")]), 9),
        (fetch("data", end + 40, max_wait_ms=10), 12),  # offset out of range: answered at once
        (fetch("data", end, max_wait_ms=3), 12),  # waits: nothing is there yet
        (FindCoordinatorRequest(key="group"), 2),
        (ApiVersionsRequest(client_software_name="frames", client_software_version="1"), 3),
    ]
    asked = [kinds[i % len(kinds)] for i in range(100)]
    sent = [root.send(request, version) for request, version in asked]
    assert [root.receive(request, version)[0] for request, version in asked] == sent


def test_a_request_waits_for_the_one_before_it(root: FramePeer) -> None:
    end = root.call(end_of("data")).topics[0].partitions[0].offset
    waiting = root.send(fetch("data", end, max_wait_ms=200), 12)
    root.send(produce("data"), 9)
    root.send(fetch("data", end), 12)
    # The fetch is over before the record is written: a connection's requests are served one after the other.
    correlation, answer = root.receive(FetchRequest(), 12)
    assert correlation == waiting
    assert not answer.responses[0].partitions[0].records
    root.receive(ProduceRequest(), 9)
    assert root.receive(FetchRequest(), 12)[1].responses[0].partitions[0].records


def commit(offset: int) -> OffsetCommitRequest:
    wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="shell", topics=[OffsetCommitRequestTopic(name="data", partitions=[wanted])])


@pytest.fixture
async def coordinated(root: FramePeer) -> None:
    """Wait until offsets can be committed."""
    root.call(FindCoordinatorRequest(coordinator_keys=["shell"]))

    async def committed() -> int:
        return int(root.call(commit(0), 9).topics[0].partitions[0].error_code)

    await eventually(committed, ErrorCode.NONE)


@pytest.mark.usefixtures("coordinated")
def test_what_comes_behind_a_commit_of_offsets_is_answered_behind_it(root: FramePeer) -> None:
    kinds: list[tuple[Any, int]] = [(commit(1), 9), (MetadataRequest(topics=[]), 9), (commit(2), 8), (commit(3), 7)]
    asked = kinds * 10
    sent = [root.send(request, version) for request, version in asked]
    answers = [root.receive(request, version) for request, version in asked]
    assert [correlation for correlation, _ in answers] == sent
    codes = [a.topics[0].partitions[0].error_code for _, a in answers if isinstance(a, OffsetCommitResponse)]
    assert codes == [ErrorCode.NONE] * 30


@pytest.mark.usefixtures("coordinated")
def test_a_client_that_leaves_while_its_offset_is_committed_harms_nobody(
    cluster: Cluster, root: FramePeer, caplog: pytest.LogCaptureFixture
) -> None:
    for offset in range(30):
        with FramePeer(port_of(cluster, LOGIN)) as leaving:
            assert leaving.login("root").error_code == 0
            leaving.send(commit(offset), 9)
    assert root.call(commit(99), 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_a_fetch_that_begins_to_wait_as_a_record_is_written_gets_it(cluster: Cluster, root: FramePeer) -> None:
    """The write may come after the look at the log and before the waiting: such a fetch would be late by its time."""
    end = root.call(end_of("data")).topics[0].partitions[0].offset
    with FramePeer(port_of(cluster, LOGIN)) as writer:
        assert writer.login("root").error_code == 0
        for offset in range(end, end + 300):
            root.send(fetch("data", offset, max_wait_ms=600_000), 12)
            writer.call(produce("data"), 9)
            assert root.receive(FetchRequest(), 12)[1].responses[0].partitions[0].records


def test_produce_without_acknowledgement_gets_no_answer_and_is_written(root: FramePeer) -> None:
    end = root.call(end_of("data")).topics[0].partitions[0].offset
    root.send(produce("data", acks=0), 9)
    assert root.call(end_of("data")).topics[0].partitions[0].offset == end + 1


def test_a_failed_write_without_acknowledgement_closes_the_connection(root: FramePeer) -> None:
    root.send(produce("no-such-topic", acks=0), 9)
    assert root.closed()


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00", id="one byte"),
        pytest.param((9_999).to_bytes(2, "big") + bytes(10), id="unknown API"),
        pytest.param((0).to_bytes(2, "big") + (99).to_bytes(2, "big") + bytes(10), id="unknown version of Produce"),
        pytest.param((3).to_bytes(2, "big") + (12).to_bytes(2, "big") + bytes(7) + b"\xff\xff\xff\xff\x7f", id="count"),
        pytest.param((52).to_bytes(2, "big") + bytes(12), id="an API of controllers only"),
    ],
)
def test_rubbish_closes_the_connection_and_nothing_else(cluster: Cluster, frame: bytes) -> None:
    with FramePeer(port_of(cluster, OPEN)) as other, FramePeer(port_of(cluster, OPEN)) as peer:
        peer.send_raw(frame)
        assert peer.closed()
        assert other.call(ApiVersionsRequest(), 0).error_code == 0


def test_an_unknown_version_of_api_versions_is_told_the_known_ones(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, OPEN)) as peer:
        peer.send_raw((18).to_bytes(2, "big") + (99).to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\0\1x\0")
        correlation, answer = peer.receive(ApiVersionsRequest(), 0)
        assert (correlation, answer.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert [(k.api_key, k.max_version) for k in answer.api_keys] == [(18, ApiVersionsRequest.MAX_VERSION)]
        assert peer.call(ApiVersionsRequest(), 3).error_code in (0, ErrorCode.INVALID_REQUEST)


def test_frames_are_small_before_the_login_and_larger_after_it(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, LOGIN)) as stranger:
        stranger.send_raw(bytes(5_000))
        assert stranger.closed()
    with FramePeer(port_of(cluster, LOGIN)) as peer:
        peer.login("root")
        assert peer.call(produce("data", bytes(1_000_000)), 9).responses[0].partition_responses[0].error_code == 0
        peer.socket.sendall((2_000_001).to_bytes(4, "big"))
        assert peer.closed()


def test_before_the_login_nothing_but_the_login_is_served(cluster: Cluster) -> None:
    for request, version in ((MetadataRequest(), 9), (produce("data"), 9), (fetch("data", 0), 12)):
        with FramePeer(port_of(cluster, LOGIN)) as stranger:
            assert stranger.call(ApiVersionsRequest(), 0).api_keys
            stranger.send(request, version)
            with pytest.raises(ConnectionError):
                stranger.receive(request, version)


def test_bytes_that_are_no_tls_close_the_connection(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, "SASL_SSL")) as peer:
        peer.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert peer.closed()
    with FramePeer(port_of(cluster, "SASL_SSL"), ca=cluster.files.ca) as peer:
        assert peer.call(ApiVersionsRequest(), 0).error_code == 0


def test_a_client_that_trusts_another_authority_hurts_nobody(cluster: Cluster) -> None:
    stranger = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", port_of(cluster, "SASL_SSL")), 20) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        stranger.wrap_socket(plain, server_hostname="127.0.0.1")
    with FramePeer(port_of(cluster, "SASL_SSL"), ca=cluster.files.ca) as peer:
        assert peer.call(ApiVersionsRequest(), 0).error_code == 0


def test_no_connection_is_left_behind(cluster: Cluster) -> None:
    """Every test before this one has closed its connections, well or badly: the node counts none."""

    async def count(_: object) -> int:
        return cluster.node.limits.count()

    until(lambda: cluster.run(count), lambda left: left == 0)
