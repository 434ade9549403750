"""The authorizer's rules as clients meet them: real producers, consumers and admin requests against a node."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.testing.cluster import Cluster
from barnabas.testing.users import User
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode

from .frames import LOGIN, OPEN, FramePeer, port_of, several_listeners
from .requests import build

REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED
PARTITION_LIMIT_S = 60


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("rules"), several_listeners()) as found:
        yield found


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.reset()


def write(user: User, topic: str) -> int:
    """Produce one record; gives the error's code, 0 when it was taken."""
    codes: list[int] = []
    producer = Producer({**user.librdkafka, "message.timeout.ms": PARTITION_LIMIT_S * 1000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    producer.flush(PARTITION_LIMIT_S)
    return codes[0]


def read(user: User, topic: str, group: str = "g") -> int:
    """Read the first record, and commit; gives the first error's code, 0 when all went well."""
    # Without commits of its own, which librdkafka would wait for at the end although the group is refused.
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**user.librdkafka, **settings})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(PARTITION_LIMIT_S)
        if message is None:
            return KafkaError._TIMED_OUT
        error = message.error()
        if error is not None:
            return int(error.code())
        consumer.commit(message=message, asynchronous=False)
    except KafkaException as e:
        return int(e.args[0].code())
    finally:
        consumer.close()
    return 0


def sees(user: User, topic: str) -> bool:
    return topic in AdminClient(user.librdkafka).list_topics(timeout=PARTITION_LIMIT_S).topics


@pytest.mark.requirement("A-02")
def test_one_deny_beats_every_allow(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    alice = cluster.as_user("alice")
    for name, prefixed in (("orders", False), ("ord", True), ("*", False)):
        alice.allow("all", "topic", name, prefixed=prefixed)
    alice.allow("read", "group", "g")
    assert write(alice, "orders") == 0
    alice.deny("write", "topic", "o", prefixed=True)
    assert write(alice, "orders") == REFUSED
    assert read(alice, "orders") == 0
    alice.deny("read", "topic", "*")
    assert read(alice, "orders") == REFUSED


@pytest.mark.requirement("A-03")
@pytest.mark.parametrize(("name", "prefixed"), [("orders", False), ("ord", True), ("*", False)])
def test_every_kind_of_pattern_counts_for_topics_and_groups(cluster: Cluster, name: str, prefixed: bool) -> None:
    cluster.create_topic("orders")
    cluster.create_topic("invoices")
    group = name if name == "*" else name.replace("ord", "read", 1)
    alice = cluster.as_user("alice").allow("write", "topic", name, prefixed=prefixed)
    alice.allow("read", "topic", name, prefixed=prefixed).allow("read", "group", group, prefixed=prefixed)
    assert write(alice, "orders") == 0
    assert read(alice, "orders", "readers") == 0
    assert (write(alice, "invoices") == 0) is (name == "*")
    with FramePeer(port_of(cluster, LOGIN)) as peer:
        peer.login("alice")
        answer = peer.call(build(ApiKey.OFFSET_FETCH, groups=[{"group_id": "others", "topics": None}]))
    assert answer.groups[0].error_code == (0 if name == "*" else ErrorCode.GROUP_AUTHORIZATION_FAILED)


@pytest.mark.requirement("A-03")
def test_rights_on_the_cluster_and_on_users_count(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, LOGIN)) as alice:
        alice.login("alice")
        ids = build(ApiKey.INIT_PRODUCER_ID, transactional_id=None)
        assert alice.call(ids).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        User(cluster, "alice", "").allow("idempotent_write", "cluster", "kafka-cluster")
        assert alice.call(ids).error_code == 0
        named = build(ApiKey.INIT_PRODUCER_ID, transactional_id="t")
        assert alice.call(named).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.requirement("A-04")
