"""A node while it runs: settings changed, certificates replaced, quotas, a disk that fails, measurements, a restart."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from barnabas.model.topic_partition import TopicPartition as Tp
from barnabas.net.dev_ca import DevCa
from barnabas.testing.cluster import Cluster
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, encode_batch
from tests.clients.nodes import until

from .frames import LIMIT_S, LOGIN, FramePeer, port_of, several_listeners
from .requests import build

BROKER, LOGGER, CLIENT = 4, 8, "frames"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = several_listeners(barnabas__metrics__listener=f"http://127.0.0.1:{free_ports(1)[0]}")
    with Cluster(tmp_path_factory.mktemp("operations"), settings) as found:
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


def ask(cluster: Cluster, read: Callable[[], Any]) -> Any:
    """Give what `read` gives on the node's own loop."""

    async def call(_: object) -> Any:
        return read()

    return cluster.run(call)


def alter(root: FramePeer, kind: int, name: str, **values: str | None) -> tuple[int, str | None]:
    """Set, or with None take back; dots are written as `__`."""
    configs = [
        {"name": key.replace("__", "."), "config_operation": 0 if value is not None else 1, "value": value}
        for key, value in values.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = root.call(build(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource])).responses[0]
    return answer.error_code, answer.error_message


def quota(root: FramePeer, kind: str, name: str | None, key: str, value: float) -> None:
    """Set a quota, and see it in force: the broker takes it up a moment after the controller has answered."""
    entry = {"entity": [{"entity_type": kind, "entity_name": name}], "ops": [{"key": key, "value": value}]}
    assert root.call(build(ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry])).entries[0].error_code == 0
    asked = {"entity_type": kind, "match_type": 1 if name is None else 0, "match": name}
    while not any(
        each.key == key and each.value == value
        for entity in root.call(build(ApiKey.DESCRIBE_CLIENT_QUOTAS, components=[asked], strict=True)).entries or []
        for each in entity.values
    ):
        pass


