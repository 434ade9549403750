"""Forwarding as clients and operators see it, in a cluster of three controllers and two brokers (KIP-590)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from barnabas.core.forwarding.envelope import wrap
from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.core.groups.partitioning import partition_for
from barnabas.core.metadata.image import snapshot_records
from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.metadata.scram import ScramMechanism
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.messages.metadata import MetadataResponse
from tests.server.frames import FramePeer, decoded
from tests.server.requests import build, error_codes

from .in_process import BROKERS, InProcess
from .scripted import client_request

pytestmark = pytest.mark.slow
K = ApiKey
SERDE = DefaultPrincipalSerde()
ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
TOPIC, CLUSTER = 2, 4
"""Resource types of ACLs."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """Give the cluster that these tests share: use names of your own."""
    policy = "tests.forwarding.refuse.RefuseByName"
    # Here nobody is lost, however long the machine stands still.
    with InProcess(
        tmp_path_factory.mktemp("forwarding"),
        create__topic__policy__class__name=policy,
        controller__quorum__fetch__timeout__ms="20000",
        broker__session__timeout__ms="60000",
    ) as found:
        yield found


def topic(name: str, **more: Any) -> dict[str, Any]:
    """Give a topic as CreateTopics wants it."""
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **more}


def make_topic(cluster: InProcess, name: str) -> None:
    """Create a topic and wait until both brokers know it."""
    answer = cluster.ask(1, K.CREATE_TOPICS, topics=[topic(name)], timeout_ms=60_000)
    assert [t.error_code for t in answer.topics] == [0]
    for broker in BROKERS:
        cluster.wait(lambda b=broker: name in cluster.nodes[b].image().topics.by_name, True)  # type: ignore[misc]


def rule(user: str, resource_type: int, name: str, operation: int, host: str = "*") -> dict[str, Any]:
    """Give an allowing ACL as CreateAcls wants it."""
    return {
        "resource_type": resource_type,
        "resource_name": name,
        "principal": f"User:{user}",
        "host": host,
        "operation": operation,
        "permission_type": 3,
    }


def allow(cluster: InProcess, **asked: Any) -> None:
    """Create an ACL and wait until every node has it."""
    wanted = rule(**asked)
    answer = cluster.ask(1, K.CREATE_ACLS, creations=[wanted])
    assert [r.error_code for r in answer.results] == [0]
    binding = AclBinding(
        ResourcePattern(ResourceType(wanted["resource_type"]), wanted["resource_name"], PatternType.LITERAL),
        wanted["principal"],
        wanted["host"],
        AclOperation(wanted["operation"]),
        AclPermissionType(wanted["permission_type"]),
    )
    for node in cluster.nodes.values():
        cluster.wait(lambda n=node: binding in n.image().acls.ids, True)  # type: ignore[misc]


def enveloped(cluster: InProcess, node_id: int, inner: bytes, sender: str = "root", **fields: Any) -> EnvelopeResponse:
    """Send an Envelope to a controller and give its answer."""
    envelope = wrap(inner, ALICE, "192.0.2.9", SERDE)
    for name, value in fields.items():
        setattr(envelope, name, value)
    with cluster.frames(node_id, sender) as peer:
        answer: EnvelopeResponse = peer.call(envelope, 0)
    return answer


def inner(key: ApiKey, version: int | None = None, **fields: Any) -> bytes:
    """Give an encoded request."""
    return client_request(build(key, **fields), version)[1]


def state(cluster: InProcess) -> list[Any]:
    """Give all that a client could have changed."""
    image = cluster.nodes[cluster.active()].image()
    return [r.record for r in snapshot_records(image) if "Registration" not in type(r.record).__name__]


# --- every API, from one broker to the others


def _configs_of(cluster: InProcess, name: str) -> dict[str, str]:
    from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType

    return dict(cluster.nodes[2].image().configs.get(ConfigResource(ConfigResourceType.TOPIC, name)))


def _replicas_of(partition: PartitionRegistration) -> tuple[set[int], bool]:
    """Give who has a partition, and whether that is still to change."""
    return set(partition.replicas), partition.reassigning


def _effects(name: str) -> dict[ApiKey, tuple[dict[str, Any], Callable[[Any], Any], Any]]:
    """Give, by API, a request on the topic `name`, what to read off another broker's metadata, and the outcome."""
    retention = {"name": "retention.ms", "value": "77"}
    config = {"resource_type": 2, "resource_name": name}
    quota = {
        "entity": [{"entity_type": "user", "entity_name": name}],
        "ops": [{"key": "producer_byte_rate", "value": 9.0}],
    }
    user = {"name": name, "mechanism": 2, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 64}
    move = {"name": name, "partitions": [{"partition_index": 0, "replicas": [1, 2]}]}
    return {
        K.ALTER_CONFIGS: (
            {"resources": [{**config, "configs": [retention]}]},
            lambda c: _configs_of(c, name).get("retention.ms"),
            "77",
        ),
        K.INCREMENTAL_ALTER_CONFIGS: (
            {"resources": [{**config, "configs": [{**retention, "value": "78", "config_operation": 0}]}]},
            lambda c: _configs_of(c, name).get("retention.ms"),
            "78",
        ),
        K.CREATE_ACLS: (
            {"creations": [rule(name, TOPIC, name, 3)]},
            lambda c: sum(acl.principal == f"User:{name}" for acl in c.nodes[2].image().acls.by_id.values()),
            1,
        ),
        K.ALTER_CLIENT_QUOTAS: (
            {"entries": [quota]},
            lambda c: any(part.name == name for e in c.nodes[2].image().client_quotas.by_entity for part in e),
            True,
        ),
        K.ALTER_USER_SCRAM_CREDENTIALS: (
            {"upsertions": [user]},
            lambda c: c.nodes[2].image().scram.get(ScramMechanism.of(2), name) is not None,
            True,
        ),
        K.CREATE_PARTITIONS: (
            {"topics": [{"name": name, "count": 3, "assignments": None}], "timeout_ms": 60_000},
            lambda c: len(c.nodes[2].image().topics.by_name[name].partitions),
            3,
        ),
        K.ALTER_PARTITION_REASSIGNMENTS: (
            {"topics": [move], "timeout_ms": 60_000},
            lambda c: _replicas_of(c.nodes[2].image().topics.by_name[name].partitions[0]),
            ({1, 2}, False),
        ),
        K.UPDATE_FEATURES: (
            {
                "feature_updates": [
                    {"feature": "eligible.leader.replicas.version", "max_version_level": 0, "upgrade_type": 2}
                ],
                "timeout_ms": 60_000,
            },
            lambda c: c.nodes[2].image().features.finalized.get("eligible.leader.replicas.version", 0),
            0,
        ),
        K.DELETE_TOPICS: (
            {"topics": [{"name": name}], "timeout_ms": 60_000},
            lambda c: name in c.nodes[2].image().topics.by_name,
            False,
        ),
    }


