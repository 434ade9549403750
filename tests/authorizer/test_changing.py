"""Rules that change under a user who never pauses: he sees whole changes in their order, and nothing between."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.server.format import random_uuid
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from tests.forwarding.in_process import InProcess
from tests.server.frames import LOGIN, FramePeer, port_of, several_listeners
from tests.server.requests import build

from .hammer import NOTHING, OTHERS, SECRET, Hammer, filter_of, rule

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
K = ApiKey
BROKER = 1
ROUNDS, FILLERS = 25, 100


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with InProcess(tmp_path_factory.mktemp("changing"), brokers=(BROKER,)) as found:
        yield found


def create(peer: FramePeer, rules: list[dict[str, Any]]) -> None:
    answer = peer.call(build(K.CREATE_ACLS, creations=rules))
    assert {r.error_code for r in answer.results} == {0}


def delete(peer: FramePeer, rules: list[dict[str, Any]]) -> None:
    answer = peer.call(build(K.DELETE_ACLS, filters=[filter_of(one) for one in rules]))
    assert [len(f.matching_acls) for f in answer.filter_results] == [1] * len(rules)


@pytest.mark.requirement("A-14", "A-15", "H-12")
def test_thousands_of_changes_and_no_torn_answer(shared: InProcess) -> None:
    """Bob is refused one topic before he is granted all: he gets the others together, and that one never."""
    fillers = [rule(f"filler-{n}", f"user-{n}") for n in range(FILLERS)]
    refused, granted = rule(SECRET, deny=True), rule("*")
    shown = frozenset(OTHERS)
    with shared.frames(BROKER) as root, Hammer(lambda: shared.frames(BROKER, "bob")) as bob:
        bob.wait_for(NOTHING)
        for _ in range(ROUNDS):
            create(root, [refused, *fillers, granted])
            bob.wait_for(shown)
            delete(root, [granted, *fillers, refused])
            bob.wait_for(NOTHING)
    assert set(bob.seen) == {NOTHING, shown}
    assert bob.answers >= 2 * ROUNDS
    assert ROUNDS * 2 * (FILLERS + 2) > 5000


@pytest.mark.requirement("A-37")
def test_a_standby_controller_changes_nothing(shared: InProcess) -> None:
    before = shared.look(lambda: shared.nodes[BROKER].image().acls.by_id)
    standby = shared.standby()
    made = shared.ask(standby, K.CREATE_ACLS, creations=[rule("t"), rule("u")])
    gone = shared.ask(standby, K.DELETE_ACLS, filters=[filter_of(rule("t"))])
    assert [r.error_code for r in made.results] == [ErrorCode.NOT_CONTROLLER] * 2
    assert [f.error_code for f in gone.filter_results] == [ErrorCode.NOT_CONTROLLER]
    assert shared.look(lambda: shared.nodes[BROKER].image().acls.by_id) == before
    # A broker brings the same to the one that may.
    assert shared.ask(BROKER, K.CREATE_ACLS, creations=[rule("t")]).results[0].error_code == 0
    answer = shared.ask(BROKER, K.DELETE_ACLS, filters=[filter_of(rule("t"))])
    assert len(answer.filter_results[0].matching_acls) == 1
    shared.wait(lambda: shared.nodes[BROKER].image().acls.by_id == before, True)


@pytest.mark.requirement("H-14")
def test_a_rule_made_and_removed_in_one_batch_hurts_nobody(shared: InProcess) -> None:
    fleeting, lasting = random_uuid(), random_uuid()

    def made(acl_id: Any, name: str) -> VersionedRecord:
        record = AccessControlEntryRecord(
            id=acl_id, resource_type=2, resource_name=name, pattern_type=3, principal="User:bob", host="*",
            operation=2, permission_type=3,
        )  # fmt: skip
        return VersionedRecord(record, 0)

    def decide(_: MetadataImage) -> Decision[None]:
        removed = VersionedRecord(RemoveAccessControlEntryRecord(id=fleeting), 0)
        return Decision((made(fleeting, SECRET), made(lasting, "x0"), removed), None)

    def ids() -> set[Any]:
        return set.intersection(*(set(n.image().acls.by_id) for n in shared.nodes.values()))

    active = shared.nodes[shared.active()]
    shared.do(active.controller.write(decide))
    shared.wait(lambda: lasting in ids(), True)
    assert fleeting not in shared.look(ids)
    shared.do(active.kraft.controller.snapshot())
    with Hammer(lambda: shared.frames(BROKER, "bob"), [SECRET, "x0"]) as bob:
        bob.wait_for(frozenset({"x0"}))
        for node_id in (BROKER, active.config.node_id):
            shared.stop_node(node_id)
            shared.start_node(node_id)
        bob.wait_for(frozenset({"x0"}), 3)
    assert set(bob.seen) == {frozenset({"x0"})}
    assert all(n.failure is None for n in shared.nodes.values())
    assert fleeting not in shared.look(ids)
    with shared.frames(BROKER) as root:
        delete(root, [rule("x0")])
    shared.wait(
        lambda: lasting in shared.nodes[BROKER].image().acls.by_id, False
    )  # and the next test's bob has nothing


@pytest.mark.requirement("A-30", "H-15")
def test_a_combined_node_takes_each_change_once(tmp_path: Path) -> None:
    count = "kafka.server:type=Authorizer,name=AclCount"
    with (
        Cluster(tmp_path, several_listeners()) as cluster,
        FramePeer(port_of(cluster, LOGIN)) as root,
        FramePeer(port_of(cluster, LOGIN)) as alice,
    ):
        root.login("root")
        alice.login("alice")
        for n in range(3):
            create(root, [rule(f"t{n}", "alice"), rule(f"t{n}", "alice", deny=True, operation=4)])
            assert dict(cluster.node.metrics.registry.values(count))[count]["Value"] == 2 * n + 2
        delete(root, [rule("t1", "alice")])
        shown = alice.call(build(K.METADATA, topics=[{"name": f"t{n}"} for n in range(4)]))
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert {t.name for t in shown.topics if t.error_code != refused} == {"t0", "t2"}
        assert cluster.node.acl_count() == 5
        # The controller's role decides likewise: alice may create nothing, until she may.
        asked = build(K.CREATE_ACLS, creations=[rule("t", "alice")])
        assert alice.call(asked).results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        create(root, [{**rule("kafka-cluster", "alice", operation=7), "resource_type": 4}])
        assert alice.call(asked).results[0].error_code == 0
        assert cluster.node.acl_count() == 7


@pytest.mark.requirement("A-36", "H-21")
def test_nothing_is_taken_from_a_zookeeper(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as zookeeper:
        zookeeper.setblocking(False)
        address = f"127.0.0.1:{zookeeper.getsockname()[1]}"
        old = tmp_path / "zookeeper" / "version-2"
        old.mkdir(parents=True)
        (old / "snapshot.0").write_bytes(b"ZKSN/kafka-acl/Topic/orders")
        with Cluster(tmp_path / "node", {"zookeeper.connect": address}) as cluster:
            assert len(cluster.node.image().acls.by_id) == 0
            assert cluster.node.acl_count() == 0
            with pytest.raises(BlockingIOError):
                zookeeper.accept()