def produced(topic: str, size: int) -> Any:
    batch = memoryview(encode_batch([Record(0, time.time_ns() // 1_000_000, None, bytes(size))]))
    return build(
        ApiKey.PRODUCE, acks=1, topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    )


def fetched(topic: str, offset: int = 0, wait_ms: int = 0) -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return build(ApiKey.FETCH, max_wait_ms=wait_ms, min_bytes=1, topics=[{"topic": topic, "partitions": [partition]}])


def test_defaults_of_the_cluster_and_of_the_broker_are_taken_up(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("a")
    cluster.create_topic("own", retention__ms="777")

    def retention(topic: str) -> int:
        def read() -> int:
            found = cluster.node.log_dirs.get(Tp(topic, 0))
            assert found is not None
            return found.config.retention_ms

        return int(ask(cluster, read))

    assert alter(root, BROKER, "", log__retention__ms="5000") == (0, None)
    assert until(lambda: retention("a"), lambda ms: ms == 5_000)
    assert alter(root, BROKER, "1", log__retention__ms="6000") == (0, None)
    assert until(lambda: retention("a"), lambda ms: ms == 6_000)
    assert retention("own") == 777
    cluster.create_topic("younger")
    assert retention("younger") == 6_000
    assert alter(root, BROKER, "1", log__retention__ms=None) == (0, None)
    assert alter(root, BROKER, "", log__retention__ms=None) == (0, None)
    assert until(lambda: retention("a"), lambda ms: ms == 7 * 24 * 3_600_000)


def test_settings_that_cannot_be_changed_while_running_are_refused(cluster: Cluster, root: FramePeer) -> None:
    for values in ({"process__roles": "broker"}, {"log__dirs": "/elsewhere"}, {"node__id": "2"}):
        assert alter(root, BROKER, "1", **values)[0] == ErrorCode.INVALID_REQUEST
    assert alter(root, BROKER, "", log__retention__ms="soon")[0] == ErrorCode.INVALID_REQUEST
    assert alter(root, BROKER, "9", log__retention__ms="5000")[0] != 0


def test_loggers_change_their_level_and_go_back(cluster: Cluster, root: FramePeer) -> None:
    logger = logging.getLogger("kafka.authorizer.logger")
    before = logger.level
    try:
        assert alter(root, LOGGER, "1", kafka__authorizer__logger="TRACE") == (0, None)
        assert logger.level == 5
        assert alter(root, LOGGER, "1", kafka__authorizer__logger="LOUD")[0] != 0
        assert alter(root, LOGGER, "1", kafka__authorizer__logger=None) == (0, None)
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(before)


def test_another_keystore_is_taken_up_by_new_connections(cluster: Cluster, root: FramePeer, tmp_path: Path) -> None:
    other = DevCa.create()
    other.save(tmp_path / "ca.key.pem", tmp_path / "ca.pem")
    (tmp_path / "server.pem").write_bytes(other.issue_server().store)
    port = port_of(cluster, "SASL_SSL")
    key = "listener__name__sasl_ssl__ssl__keystore__location"
    with FramePeer(port, ca=cluster.files.ca) as old:
        assert alter(root, BROKER, "1", **{key: str(tmp_path / "server.pem")}) == (0, None)
        with FramePeer(port, ca=tmp_path / "ca.pem") as young:
            assert young.call(build(ApiKey.API_VERSIONS), 0).error_code == 0
        with pytest.raises(ssl.SSLCertVerificationError):
            FramePeer(port, ca=cluster.files.ca)
        assert old.call(build(ApiKey.API_VERSIONS), 0).error_code == 0
        assert alter(root, BROKER, "1", **{key: None}) == (0, None)
    with FramePeer(port, ca=cluster.files.ca) as again:
        assert again.call(build(ApiKey.API_VERSIONS), 0).error_code == 0


def test_a_keystore_that_is_none_leaves_the_old_one(cluster: Cluster, root: FramePeer, tmp_path: Path) -> None:
    (tmp_path / "rubbish.pem").write_text("rubbish")
    alter(root, BROKER, "1", listener__name__sasl_ssl__ssl__keystore__location=str(tmp_path / "rubbish.pem"))
    with FramePeer(port_of(cluster, "SASL_SSL"), ca=cluster.files.ca) as peer:
        assert peer.call(build(ApiKey.API_VERSIONS), 0).error_code == 0
    alter(root, BROKER, "1", listener__name__sasl_ssl__ssl__keystore__location=None)


@pytest.mark.slow
def test_a_producer_past_its_quota_is_told_and_kept_waiting(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("a")
    quota(root, "client-id", CLIENT, "producer_byte_rate", 100_000)
    waits = [root.call(produced("a", 200_000), 9).throttle_time_ms for _ in range(7)]
    begun = time.monotonic()
    waits.append(root.call(produced("a", 200_000), 9).throttle_time_ms)
    assert waits[0] == 0
    assert waits[-1] > 100
    root.call(build(ApiKey.METADATA, topics=[]), 9)
    assert time.monotonic() - begun > waits[-1] / 1000 * 0.9, "nothing more is read from it for that long"


@pytest.mark.slow
def test_a_consumer_past_its_quota_gets_nothing_for_a_while(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("a")
    root.call(produced("a", 300_000), 9)
    quota(root, "client-id", CLIENT, "consumer_byte_rate", 100_000)
    answers = [root.call(fetched("a"), 12) for _ in range(6)]
    throttled = next(a for a in answers if a.throttle_time_ms)
    assert throttled is not answers[0]
    assert not throttled.responses or not throttled.responses[0].partitions[0].records


@pytest.mark.slow
def test_real_clients_see_that_they_are_throttled(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("a")
    quota(root, "user", "alice", "producer_byte_rate", 50_000)
    alice = cluster.as_user("alice").allow("write", "topic", "a")
    seen: list[float] = []
    settings = {**alice.librdkafka, "throttle_cb": lambda event: seen.append(event.throttle_time)}
    producer = Producer({**settings, "linger.ms": "0"})
    for _ in range(6):
        producer.produce("a", bytes(200_000))
        producer.poll(0.05)
    until(lambda: producer.poll(0.05) or seen, bool)
    assert max(seen) > 0
    quota(root, "user", "alice", "producer_byte_rate", 1e12)
    assert producer.flush(LIMIT_S) == 0


@pytest.mark.slow
def test_waiting_is_no_work_and_costs_no_request_quota(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("a")
    # Of the ten seconds looked at, the fetches wait for three; a machine that stands still works all the while.
    quota(root, "client-id", CLIENT, "request_percentage", 25)
    for _ in range(3):
        assert root.call(fetched("a", wait_ms=1_000), 12).throttle_time_ms == 0


@pytest.mark.slow
def test_work_past_the_request_quota_is_kept_waiting(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("a", partitions=50)
    # 0.01 % of the ten seconds looked at is a millisecond: a quick machine answers four times in less.
    quota(root, "client-id", CLIENT, "request_percentage", 0.0001)
    waits = [root.call(build(ApiKey.METADATA, topics=None), 9).throttle_time_ms for _ in range(4)]
    assert 0 < max(waits) <= 1_000


@pytest.mark.parametrize(("version", "refused"), [(5, False), (7, True)])
def test_changes_past_their_quota_wait_or_are_refused(
    cluster: Cluster, root: FramePeer, version: int, refused: bool
) -> None:
    client = f"version-{version}"
    quota(root, "client-id", client, "controller_mutation_rate", 1)
    outcomes, waits = [], []
    for i in range(4):
        topic = {"name": f"t{version}-{i}", "num_partitions": 9, "replication_factor": 1}
        with FramePeer(port_of(cluster, LOGIN)) as peer:
            peer.login("root")
            answer = peer.call(
                build(ApiKey.CREATE_TOPICS, topics=[topic], timeout_ms=10_000), version, client_id=client
            )
        outcomes.append(answer.topics[0].error_code)
        waits.append(answer.throttle_time_ms)
    assert outcomes[0] == 0
    assert (outcomes[-1] == ErrorCode.THROTTLING_QUOTA_EXCEEDED) is refused
    assert waits[-1] > 0


def test_measurements_are_served_over_http(cluster: Cluster, root: FramePeer) -> None:
    cluster.create_topic("measured")
    root.call(produced("measured", 1_000), 9)
    assert cluster.node.metrics_server is not None
    connection = http.client.HTTPConnection("127.0.0.1", cluster.node.metrics_server.port, timeout=LIMIT_S)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    assert 'topic="measured"' in text
    assert "kafka_coordinator_group_groupmetadatamanager_numgroups" in text.lower()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert len({(s.name, frozenset(s.labels.items())) for s in samples}) == len(samples) > 500
    connection.request("GET", "/jmx?qry=kafka.coordinator.group:*")
    beans = {bean["name"]: bean for bean in json.loads(connection.getresponse().read())["beans"]}
    assert "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets" in beans
    assert "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsStable" in beans
    connection.close()


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with Cluster(tmp_path, several_listeners()) as cluster:
        cluster.create_topic("a", partitions=2, retention__ms="777000")
        alice = cluster.as_user("alice").allow("write", "topic", "a").allow("read", "topic", "a")
        alice.allow("read", "group", "g")
        with FramePeer(port_of(cluster, LOGIN)) as root:
            root.login("root")
            quota(root, "user", "alice", "producer_byte_rate", 1e9)
            assert alter(root, BROKER, "", log__retention__ms="5000") == (0, None)
        producer = Producer(alice.librdkafka)
        producer.produce("a", b"kept", partition=1)
        assert producer.flush(LIMIT_S) == 0
        consumer = Consumer({**alice.librdkafka, "group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition("a", 1, 0)])
        message = consumer.poll(LIMIT_S)
        assert message is not None
        consumer.commit(message=message, asynchronous=False)
        consumer.close()
        before = cluster.node.image()
        cluster.stop()
        cluster.start()
        after = cluster.node.image()
        assert [(n, t.id, len(t.partitions)) for n, t in sorted(after.topics.by_name.items())] == [
            (n, t.id, len(t.partitions)) for n, t in sorted(before.topics.by_name.items())
        ]
        for part in ("configs", "acls", "scram", "client_quotas", "features"):
            assert getattr(after, part) == getattr(before, part), part
        consumer = Consumer({**alice.librdkafka, "group.id": "g"})
        assert consumer.committed([TopicPartition("a", 1)], timeout=LIMIT_S)[0].offset == 1
        consumer.assign([TopicPartition("a", 1, 0)])
        again = consumer.poll(LIMIT_S)
        assert again is not None
        assert again.value() == b"kept"
        consumer.close()


def test_a_failed_disk_takes_its_partitions_along_and_no_others(tmp_path: Path) -> None:
    settings = several_listeners(log__dirs=f"{tmp_path / 'one'},{tmp_path / 'two'}")
    with Cluster(tmp_path / "node", settings) as cluster:
        cluster.create_topic("a", partitions=6)
        broken = tmp_path / "two"

        def here() -> dict[int, Path]:
            return {p.tp.partition: p.log.dir.parent for p in cluster.node.partitions if p.tp.topic == "a"}

        places = ask(cluster, here)
        assert set(places.values()) == {tmp_path / "one", broken}
        ask(cluster, lambda: cluster.node.log_dirs.fail(broken, OSError(5, "Input/output error")))
        with FramePeer(port_of(cluster, LOGIN)) as root:
            root.login("root")
            for partition, directory in places.items():
                batch = memoryview(encode_batch([Record(0, time.time_ns() // 1_000_000, None, b"x")]))
                data = [{"name": "a", "partition_data": [{"index": partition, "records": batch}]}]
                answer = root.call(build(ApiKey.PRODUCE, acks=1, topic_data=data), 9)
                code = answer.responses[0].partition_responses[0].error_code
                assert (code == 0) is (directory != broken), (partition, ErrorCode(code).name)
            described = until(
                lambda: root.call(build(ApiKey.METADATA, topics=[{"name": "a"}])).topics[0],
                lambda t: all((p.leader_id == -1) is (places[p.partition_index] == broken) for p in t.partitions),
            )
            assert described.error_code == 0


def test_without_its_metadata_a_node_stops(tmp_path: Path) -> None:
    settings = several_listeners(log__dirs=f"{tmp_path / 'one'},{tmp_path / 'two'}")
    with Cluster(tmp_path / "node", settings) as cluster:
        ask(cluster, lambda: cluster.node.log_dirs.fail(tmp_path / "one", OSError(5, "Input/output error")))
        assert "metadata" in str(until(lambda: cluster.node.failure, bool))