def test_hosts_count_by_address_and_never_by_name(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    alice = cluster.as_user("alice").allow("write", "topic", "orders", host="localhost")
    assert write(alice, "orders") == REFUSED
    alice.allow("write", "topic", "orders", host="127.0.0.2")
    assert write(alice, "orders") == REFUSED
    alice.allow("write", "topic", "orders", host="127.0.0.1")
    assert write(alice, "orders") == 0
    alice.deny("write", "topic", "orders", host="127.0.0.1")
    assert write(alice, "orders") == REFUSED


@pytest.mark.requirement("A-04")
def test_a_rule_for_everybody_is_one_for_each(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    User(cluster, "*", "").allow("write", "topic", "orders")
    assert write(cluster.as_user("alice"), "orders") == 0
    assert write(cluster.as_user("Alice"), "orders") == 0
    User(cluster, "alice", "").deny("write", "topic", "orders")
    assert write(cluster.as_user("alice"), "orders") == REFUSED
    assert write(cluster.as_user("Alice"), "orders") == 0


@pytest.mark.requirement("A-05")
@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter", "all", "describe"])
def test_who_may_do_something_may_see_it(cluster: Cluster, operation: str) -> None:
    cluster.create_topic("orders")
    cluster.create_topic("hidden")
    alice = cluster.as_user("alice").allow(operation, "topic", "orders")
    assert sees(alice, "orders")
    assert not sees(alice, "hidden")


@pytest.mark.requirement("A-05")
def test_a_deny_implies_nothing_beyond_itself_but_for_all(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    alice = cluster.as_user("alice").allow("write", "topic", "orders").deny("read", "topic", "orders")
    alice.allow("read", "group", "g")
    assert sees(alice, "orders")
    assert write(alice, "orders") == 0
    assert read(alice, "orders") == REFUSED
    alice.deny("all", "topic", "orders")
    assert not sees(alice, "orders")


@pytest.mark.requirement("A-05")
def test_who_may_alter_configs_may_read_them(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    asked = build(ApiKey.DESCRIBE_CONFIGS, resources=[{"resource_type": 2, "resource_name": "orders"}])
    with FramePeer(port_of(cluster, LOGIN)) as alice:
        alice.login("alice")
        assert alice.call(asked).results[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        User(cluster, "alice", "").allow("describe", "topic", "orders")
        assert alice.call(asked).results[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        User(cluster, "alice", "").allow("alter_configs", "topic", "orders")
        assert alice.call(asked).results[0].error_code == 0


@pytest.mark.requirement("A-06")
def test_super_users_pass_every_deny_and_their_names_may_hold_commas(tmp_path: Path) -> None:
    name = "CN=ops,O=Acme"
    with Cluster(tmp_path, {"super.users": f"User:admin; User:{name}"}) as cluster:
        cluster.create_topic("orders")
        User(cluster, "*", "").deny("all", "topic", "*")
        assert write(cluster.as_user(name), "orders") == 0
        assert write(cluster.as_user("CN=ops"), "orders") == REFUSED
        assert write(cluster.admin, "orders") == 0


@pytest.mark.requirement("A-07", "H-13")
def test_without_any_rule_a_topic_is_open_where_the_setting_says_so(tmp_path: Path) -> None:
    with Cluster(tmp_path, {"allow.everyone.if.no.acl.found": "true"}) as cluster:
        for topic in ("open", "ruled", "prefix-ruled"):
            cluster.create_topic(topic)
        alice, bob = cluster.as_user("alice"), cluster.as_user("bob")
        assert [write(alice, topic) for topic in ("open", "ruled", "prefix-ruled")] == [0, 0, 0]
        bob.allow("read", "topic", "ruled")
        bob.allow("read", "topic", "prefix-", prefixed=True)
        assert [write(alice, topic) for topic in ("open", "ruled", "prefix-ruled")] == [0, REFUSED, REFUSED]
        bob.allow("read", "topic", "*")
        assert write(alice, "open") == REFUSED


def creation(**changes: object) -> dict[str, object]:
    good = {
        "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:alice",
        "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    return {**good, **changes}


@pytest.mark.requirement("A-38")
def test_each_bad_rule_is_refused_by_itself(cluster: Cluster) -> None:
    bad = [
        creation(resource_type=0),
        creation(resource_type=1),
        creation(operation=0),
        creation(operation=1),
        creation(permission_type=0),
        creation(permission_type=1),
        creation(resource_pattern_type=0),
        creation(resource_pattern_type=1),
        creation(resource_pattern_type=2),
        creation(resource_name=""),
        creation(resource_type=4, resource_name="my-cluster", operation=5),
    ]
    with FramePeer(port_of(cluster, LOGIN)) as root:
        root.login("root")
        for one in bad:
            answer = root.call(build(ApiKey.CREATE_ACLS, creations=[creation(), one]))
            assert [r.error_code for r in answer.results] == [0, ErrorCode.INVALID_REQUEST], one
            assert answer.results[1].error_message
    assert len(cluster.node.image().acls.by_id) == 1


ANYTHING = {
    "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1,
    "resource_name_filter": None, "principal_filter": None, "host_filter": None,
}  # fmt: skip
ACL_REQUESTS = (
    build(ApiKey.DESCRIBE_ACLS, **ANYTHING),
    build(ApiKey.CREATE_ACLS, creations=[creation()]),
    build(ApiKey.DELETE_ACLS, filters=[ANYTHING]),
)


def codes_of_acl_requests(peer: FramePeer) -> list[int]:
    described, created, deleted = (peer.call(request) for request in ACL_REQUESTS)
    return [described.error_code, created.results[0].error_code, deleted.filter_results[0].error_code]


@pytest.mark.requirement("A-39")
def test_without_an_authorizer_there_are_no_rules(tmp_path: Path) -> None:
    with Cluster(tmp_path, several_listeners(authorizer__class__name="")) as bare:
        with FramePeer(port_of(bare, OPEN)) as anybody:
            assert codes_of_acl_requests(anybody) == [ErrorCode.SECURITY_DISABLED] * 3
        bare.create_topic("orders")
        assert write(bare.as_user("alice"), "orders") == 0


@pytest.mark.requirement("A-39")
def test_rules_are_read_and_written_by_those_who_may(cluster: Cluster) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with FramePeer(port_of(cluster, LOGIN)) as alice:
        alice.login("alice")
        assert codes_of_acl_requests(alice) == [refused] * 3
        User(cluster, "alice", "").allow("describe", "cluster", "kafka-cluster")
        assert codes_of_acl_requests(alice) == [0, refused, refused]
        User(cluster, "alice", "").allow("alter", "cluster", "kafka-cluster")
        assert codes_of_acl_requests(alice) == [0, 0, 0]


@pytest.mark.requirement("H-16")
def test_listing_groups_with_few_rights_writes_no_refusals(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with FramePeer(port_of(cluster, LOGIN)) as root, FramePeer(port_of(cluster, LOGIN)) as alice:
        root.login("root")
        alice.login("alice")
        cluster.create_topic("orders")
        commit = {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 0}]}
        for i in range(5):
            code = -1
            while code:
                root.call(build(ApiKey.FIND_COORDINATOR, coordinator_keys=[f"g{i}"]))
                answer = root.call(build(ApiKey.OFFSET_COMMIT, group_id=f"g{i}", topics=[commit]), 9)
                code = answer.topics[0].partitions[0].error_code
        User(cluster, "alice", "").allow("describe", "group", "g3")
        with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
            assert [g.group_id for g in alice.call(build(ApiKey.LIST_GROUPS)).groups] == ["g3"]
        assert [r for r in caplog.records if r.name == "kafka.authorizer.logger"] == []
        with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
            alice.call(build(ApiKey.DESCRIBE_GROUPS, groups=["g1"]))
        assert [r for r in caplog.records if r.name == "kafka.authorizer.logger"]


@pytest.mark.requirement("H-23")
def test_nobody_creates_the_metadata_log_as_a_topic(cluster: Cluster) -> None:
    topic = {"name": "__cluster_metadata", "num_partitions": 1, "replication_factor": 1}
    with FramePeer(port_of(cluster, LOGIN)) as root:
        root.login("root")
        answer = root.call(build(ApiKey.CREATE_TOPICS, topics=[topic]))
    assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST
    assert "__cluster_metadata" in answer.topics[0].error_message