@pytest.mark.requirement("F-01", "F-02")
@pytest.mark.parametrize("key", list(_effects("")), ids=lambda key: key.name)
def test_a_change_made_at_one_broker_is_seen_at_the_other(cluster: InProcess, key: ApiKey) -> None:
    name = f"effect-{key.name.lower()}"
    make_topic(cluster, name)
    fields, read, wanted = _effects(name)[key]
    assert set(error_codes(cluster.ask(1, key, **fields))) <= {0}
    cluster.wait(lambda: read(cluster), wanted)


@pytest.mark.requirement("F-01")
def test_acls_go_as_they_came(cluster: InProcess) -> None:
    allow(cluster, user="short-lived", resource_type=TOPIC, name="x", operation=3)
    only = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "host_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": "User:short-lived",
        "operation": 1,
    }
    answer = cluster.ask(2, K.DELETE_ACLS, filters=[{**only, "permission_type": 1}])
    assert [len(f.matching_acls) for f in answer.filter_results] == [1]


@pytest.mark.requirement("F-02")
def test_what_only_the_controller_knows_is_asked_of_it(cluster: InProcess) -> None:
    quorum: dict[str, Any] = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    active = cluster.active()
    assert cluster.ask(2, K.DESCRIBE_QUORUM, **quorum).topics[0].partitions[0].leader_id == active
    assert cluster.ask(2, K.LIST_PARTITION_REASSIGNMENTS, topics=None).error_code == 0
    assert cluster.ask(2, K.UNREGISTER_BROKER, broker_id=99).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    make_topic(cluster, "elected")
    topics = [{"topic": "elected", "partitions": [0]}]
    elected = cluster.ask(2, K.ELECT_LEADERS, topic_partitions=topics, timeout_ms=60_000)
    assert set(error_codes(elected)) <= {0, ErrorCode.ELECTION_NOT_NEEDED}


