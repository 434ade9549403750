"""What a running node shows of its clients, its partitions and itself, under Kafka's names."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from barnabas.model.topic_partition import TopicPartition as Tp
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, encode_batch
from tests.clients.nodes import until

from .frames import LOGIN, FramePeer, port_of, several_listeners
from .requests import build

pytestmark = pytest.mark.slow

TOPICS = "kafka.server:type=BrokerTopicMetrics,name="
LISTENER = f"kafka.server:type=socket-server-metrics,listener={LOGIN},networkProcessor=0"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("metrics"), several_listeners()) as found:
        yield found


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.reset()


@pytest.fixture
def root(cluster: Cluster) -> Iterator[FramePeer]:
    with FramePeer(port_of(cluster, LOGIN)) as peer:
        peer.login("root")
        yield peer


def beans(cluster: Cluster, pattern: str) -> dict[str, dict[str, Any]]:
    """Give what the node shows, as seen on its own loop."""

    async def look(_: object) -> dict[str, dict[str, Any]]:
        return {name: dict(attributes) for name, attributes in cluster.node.metrics.registry.values(pattern)}

    found: dict[str, dict[str, Any]] = cluster.run(look)
    return found


def bean(cluster: Cluster, name: str) -> dict[str, Any]:
    return beans(cluster, name).get(name, {})


def count(cluster: Cluster, name: str) -> int:
    return int(bean(cluster, name).get("Count", 0))


def batch(size: int = 10, key: bytes | None = None) -> bytearray:
    return bytearray(encode_batch([Record(0, time.time_ns() // 1_000_000, key, bytes(size))]))


def produce(root: FramePeer, topic: str, records: bytearray) -> int:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": memoryview(records)}]}]
    answer = root.call(build(ApiKey.PRODUCE, acks=1, topic_data=data), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def damaged() -> bytearray:
    records = batch()
    records[-1] ^= 1
    return records


def beginning_elsewhere() -> bytearray:
    records = batch()
    records[7] = 1
    return records


def of_another_format() -> bytearray:
    records = batch()
    records[16] = 1
    return records


@pytest.mark.parametrize(
    ("records", "name", "number"),
    [
        (damaged(), "InvalidMessageCrcRecordsPerSec", 1),
        (beginning_elsewhere(), "InvalidOffsetOrSequenceRecordsPerSec", 1),
        (of_another_format(), "InvalidMagicNumberRecordsPerSec", 1),
        (batch(), "NoKeyCompactedTopicRecordsPerSec", 1),
        (batch(1_000, b"key"), "BytesRejectedPerSec", len(batch(1_000, b"key"))),
    ],
    ids=["crc", "offset", "magic", "no-key", "too-large"],
)
def test_records_that_are_refused_are_counted_by_the_reason(
    cluster: Cluster, root: FramePeer, records: bytearray, name: str, number: int
) -> None:
    cluster.create_topic("strict", cleanup__policy="compact", max__message__bytes="500")
    before = count(cluster, TOPICS + name)
    assert produce(root, "strict", bytearray(records)) != 0
    assert count(cluster, TOPICS + name) - before == number
    assert count(cluster, TOPICS + "TotalProduceRequestsPerSec,topic=strict") == 1


def test_the_sums_over_topics_keep_what_deleted_ones_have_counted(cluster: Cluster, root: FramePeer) -> None:
    before = count(cluster, TOPICS + "MessagesInPerSec")
    cluster.create_topic("passing")
    assert produce(root, "passing", batch()) == 0
    assert count(cluster, TOPICS + "MessagesInPerSec,topic=passing") == 1
    cluster.reset()
    assert until(lambda: beans(cluster, TOPICS + "*topic=passing"), lambda found: not found) == {}
    assert count(cluster, TOPICS + "MessagesInPerSec") == before + 1


def test_each_partition_and_its_log_are_shown(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("shown", partitions=2, retention__bytes="10000")
    assert produce(root, "shown", batch(1_000)) == 0
    tags = ",topic=shown,partition=0"
    partition = {
        name.split("name=")[1].removesuffix(tags): attributes["Value"]
        for name, attributes in (
            beans(cluster, "kafka.cluster:type=Partition,*" + tags) | beans(cluster, "kafka.log:type=Log,*" + tags)
        ).items()
    }
    size = partition.pop("Size")
    assert size > 1_000
    assert partition.pop("RetentionSizeInPercent") == size * 100 // 10_000
    assert partition == {
        "AtMinIsr": 1,
        "InSyncReplicasCount": 1,
        "LastStableOffsetLag": 0,
        "LogEndOffset": 1,
        "LogStartOffset": 0,
        "NumLogSegments": 1,
        "ReplicasCount": 1,
        "UnderMinIsr": 0,
        "UnderReplicated": 0,
    }
    assert bean(cluster, "kafka.log:type=Log,name=Size,topic=shown,partition=1") == {"Value": 0}
    assert bean(cluster, "kafka.log:type=Log,name=LogEndOffset,topic=__cluster_metadata,partition=0")["Value"] > 0


def everybody_has_left(listener: Mapping[str, Any]) -> bool:
    """Say whether all connections are closed, by what was counted of a listener."""
    return bool(listener["connection-close-total"] == listener["connection-creation-total"])


def test_logins_connections_and_bytes_of_a_listener_are_counted(cluster: Cluster) -> None:
    before = until(lambda: bean(cluster, LISTENER), everybody_has_left)
    with FramePeer(port_of(cluster, LOGIN)) as peer:
        peer.login("root")
        metadata = peer.call(build(ApiKey.METADATA, topics=[]), 9)
        assert metadata.brokers
        during = bean(cluster, LISTENER)
        assert during["connection-count"] == before["connection-count"] + 1
        assert during["request-total"] == before["request-total"] + 1
        assert during["incoming-byte-total"] > before["incoming-byte-total"]
        assert during["outgoing-byte-total"] > before["outgoing-byte-total"]
        software = f"kafka.server:type=socket-server-metrics,clientSoftwareName=*listener={LISTENER.split('=')[2]}"
        assert sum(found["connections"] for found in beans(cluster, software + "*").values()) >= 1
    with FramePeer(port_of(cluster, LOGIN)) as stranger:
        assert stranger.login("root", "guess").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert stranger.closed()
    after = until(lambda: bean(cluster, LISTENER), everybody_has_left)
    for name, more in (
        ("connection-creation", 2),
        ("connection-close", 2),
        ("successful-authentication", 1),
        ("failed-authentication", 1),
    ):
        assert after[f"{name}-total"] - before[f"{name}-total"] == more, name


def test_a_tls_client_is_shown_with_its_cipher(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, "SASL_SSL"), ca=cluster.files.ca):
        ciphers = until(
            lambda: beans(cluster, "kafka.server:type=socket-server-metrics,cipher=*listener=SASL_SSL*"), bool
        )
    assert all("protocol=TLSv1.3" in name and found["connections"] >= 1 for name, found in ciphers.items())


def test_a_node_says_what_it_is_and_how_idle(cluster: Cluster) -> None:
    server = "kafka.server:type=KafkaServer,name="
    assert bean(cluster, server + "BrokerState") == {"Value": 3}
    assert bean(cluster, server + "ClusterId") == {"Value": cluster.node.cluster_id}
    assert bean(cluster, "kafka.server:type=ControllerServer,name=ClusterId") == {"Value": cluster.node.cluster_id}
    for name in ("RequestHandler", "BrokerRequestHandler", "ControllerRequestHandler"):
        idle = bean(cluster, f"kafka.server:type=KafkaRequestHandlerPool,name={name}AvgIdlePercent")
        assert 0 <= idle["OneMinuteRate"] <= 1
    assert 0 <= bean(cluster, "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent")["Value"] <= 1


def test_a_fetch_that_finds_nothing_in_its_time_expires(cluster: Cluster, root: FramePeer) -> None:
    expires = "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType="
    cluster.create_topic("empty")
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    wanted = build(ApiKey.FETCH, max_wait_ms=1, min_bytes=1, topics=[{"topic": "empty", "partitions": [partition]}])
    before = count(cluster, expires + "consumer")
    assert root.call(wanted, 11).error_code == 0
    assert count(cluster, expires + "consumer") - before == 1
    assert count(cluster, expires + "follower") == 0


def test_a_fetch_counts_once_however_often_it_looks(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("growing")
    records = len(batch(100))
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "growing", "partitions": [partition]}]
    wanted = build(ApiKey.FETCH, max_wait_ms=20_000, min_bytes=3 * records, topics=topics)
    waits = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Fetch"
    with FramePeer(port_of(cluster, LOGIN)) as reader:
        reader.login("root")
        reader.send(wanted, 11)
        assert until(lambda: bean(cluster, waits)["Value"], lambda size: size == 1)
        for _ in range(3):
            assert produce(root, "growing", batch(100)) == 0
        _, answer = reader.receive(wanted, 11)
    assert len(answer.responses[0].partitions[0].records) == 3 * records
    assert count(cluster, TOPICS + "TotalFetchRequestsPerSec,topic=growing") == 1
    assert count(cluster, TOPICS + "BytesOutPerSec,topic=growing") == 3 * records


def test_the_cleaner_says_what_it_has_done_and_has_to_do(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("compacted", cleanup__policy="compact", min__cleanable__dirty__ratio="0.1")
    for _ in range(4):
        assert produce(root, "compacted", batch(1_000, b"key")) == 0

    async def roll_and_clean(_: object) -> None:
        found = cluster.node.log_dirs.get(Tp("compacted", 0))
        assert found is not None
        found.roll()
        assert len(cluster.node.log_dirs.clean_pass()) == 1

    manager, cleaner = "kafka.log:type=LogCleanerManager,name=", "kafka.log:type=LogCleaner,name="
    cluster.run(roll_and_clean)
    assert bean(cluster, manager + "max-dirty-percent") == {"Value": 0}
    assert bean(cluster, manager + "time-since-last-run-ms")["Value"] >= 0
    assert bean(cluster, cleaner + "cleaner-recopy-percent") == {"Value": 25}
    assert bean(cluster, cleaner + "max-compaction-delay-secs") == {"Value": 0}
    directory = str(cluster.node.log_dirs.directories[0].path)
    for name in ("uncleanable-partitions-count", "uncleanable-bytes"):
        assert bean(cluster, f"{manager}{name},logDirectory={directory}") == {"Value": 0}
