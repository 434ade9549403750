"""What somebody without any right gets of every API: a refusal, and nothing is told or changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.core.metadata.image import snapshot_records
from barnabas.server.authorization import Authz
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.handlers import BROKER, CONTROLLER, TELEMETRY, ZOOKEEPER, ZOOKEEPER_CONTROLLER
from barnabas.server.router import BY_HANDLER, Handler, Router
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.messages.list_groups import ListGroupsResponse
from barnabas.wire.record_batch import Record, encode_batch

from .frames import LOGIN, FramePeer, decoded, newest, port_of, several_listeners
from .requests import build, error_codes

K = ApiKey
SECRET = "quarterly-numbers"
GROUP = "quarterly-readers"
TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC, GROUPS, CLUSTER = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
BATCH = encode_batch([Record(0, time.time_ns() // 1_000_000, None, b"forged")])
"""As of now: retention takes away what is older than a week, whoever looks."""
PARTITIONS = [{"partition_index": 0}]
ACL = {
    "resource_type": 2, "resource_name": "*", "principal": "User:alice", "host": "*", "operation": 2,
    "permission_type": 3,
}  # fmt: skip
ANYTHING = {
    "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1,
    "resource_name_filter": None, "principal_filter": None, "host_filter": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = several_listeners(
        listener__name__controller__sasl__enabled__mechanisms="PLAIN", delegation__token__secret__key="of all nodes"
    )
    settings["listener.security.protocol.map"] = settings["listener.security.protocol.map"].replace(
        "CONTROLLER:SASL_SSL", "CONTROLLER:SASL_PLAINTEXT"
    )
    settings["listener.name.controller.plain.sasl.jaas.config"] = settings["listener.name.login.plain.sasl.jaas.config"]
    with Cluster(tmp_path_factory.mktemp("closed"), settings) as found:
        found.create_topic(SECRET)
        found.as_user("bob").allow("read", "topic", SECRET)
        with FramePeer(port_of(found, LOGIN)) as root:
            root.login("root")
            topic_id = found.node.image().topics.by_name[SECRET].id
            data = {"index": 0, "records": memoryview(BATCH)}
            written = root.call(
                build(ApiKey.PRODUCE, acks=1, topic_data=[{"topic_id": topic_id, "partition_data": [data]}])
            )
            assert set(error_codes(written)) <= {0}
            root.call(build(ApiKey.FIND_COORDINATOR, coordinator_keys=[GROUP]))
            commit = {"topic_id": topic_id, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
            assert root.call(build(ApiKey.CREATE_DELEGATION_TOKEN)).error_code == 0
            done: list[int] = [-1]
            while set(done) - {0}:
                done = list(error_codes(root.call(build(ApiKey.OFFSET_COMMIT, group_id=GROUP, topics=[commit]))))
        yield found


def asked(cluster: Cluster) -> dict[ApiKey, tuple[Any, set[int]]]:
    """Give a request of each API that clients are served, and the errors that alice is to get (none: empty)."""
    image = cluster.node.image()
    topic_id = image.topics.by_name[SECRET].id
    broker_configs = {"resource_type": 4, "resource_name": "1"}
    topic_configs = {"resource_type": 2, "resource_name": SECRET}
    change = {"configs": [{"name": "retention.ms", "value": "1"}]}
    user = {"name": "mallory", "mechanism": 2, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 64}
    quota = {"entity": [{"entity_type": "user", "entity_name": "alice"}], "ops": [{"key": "producer_byte_rate"}]}
    return {
        K.PRODUCE: (
            build(
                K.PRODUCE,
                acks=1,
                topic_data=[
                    {"topic_id": topic_id, "partition_data": [{"index": 0, "records": memoryview(BATCH)}]},
                ],
            ),
            {TOPIC},
        ),
        K.FETCH: (
            build(
                K.FETCH,
                topics=[{"topic_id": topic_id, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}],
            ),
            {TOPIC},
        ),
        K.VOTE: (build(K.VOTE), {CLUSTER}),
        K.BEGIN_QUORUM_EPOCH: (build(K.BEGIN_QUORUM_EPOCH), {CLUSTER}),
        K.END_QUORUM_EPOCH: (build(K.END_QUORUM_EPOCH), {CLUSTER}),
        K.FETCH_SNAPSHOT: (build(K.FETCH_SNAPSHOT), {CLUSTER}),
        K.ADD_RAFT_VOTER: (build(K.ADD_RAFT_VOTER, voter_id=9, timeout_ms=1000), {CLUSTER}),
        K.REMOVE_RAFT_VOTER: (build(K.REMOVE_RAFT_VOTER, voter_id=1), {CLUSTER}),
        K.UPDATE_RAFT_VOTER: (build(K.UPDATE_RAFT_VOTER, voter_id=1), {CLUSTER}),
        K.LIST_OFFSETS: (
            build(K.LIST_OFFSETS, topics=[{"name": SECRET, "partitions": [{"partition_index": 0, "timestamp": -1}]}]),
            {TOPIC},
        ),
        K.METADATA: (build(K.METADATA, topics=[{"name": SECRET}], include_topic_authorized_operations=True), {TOPIC}),
        K.OFFSET_COMMIT: (
            build(K.OFFSET_COMMIT, group_id=GROUP, topics=[{"topic_id": topic_id, "partitions": PARTITIONS}]),
            {GROUPS},
        ),
        K.OFFSET_FETCH: (
            build(
                K.OFFSET_FETCH,
                groups=[{"group_id": GROUP, "topics": [{"topic_id": topic_id, "partition_indexes": [0]}]}],
            ),
            {GROUPS},
        ),
        K.FIND_COORDINATOR: (build(K.FIND_COORDINATOR, coordinator_keys=[GROUP]), {GROUPS}),
        K.JOIN_GROUP: (
            build(
                K.JOIN_GROUP,
                group_id=GROUP,
                protocol_type="consumer",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocols=[{"name": "range"}],
            ),
            {GROUPS},
        ),
        K.HEARTBEAT: (build(K.HEARTBEAT, group_id=GROUP), {GROUPS}),
        K.LEAVE_GROUP: (build(K.LEAVE_GROUP, group_id=GROUP, members=[{"member_id": "x"}]), {GROUPS}),
        K.SYNC_GROUP: (build(K.SYNC_GROUP, group_id=GROUP, protocol_type="consumer", protocol_name="range"), {GROUPS}),
        K.DESCRIBE_GROUPS: (build(K.DESCRIBE_GROUPS, groups=[GROUP]), {GROUPS}),
        K.LIST_GROUPS: (build(K.LIST_GROUPS), set()),
        K.CONSUMER_GROUP_HEARTBEAT: (
            build(
                K.CONSUMER_GROUP_HEARTBEAT,
                group_id=GROUP,
                member_id="x",
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=[SECRET],
                topic_partitions=[],
            ),
            {GROUPS},
        ),
        K.CONSUMER_GROUP_DESCRIBE: (build(K.CONSUMER_GROUP_DESCRIBE, group_ids=[GROUP]), {GROUPS}),
        K.API_VERSIONS: (
            build(K.API_VERSIONS, client_software_name="frames", client_software_version="1"),
            set(),
        ),
        K.DELETE_RECORDS: (
            build(K.DELETE_RECORDS, topics=[{"name": SECRET, "partitions": [{"partition_index": 0, "offset": 1}]}]),
            {TOPIC},
        ),
        K.INIT_PRODUCER_ID: (build(K.INIT_PRODUCER_ID, transactional_id=None), {CLUSTER}),
        K.ADD_PARTITIONS_TO_TXN: (
            build(
                K.ADD_PARTITIONS_TO_TXN,
                transactions=[{"transactional_id": "t", "topics": [{"name": SECRET, "partitions": [0]}]}],
            ),
            {CLUSTER},
        ),
        K.ADD_OFFSETS_TO_TXN: (build(K.ADD_OFFSETS_TO_TXN, transactional_id="t", group_id=GROUP), {TRANSACTIONAL_ID}),
        K.END_TXN: (build(K.END_TXN, transactional_id="t"), {TRANSACTIONAL_ID}),
        K.DESCRIBE_TRANSACTIONS: (build(K.DESCRIBE_TRANSACTIONS, transactional_ids=["t"]), {TRANSACTIONAL_ID}),
        K.LIST_TRANSACTIONS: (build(K.LIST_TRANSACTIONS), set()),
        K.OFFSET_FOR_LEADER_EPOCH: (
            build(
                K.OFFSET_FOR_LEADER_EPOCH,
                topics=[{"topic": SECRET, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
            ),
            {TOPIC},
        ),
        K.WRITE_TXN_MARKERS: (
            build(K.WRITE_TXN_MARKERS, markers=[{"topics": [{"name": SECRET, "partition_indexes": [0]}]}]),
            {CLUSTER},
        ),
        K.TXN_OFFSET_COMMIT: (
            build(
                K.TXN_OFFSET_COMMIT,
                transactional_id="t",
                group_id=GROUP,
                topics=[{"name": SECRET, "partitions": PARTITIONS}],
            ),
            {TRANSACTIONAL_ID},
        ),
        K.DESCRIBE_ACLS: (build(K.DESCRIBE_ACLS, **ANYTHING), {CLUSTER}),
        K.DESCRIBE_CONFIGS: (
            build(K.DESCRIBE_CONFIGS, resources=[_all_keys(topic_configs), _all_keys(broker_configs)]),
            {TOPIC, CLUSTER},
        ),
        K.ALTER_REPLICA_LOG_DIRS: (
            build(K.ALTER_REPLICA_LOG_DIRS, dirs=[{"path": "/dir", "topics": [{"name": SECRET, "partitions": [0]}]}]),
            {CLUSTER},
        ),
        K.DESCRIBE_LOG_DIRS: (build(K.DESCRIBE_LOG_DIRS, topics=None), {CLUSTER}),
        K.DELETE_GROUPS: (build(K.DELETE_GROUPS, groups_names=[GROUP]), {GROUPS}),
        K.OFFSET_DELETE: (
            build(K.OFFSET_DELETE, group_id=GROUP, topics=[{"name": SECRET, "partitions": PARTITIONS}]),
            {GROUPS},
        ),
        K.DESCRIBE_CLIENT_QUOTAS: (build(K.DESCRIBE_CLIENT_QUOTAS), {CLUSTER}),
        K.DESCRIBE_USER_SCRAM_CREDENTIALS: (build(K.DESCRIBE_USER_SCRAM_CREDENTIALS, users=None), {CLUSTER}),
        K.DESCRIBE_CLUSTER: (build(K.DESCRIBE_CLUSTER), set()),
        K.DESCRIBE_PRODUCERS: (
            build(K.DESCRIBE_PRODUCERS, topics=[{"name": SECRET, "partition_indexes": [0]}]),
            {TOPIC},
        ),
        K.LIST_CONFIG_RESOURCES: (build(K.LIST_CONFIG_RESOURCES), {CLUSTER}),
        K.DESCRIBE_TOPIC_PARTITIONS: (build(K.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": SECRET}]), {TOPIC}),
        K.CREATE_TOPICS: (
            build(K.CREATE_TOPICS, topics=[{"name": "new", "num_partitions": 1, "replication_factor": 1}]),
            {TOPIC},
        ),
        K.DELETE_TOPICS: (build(K.DELETE_TOPICS, topics=[{"name": SECRET}]), {TOPIC}),
        K.CREATE_ACLS: (build(K.CREATE_ACLS, creations=[ACL]), {CLUSTER}),
        K.DELETE_ACLS: (build(K.DELETE_ACLS, filters=[ANYTHING]), {CLUSTER}),
        K.ALTER_CONFIGS: (
            build(K.ALTER_CONFIGS, resources=[{**topic_configs, **change}, {**broker_configs, **change}]),
            {TOPIC, CLUSTER},
        ),
        K.CREATE_PARTITIONS: (build(K.CREATE_PARTITIONS, topics=[{"name": SECRET, "count": 2}]), {TOPIC}),
        K.ELECT_LEADERS: (
            build(K.ELECT_LEADERS, topic_partitions=[{"topic": SECRET, "partitions": [0]}]),
            {CLUSTER},
        ),
        K.INCREMENTAL_ALTER_CONFIGS: (
            build(
                K.INCREMENTAL_ALTER_CONFIGS,
                resources=[
                    {**topic_configs, **change},
                    {**broker_configs, **change},
                    {"resource_type": 8, "resource_name": "1", "configs": [{"name": "root", "value": "TRACE"}]},
                ],
            ),
            {TOPIC, CLUSTER},
        ),
        K.ALTER_PARTITION_REASSIGNMENTS: (
            build(
                K.ALTER_PARTITION_REASSIGNMENTS,
                topics=[{"name": SECRET, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
            ),
            {CLUSTER},
        ),
        K.LIST_PARTITION_REASSIGNMENTS: (build(K.LIST_PARTITION_REASSIGNMENTS), {CLUSTER}),
        K.ALTER_CLIENT_QUOTAS: (build(K.ALTER_CLIENT_QUOTAS, entries=[quota]), {CLUSTER}),
        K.ALTER_USER_SCRAM_CREDENTIALS: (build(K.ALTER_USER_SCRAM_CREDENTIALS, upsertions=[user]), {CLUSTER}),
        K.DESCRIBE_QUORUM: (
            build(K.DESCRIBE_QUORUM, topics=[{"topic_name": "__cluster_metadata", "partitions": PARTITIONS}]),
            {CLUSTER},
        ),
        K.UPDATE_FEATURES: (
            build(K.UPDATE_FEATURES, feature_updates=[{"feature": "metadata.version", "max_version_level": 1}]),
            {CLUSTER},
        ),
        K.UNREGISTER_BROKER: (build(K.UNREGISTER_BROKER, broker_id=1), {CLUSTER}),
        K.CREATE_DELEGATION_TOKEN: (
            build(K.CREATE_DELEGATION_TOKEN, owner_principal_type="User", owner_principal_name="root"),
            {ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED},
        ),
        K.RENEW_DELEGATION_TOKEN: (
            build(K.RENEW_DELEGATION_TOKEN, hmac=_hmac(cluster)),
            {ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH},
        ),
        K.EXPIRE_DELEGATION_TOKEN: (
            build(K.EXPIRE_DELEGATION_TOKEN, hmac=_hmac(cluster), expiry_time_period_ms=-1),
            {ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH},
        ),
        K.DESCRIBE_DELEGATION_TOKEN: (build(K.DESCRIBE_DELEGATION_TOKEN, owners=None), set()),
        # What nodes ask controllers.
        K.ENVELOPE: (build(K.ENVELOPE), {CLUSTER}),
        K.ALTER_PARTITION: (build(K.ALTER_PARTITION, broker_id=1), {CLUSTER}),
        K.BROKER_REGISTRATION: (
            build(K.BROKER_REGISTRATION, broker_id=7, cluster_id=cluster.node.cluster_id),
            {CLUSTER},
        ),
        K.BROKER_HEARTBEAT: (build(K.BROKER_HEARTBEAT, broker_id=1, want_shut_down=True), {CLUSTER}),
        K.ALLOCATE_PRODUCER_IDS: (build(K.ALLOCATE_PRODUCER_IDS, broker_id=1), {CLUSTER}),
        K.CONTROLLER_REGISTRATION: (build(K.CONTROLLER_REGISTRATION, controller_id=1), {CLUSTER}),
        K.ASSIGN_REPLICAS_TO_DIRS: (build(K.ASSIGN_REPLICAS_TO_DIRS, broker_id=1), {CLUSTER}),
    }


def _hmac(cluster: Cluster) -> bytes:
    """Give what proves the token that root has."""
    secrets = cluster.node.token_secrets
    assert secrets is not None
    [token_id] = cluster.node.image().tokens.by_id
    return secrets.hmac(token_id)


def _all_keys(resource: dict[str, Any]) -> dict[str, Any]:
    return {**resource, "configuration_keys": None}


LOGINS = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def state(cluster: Cluster) -> object:
    """Give all that a client could have changed."""
    node = cluster.node

    async def read(_: object) -> object:
        log = next(p.log for p in node.partitions if p.tp.topic == SECRET)
        groups = [(g.group_id, g.group_state) for g in node.groups.listed([], [])]
        records = [r for r in snapshot_records(node.image()) if "Broker" not in type(r.record).__name__]
        return (log.log_start_offset, log.log_end_offset), groups, node.groups.offset_count(), records

    return cluster.run(read)


@pytest.mark.parametrize(("listener", "modules"), [(LOGIN, BROKER), ("CONTROLLER", CONTROLLER)])
def test_nobody_gets_anything_without_a_right(cluster: Cluster, listener: str, modules: tuple[str, ...]) -> None:
    before = state(cluster)
    table = asked(cluster)
    with FramePeer(port_of(cluster, listener)) as stranger:
        offer = stranger.call(build(K.API_VERSIONS, client_software_name="frames", client_software_version="1"))
    served = {ApiKey(api.api_key) for api in offer.api_keys} - LOGINS
    assert served <= set(table), "an API without an expectation here"
    surprises: list[tuple[str, list[int], bool]] = []
    for key in sorted(served):
        request, expected = table[key]
        if listener == "CONTROLLER" and key in (K.FETCH, K.DESCRIBE_CLUSTER):
            expected = {CLUSTER}
        with FramePeer(port_of(cluster, listener)) as alice:
            assert alice.login("alice").error_code == 0
            alice.send(request)
            try:
                frame = alice.receive_raw()
            except ConnectionError:
                surprises.append((key.name, [], False))
                continue
        codes = set(error_codes(decoded(request, newest(request), frame))) - {0}
        told = BATCH in frame or (not expected and (SECRET.encode() in frame or GROUP.encode() in frame))
        if codes != expected or told:
            surprises.append((key.name, sorted(codes), told))
    assert not surprises
    assert state(cluster) == before


def test_listings_hold_nothing_that_may_not_be_seen(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, LOGIN)) as alice:
        alice.login("alice")
        assert alice.call(build(ApiKey.METADATA, topics=None)).topics == []
        assert alice.call(build(ApiKey.LIST_GROUPS)).groups == []
        assert alice.call(build(ApiKey.DESCRIBE_TOPIC_PARTITIONS)).topics == []
        assert alice.call(build(ApiKey.OFFSET_FETCH, groups=[{"group_id": "", "topics": None}])).groups[0].error_code


def test_every_handler_of_the_package_is_served_somewhere() -> None:
    from importlib.resources import files

    modules = {
        entry.name.removesuffix(".py")
        for entry in files("barnabas.server.handlers").iterdir()
        if entry.name.endswith(".py") and not entry.name.startswith("__")
    }
    served = (*BROKER, *TELEMETRY, *CONTROLLER, *ZOOKEEPER, *ZOOKEEPER_CONTROLLER)
    assert modules == {listed.rpartition(":")[2] for listed in served}
    for listed in served:
        api = listed.partition(":")[0]
        assert API_KEYS[ApiKey[api.upper()]].key.name.lower() == api


@pytest.mark.parametrize("later", [False, True])
def test_an_answer_that_nobody_decided_on_never_goes_out(later: bool) -> None:
    """A handler that forgot to ask: the connection is closed instead."""

    def at_once(request: object, ctx: object) -> ListGroupsResponse:
        return ListGroupsResponse()

    async def in_a_while(request: object, ctx: object) -> ListGroupsResponse:
        return ListGroupsResponse()

    router = Router(("list_groups",), listener="broker")
    row = API_KEYS[ApiKey.LIST_GROUPS]
    router._loaded[int(row.key)] = Handler(row, BY_HANDLER, in_a_while if later else at_once)
    principal = cast("Any", SimpleNamespace(name="alice"))
    ctx = RequestContext(
        node=cast("Any", None),
        connection=ClientConnection("", "127.0.0.1", 0, LOGIN, "SASL_PLAINTEXT", principal),
        row=row,
        version=0,
        correlation_id=1,
        client_id="frames",
        authz=Authz(None, principal, "127.0.0.1", "ListGroups"),
    )

    def serve() -> object:
        answer = router.route(ctx, memoryview(b""), 0)
        return cast("Any", answer).send(None) if later else answer

    with pytest.raises(ProtocolError, match="without an authorization decision"):
        serve()
