"""Authorizers as plug-ins, on a controller and a broker of their own: chosen by name, asked with the whole context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.model.config import ConfigError
from barnabas.server.authorizers import plugin_authorizer
from barnabas.server.config import AUTHORIZERS
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.forwarding.in_process import InProcess
from tests.server.controllers import node_config
from tests.server.frames import LOGIN, FramePeer, port_of, several_listeners
from tests.server.requests import build

from .plugins import ByName

pytestmark = pytest.mark.slow
K = ApiKey
CONTROLLER, BROKER = 101, 1
COUNT = "kafka.server:type=Authorizer,name=AclCount"
BY_NAME, NO_FORWARDED = "tests.authorizer.plugins:ByName", "tests.authorizer.plugins:NoForwardedRules"
ANYTHING: dict[str, Any] = {
    "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1,
    "resource_name_filter": None, "principal_filter": None, "host_filter": None,
}  # fmt: skip


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcess]:
    with InProcess(tmp_path, controllers=(CONTROLLER,), brokers=(BROKER,)) as found:
        yield found


def rule(name: str, **changes: Any) -> dict[str, Any]:
    made = {"resource_type": 2, "resource_name": name, "principal": "User:alice", "host": "*", "operation": 3}
    return {**made, "permission_type": 3, **changes}


def create(cluster: InProcess, name: str, node_id: int = BROKER) -> int:
    answer = cluster.ask(node_id, K.CREATE_ACLS, creations=[rule(name)])
    return int(answer.results[0].error_code)


def counts(cluster: InProcess) -> list[object]:
    return [cluster.metric(i, COUNT)["Value"] for i in (CONTROLLER, BROKER)]


def restart(cluster: InProcess, authorizer: str) -> None:
    for node_id in (BROKER, CONTROLLER):
        cluster.stop_node(node_id)
    for node_id in (CONTROLLER, BROKER):
        cluster.start_node(node_id, authorizer__class__name=authorizer)


@pytest.mark.requirement("A-30")
def test_the_count_follows_creations_and_deletions_on_controller_and_broker(cluster: InProcess) -> None:
    cluster.wait(lambda: [n.acl_count() for n in cluster.nodes.values()], [1, 1])  # the one for broker 2
    for n in range(3):
        assert create(cluster, f"t{n}") == 0
        cluster.wait(lambda: {n.acl_count() for n in cluster.nodes.values()}, {n + 2})
    assert counts(cluster) == [4, 4]
    answer = cluster.ask(BROKER, K.DELETE_ACLS, filters=[{**ANYTHING, "resource_name_filter": "t1"}])
    assert len(answer.filter_results[0].matching_acls) == 1
    cluster.wait(lambda: {n.acl_count() for n in cluster.nodes.values()}, {3})
    assert counts(cluster) == [3, 3]


@pytest.mark.requirement("A-31", "A-35")
def test_a_plug_in_without_a_count_is_asked_and_rules_wait_for_the_way_back(
    cluster: InProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(cluster, "t") == 0
    rules = cluster.look(lambda: dict(cluster.nodes[CONTROLLER].image().acls.by_id))
    restart(cluster, BY_NAME)
    assert ByName.configured[-1]["authorizer.class.name"] == BY_NAME
    assert counts(cluster) == [-1, -1]
    assert create(cluster, "u") == ErrorCode.SECURITY_DISABLED
    assert cluster.ask(BROKER, K.DESCRIBE_ACLS, **ANYTHING).error_code == ErrorCode.SECURITY_DISABLED
    refused = cluster.ask(BROKER, K.CREATE_TOPICS, user="alice", topics=[], timeout_ms=9000)
    assert refused.topics == []
    asked = next(context for context, _ in reversed(ByName.asked) if context.principal.name == "alice")
    assert (asked.request, asked.principal.name, asked.client_id) == ("CreateTopics", "alice", "frames")
    directory = cluster.nodes[CONTROLLER].config.metadata_log_dir
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["metadata-shell", "--directory", directory, "ls", "/acl/id"])
    assert ended.value.code in (None, 0)
    assert set(capsys.readouterr().out.split()) == {str(acl_id) for acl_id in rules}
    assert cluster.look(lambda: dict(cluster.nodes[CONTROLLER].image().acls.by_id)) == rules
    restart(cluster, AUTHORIZERS[1])
    assert counts(cluster) == [len(rules)] * 2
    described = cluster.ask(BROKER, K.DESCRIBE_ACLS, **ANYTHING)
    assert sum(len(r.acls) for r in described.resources) == len(rules)


@pytest.mark.requirement("F-33")
def test_a_policy_sees_who_forwards(tmp_path: Path) -> None:
    shape: Any = {"controllers": (CONTROLLER,), "brokers": (BROKER,), "authorizer__class__name": NO_FORWARDED}
    with InProcess(tmp_path, **shape) as cluster:
        assert create(cluster, "t") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert create(cluster, "t", CONTROLLER) == 0
        cluster.wait(lambda: {n.acl_count() for n in cluster.nodes.values()}, {2})
        assert counts(cluster) == [2, 2]


def test_what_a_plug_in_raises_refuses_the_request_and_no_other(cluster: InProcess) -> None:
    restart(cluster, BY_NAME)
    asked = {"resources": [{"resource_type": 2, "resource_name": "t"}]}
    assert cluster.ask(BROKER, K.CREATE_ACLS, user="bob", creations=[rule("t")]).results[0].error_code == -1
    described = cluster.ask(BROKER, K.DESCRIBE_CONFIGS, user="bob", **asked)
    assert [r.error_code for r in described.results] == [-1]
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    assert cluster.ask(BROKER, K.CREATE_TOPICS, topics=topics, timeout_ms=9000).topics[0].error_code == 0
    cluster.wait(lambda: "t" in cluster.nodes[BROKER].image().topics.by_name, True)
    listed = cluster.ask(BROKER, K.METADATA, user="alice", topics=None)
    assert [t.name for t in listed.topics] == ["t"]
    contexts = [(c, a) for c, a in ByName.asked if c.request == "Metadata"]
    assert {c.listener_name for c, _ in contexts} == {"CLIENTS"}
    assert {c.security_protocol for c, _ in contexts} == {"SASL_PLAINTEXT"}
    assert {c.forwarding_principal for c, _ in contexts} == {None}


@pytest.mark.requirement("H-17")
def test_a_node_whose_authorizer_fails_ends(cluster: InProcess) -> None:
    cluster.stop_node(BROKER)
    with pytest.raises(RuntimeError, match="too much"):
        cluster.start_node(BROKER, authorizer__class__name="tests.authorizer.plugins:DiesOfRules")
    cluster.start_node(BROKER)
    node = cluster.nodes[BROKER]

    def fail(*_: object) -> None:
        raise RuntimeError("the rules cannot be taken up")

    cluster.look(lambda: setattr(node._acls, "publish", fail))
    assert create(cluster, "t") == 0
    cluster.wait(lambda: "cannot be taken up" in (node.failure or ""), True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tests.authorizer.plugins:Nobody", "cannot load"),
        ("nowhere.at.all:Mine", "cannot load"),
        ("com.example.Mine", "want a Python class as module:Class"),
        ("Mine", "barnabas.authorizers"),
        ("tests.authorizer.plugins:NoAuthorizer", "no class with a method authorize"),
    ],
)
def test_what_is_no_authorizer_stops_the_start(tmp_path: Path, name: str, said: str) -> None:
    config = node_config(tmp_path, authorizer__class__name=name)
    with pytest.raises(ConfigError, match=said):
        plugin_authorizer(config)


@pytest.mark.requirement("F-33")
def test_a_combined_node_forwards_to_itself_under_its_own_name(tmp_path: Path) -> None:
    users = 'user_alice="alice-secret" user_root="root-secret"'
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = several_listeners(
        authorizer__class__name=NO_FORWARDED,
        sasl__mechanism__controller__protocol="PLAIN",
        listener__name__controller__sasl__enabled__mechanisms="PLAIN",
        listener__name__controller__plain__sasl__jaas__config=f'{plain} username="me" password="x" {users};',
    )
    with Cluster(tmp_path, settings) as node:
        assert str(node.node.principal) == "User:me"
        for listener, wanted in ((LOGIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ("CONTROLLER", 0)):
            ca = node.files.ca if listener == "CONTROLLER" else None
            with FramePeer(port_of(node, listener), ca=ca) as root:
                root.login("root")
                answer = root.call(build(K.CREATE_ACLS, creations=[rule("t")]))
            assert [r.error_code for r in answer.results] == [wanted]