# --- who asks


@pytest.mark.requirement("F-27")
def test_the_clients_own_rights_and_address_count(cluster: InProcess) -> None:
    asked = {"creations": [rule("bob", TOPIC, "somewhere", 3)]}
    denied = cluster.ask(1, K.CREATE_ACLS, user="alice", **asked)
    assert [r.error_code for r in denied.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    allow(cluster, user="alice", resource_type=CLUSTER, name="kafka-cluster", operation=7, host="127.0.0.7")
    for source, wanted in (("127.0.0.7", 0), ("127.0.0.1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)):
        with FramePeer(cluster.ports[1], source=source) as peer:
            peer.login("alice")
            assert [r.error_code for r in peer.call(build(K.CREATE_ACLS, **asked)).results] == [wanted]


@pytest.mark.requirement("F-28")
def test_what_is_allowed_is_done_and_what_is_not_is_refused_in_order(cluster: InProcess) -> None:
    for name in ("mine", "not-mine"):
        make_topic(cluster, name)
    allow(cluster, user="bob", resource_type=TOPIC, name="mine", operation=11)
    change = [{"name": "retention.ms", "value": "5", "config_operation": 0}]
    resources = [{"resource_type": 2, "resource_name": n, "configs": change} for n in ("not-mine", "mine", "nowhere")]
    answer = cluster.ask(1, K.INCREMENTAL_ALTER_CONFIGS, user="bob", resources=resources)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [(r.resource_name, r.error_code) for r in answer.responses] == [
        ("not-mine", refused),
        ("mine", 0),
        ("nowhere", refused),
    ]
    cluster.wait(lambda: _configs_of(cluster, "mine"), {"retention.ms": "5"})
    assert _configs_of(cluster, "not-mine") == {}


@pytest.mark.requirement("F-08", "F-34")
def test_who_may_not_create_a_topic_gets_none_by_asking_for_it(
    cluster: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    allow(cluster, user="alice", resource_type=TOPIC, name="wished-for", operation=8)
    asked = {"topics": [{"name": "wished-for"}], "allow_auto_topic_creation": True}
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        answer = cluster.ask(1, K.METADATA, user="alice", **asked)
    assert [t.error_code for t in answer.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert "wished-for" not in cluster.nodes[cluster.active()].image().topics.by_name
    [line] = [r.getMessage() for r in caplog.records if "wished-for" in r.getMessage()]
    assert line.startswith("Principal = User:alice is Denied operation = CREATE from host = 127.0.0.1")
    assert line.endswith("forwarded by User:broker-1")


@pytest.mark.requirement("F-08")
def test_a_topic_that_a_client_asks_for_is_there_at_once(cluster: InProcess) -> None:
    answer = cluster.ask(2, K.METADATA, topics=[{"name": "wanted-now"}], allow_auto_topic_creation=True)
    assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [("wanted-now", 0, 1)]


@pytest.mark.requirement("F-09", "F-10", "F-11", "H-08")
@pytest.mark.parametrize("version", [1, 4, 9, 10, 12, 13])
def test_a_policy_that_refuses_a_topic_is_told_of(cluster: InProcess, version: int) -> None:
    answer: MetadataResponse = cluster.ask(1, K.METADATA, version, topics=[{"name": f"refused-{version}"}])
    told = ErrorCode.POLICY_VIOLATION if version >= 10 else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [t.error_code for t in answer.topics] == [told]


@pytest.mark.requirement("F-12", "F-13")
def test_nobody_is_told_who_the_controller_is(cluster: InProcess) -> None:
    for key, versions in ((K.METADATA, (1, 9, 12, 13)), (K.DESCRIBE_CLUSTER, (0, 1))):
        for version in versions:
            with cluster.frames(1) as peer:
                told = {peer.call(build(key), version).controller_id for _ in range(30)}
            assert told == set(BROKERS)


@pytest.mark.requirement("F-07")
def test_the_first_group_of_a_cluster_finds_its_coordinator(cluster: InProcess) -> None:
    with cluster.frames(1) as peer:
        end = time.monotonic() + 60
        while (found := peer.call(build(K.FIND_COORDINATOR, coordinator_keys=["g"])).coordinators[0]).error_code:
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert time.monotonic() < end
    assert found.node_id in BROKERS


@pytest.mark.requirement("F-07")
def test_the_first_transaction_of_a_cluster_has_its_log_made(cluster: InProcess) -> None:
    asked = build(K.FIND_COORDINATOR, key_type=1, coordinator_keys=["tx"])
    with cluster.frames(1) as peer:
        assert "__transaction_state" not in cluster.nodes[1].image().topics.by_name
        first = peer.call(asked).coordinators[0]
        assert (first.error_code, first.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        end = time.monotonic() + 60
        while (found := peer.call(asked).coordinators[0]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            assert time.monotonic() < end
    made = cluster.nodes[cluster.active()].image().topics.by_name["__transaction_state"]
    leader = made.partitions[partition_for("tx", 3)].leader
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, leader)
    assert {len(p.replicas) for p in made.partitions.values()} == {2}
    assert len(made.partitions) == 3
    assert _configs_of(cluster, "__transaction_state") == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


# --- Envelopes


@pytest.mark.requirement("F-19")
def test_no_envelopes_from_clients(cluster: InProcess) -> None:
    versions = build(K.API_VERSIONS, client_software_name="frames", client_software_version="1")
    with cluster.frames(1) as peer:
        offered = {api.api_key for api in peer.call(versions).api_keys}
        assert K.ENVELOPE not in offered
        assert K.CREATE_TOPICS in offered
        peer.send(EnvelopeRequest(), 0)
        assert peer.closed()
    with cluster.frames(cluster.active()) as peer:
        assert K.ENVELOPE in {api.api_key for api in peer.call(versions).api_keys}


@pytest.mark.requirement("F-20")
def test_who_may_not_forward_changes_nothing(cluster: InProcess) -> None:
    before = state(cluster)
    forged = wrap(inner(K.CREATE_TOPICS, topics=[topic("forged")]), KafkaPrincipal("User", "root"), "127.0.0.1", SERDE)
    with cluster.frames(cluster.active(), "alice") as peer:
        answer = peer.call(forged, 0)
    assert (answer.error_code, answer.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    assert state(cluster) == before


@pytest.mark.requirement("F-21")
def test_a_standby_controller_says_that_it_is_not_the_one(cluster: InProcess) -> None:
    answer = enveloped(cluster, cluster.standby(), inner(K.CREATE_TOPICS, topics=[topic("nowhere")]))
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


@pytest.mark.requirement("F-31", "F-38", "F-37", "F-41")
@pytest.mark.parametrize(
    ("fields", "request_data", "error"),
    [
        ({"request_principal": None}, inner(K.CREATE_TOPICS), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"garbage"}, inner(K.CREATE_TOPICS), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"abc"}, inner(K.CREATE_TOPICS), ErrorCode.INVALID_REQUEST),
        ({}, inner(K.PRODUCE), ErrorCode.INVALID_REQUEST),
        ({}, inner(K.ENVELOPE), ErrorCode.INVALID_REQUEST),
        ({}, b"\0\x13\0\x63\0\0\0\x01\0\0", ErrorCode.UNSUPPORTED_VERSION),
        ({}, inner(K.CREATE_TOPICS)[:-3], ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=["no principal", "garbage", "bad address", "Produce", "Envelope", "future version", "cut off"],
)
def test_an_envelope_that_cannot_be_served(
    cluster: InProcess, fields: dict[str, Any], request_data: bytes, error: ErrorCode
) -> None:
    active = cluster.active()
    answer = enveloped(cluster, active, request_data, **fields)
    assert (answer.error_code, answer.response_data) == (error, None)
    name = f"kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Envelope,error={error.name}"
    assert float(cluster.metric(active, name)["Count"]) >= 1


@pytest.mark.requirement("F-26", "F-27", "F-17")
def test_the_inner_answer_is_one_to_the_client(cluster: InProcess) -> None:
    request = build(K.CREATE_TOPICS, topics=[topic("from-inside")], timeout_ms=60_000)
    answer = enveloped(cluster, cluster.active(), client_request(request, 5)[1])
    assert answer.error_code == 0
    assert answer.response_data is not None
    frame = bytes(answer.response_data)
    assert int.from_bytes(frame[:4], "big") == 77
    assert [t.error_code for t in decoded(request, 5, frame).topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


# --- configs


@pytest.mark.requirement("H-04")
def test_configs_go_to_whom_they_concern(cluster: InProcess) -> None:
    make_topic(cluster, "mixed")
    level = [{"name": "kafka.server.ForwardingManager", "value": "ERROR", "config_operation": 0}]
    logging.getLogger("kafka.server.ForwardingManager")
    cleaner = [{"name": "log.cleaner.threads", "value": "2", "config_operation": 0}]
    retention = [{"name": "retention.ms", "value": "6", "config_operation": 0}]
    resources = [
        {"resource_type": 8, "resource_name": "1", "configs": level},
        {"resource_type": 2, "resource_name": "mixed", "configs": retention},
        {"resource_type": 4, "resource_name": "2", "configs": cleaner},
        {"resource_type": 4, "resource_name": "1", "configs": cleaner},
        {"resource_type": 8, "resource_name": "2", "configs": level},
    ]
    try:
        answer = cluster.ask(1, K.INCREMENTAL_ALTER_CONFIGS, resources=resources)
        found = [(r.resource_type, r.resource_name, r.error_code) for r in answer.responses]
        bad = ErrorCode.INVALID_REQUEST
        assert found == [(8, "1", 0), (2, "mixed", 0), (4, "2", bad), (4, "1", 0), (8, "2", bad)]
        assert logging.getLogger("kafka.server.ForwardingManager").level == logging.ERROR
    finally:
        logging.getLogger("kafka.server.ForwardingManager").setLevel(logging.NOTSET)
    cluster.wait(lambda: _configs_of(cluster, "mixed"), {"retention.ms": "6"})
    from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType

    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    cluster.wait(lambda: dict(cluster.nodes[2].image().configs.get(broker)).get("log.cleaner.threads"), "2")
    # The other broker's are taken there, though a controller and not that broker keeps them.
    [at_2] = cluster.ask(2, K.INCREMENTAL_ALTER_CONFIGS, resources=[resources[2]]).responses
    assert at_2.error_code == 0


@pytest.mark.requirement("H-11")
def test_secrets_are_in_no_log(
    cluster: InProcess, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "hunter2-hunter2"
    configs = [{"name": "ssl.keystore.password", "value": secret, "config_operation": 0}]
    resources = [{"resource_type": 4, "resource_name": "1", "configs": configs}]
    with caplog.at_level(1):
        answer = cluster.ask(1, K.INCREMENTAL_ALTER_CONFIGS, resources=resources)
        assert len(answer.responses) == 1
        refused = cluster.ask(1, K.INCREMENTAL_ALTER_CONFIGS, user="alice", resources=resources)
        assert refused.responses[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        make_topic(cluster, "after-the-secret")
    said = "\n".join(str(vars(record)) for record in caplog.records) + "".join(capfd.readouterr())
    assert secret not in said


# --- quotas and measurements


@pytest.mark.requirement("H-02", "H-03")
def test_a_client_is_throttled_once(cluster: InProcess) -> None:
    quota = {
        "entity": [{"entity_type": "client-id", "entity_name": "hasty"}],
        "ops": [{"key": "controller_mutation_rate", "value": 1.0}],
    }
    assert set(error_codes(cluster.ask(1, K.ALTER_CLIENT_QUOTAS, entries=[quota]))) <= {0}
    for node in cluster.nodes.values():
        cluster.wait(lambda n=node: bool(n.quotas.quotas.controller_mutation.enabled), True)  # type: ignore[misc]
    with cluster.frames(1) as peer:
        # The first takes a second's worth more than there is. Who is slower than that may go on, but not for long.
        for number in count():
            begun = time.monotonic()
            many = [topic(f"hasty-{number}", num_partitions=12)]
            answer = peer.call(build(K.CREATE_TOPICS, topics=many, timeout_ms=60_000), client_id="hasty")
            if number and answer.topics[0].error_code:
                break
            assert answer.topics[0].error_code == 0
        assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 0 < answer.throttle_time_ms < 60_000
        again = peer.call(build(K.METADATA), client_id="hasty")
        assert time.monotonic() - begun >= answer.throttle_time_ms / 1000 * 0.9
        assert again.throttle_time_ms == 0
    times = cluster.metric(1, "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=CreateTopics")
    assert float(times["Min"]) >= 0


@pytest.mark.requirement("F-40", "H-06")
def test_forwarding_is_measured(cluster: InProcess) -> None:
    name = "kafka.server:type=RequestMetrics,name=NumRequestsForwardingToControllerPerSec,clientId="
    for client_id, times in (("metered-1", 1), ("metered-2", 3)):
        with cluster.frames(2) as peer:
            for _ in range(times):
                peer.call(build(K.LIST_PARTITION_REASSIGNMENTS, topics=None), client_id=client_id)
        assert cluster.metric(2, name + client_id)["Count"] == times
    found = cluster.metric(2, "kafka.server:type=ForwardingManager")
    names = {f"{what}TimeMs.{part}" for what in ("Queue", "Remote") for part in ("p99", "p999")}
    assert set(found) == {"QueueLength", *names}
    assert all(float(value) >= 0 for value in found.values())
    assert found["QueueLength"] == 0


@pytest.mark.requirement("F-35")
def test_what_is_forwarded_is_offered_in_the_versions_of_both(cluster: InProcess) -> None:
    versions = build(K.API_VERSIONS, client_software_name="frames", client_software_version="1")
    with cluster.frames(1) as broker, cluster.frames(cluster.active()) as controller:
        ours = {a.api_key: (a.min_version, a.max_version) for a in broker.call(versions).api_keys}
        theirs = {a.api_key: (a.min_version, a.max_version) for a in controller.call(versions).api_keys}
    forwarded = {int(row.key) for row in API_KEYS.values() if row.forwardable and "broker" in row.listeners}
    assert {k: v for k, v in ours.items() if k in forwarded} == {k: v for k, v in theirs.items() if k in forwarded}
