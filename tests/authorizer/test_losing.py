"""Rules through the loss of controllers, of the way to them, and of the log before a snapshot: one timeline for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from barnabas.server.node import Node
from barnabas.testing.local import LocalCluster, LocalNode
from barnabas.wire.api_keys import ApiKey
from tests.server.frames import FramePeer
from tests.server.requests import build

from .hammer import OTHERS, SECRET, Hammer, filter_of, rule

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
K = ApiKey
PLAIN_TOO = {
    "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_bob="bob-secret";',
}
QUICK_QUORUM = {"controller.quorum.fetch.timeout.ms": "2000", "controller.quorum.election.timeout.ms": "1500"}


def reading(topic: str) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    return AclBinding(pattern, "User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW)


@pytest.mark.requirement("A-11")
def test_what_was_answered_outlives_the_controller_that_answered(barnabas_clusters: Callable[..., Any]) -> None:
    cluster = barnabas_clusters(controllers=3, brokers=1, processes=True, properties=QUICK_QUORUM)
    first, second = reading("t0"), reading("t1")

    def rules() -> set[AclBinding]:
        """Give what the broker goes by: it may hear of what was answered from the next controller only."""
        return set(cluster.ask(lambda admin: admin.describe_acls(AclBindingFilter())))

    active = cluster.active_controller()
    assert cluster.ask(lambda admin: admin.create_acls([first, second])) == [None, None]
    active.kill()
    cluster.wait_for(rules, lambda found: {first, second} <= found, "both rules")
    active.start()
    active = cluster.active_controller()
    cluster.ask(lambda admin: admin.delete_acls([AclBindingFilter(name="t0")]))
    active.kill()
    cluster.wait_for(rules, lambda found: first not in found, "one rule less")
    assert second in rules()


class Timeline:
    """What a node takes up: by metadata offset, the names that its rules are about."""

    def __init__(self, node: Node) -> None:
        self.taken_up: dict[int, frozenset[str]] = {}
        node._publishers.append(self)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take note of what there is now."""
        names = frozenset(acl.pattern.name for acl in image.acls.by_id.values())
        self.taken_up[image.offset_epoch.offset] = names


def at_controller(cluster: LocalCluster, node: LocalNode) -> FramePeer:
    """Log in at a controller itself, whatever is the matter with the network between nodes."""
    assert node.plan.controller is not None
    peer = FramePeer(node.plan.controller.bound, ca=cluster.plan.files.ca)
    assert peer.login("controller", cluster.plan.secrets.controller).error_code == 0
    return peer


def changed(cluster: LocalCluster, node: LocalNode, key: ApiKey, **fields: Any) -> list[int]:
    with at_controller(cluster, node) as peer:
        answer = peer.call(build(key, **fields))
    return [r.error_code for r in (answer.results if key is K.CREATE_ACLS else answer.filter_results)]


@pytest.mark.requirement("A-12", "A-13")
def test_what_a_parted_controller_cannot_commit_never_was(barnabas_clusters: Callable[..., LocalCluster]) -> None:
    cluster = barnabas_clusters(controllers=3, brokers=1, proxied=True, properties=QUICK_QUORUM)
    lines = {node.node_id: Timeline(node.node) for node in cluster}
    assert changed(cluster, cluster.active_controller(), K.CREATE_ACLS, creations=[rule("kept")]) == [0]
    parted = cluster.active_controller()
    cluster.network.isolate(parted.node_id)
    lost = changed(cluster, parted, K.CREATE_ACLS, creations=[rule("lost"), rule("kept", "everybody")])
    assert 0 not in lost
    others = [n for n in cluster.controllers if n is not parted]
    successor = cluster.wait_for(
        lambda: next((n for n in others if n.node.controller.is_active), None), lambda n: n is not None, "a successor"
    )
    assert successor is not None
    assert changed(cluster, successor, K.CREATE_ACLS, creations=[rule("later")]) == [0]
    cluster.network.heal()

    def rules() -> list[set[str]]:
        return [{acl.pattern.name for acl in n.node.image().acls.by_id.values()} for n in cluster]

    wanted = {"kept", "later"}
    cluster.wait_for(rules, lambda found: all(one == wanted for one in found), "the same rules everywhere")
    described = cluster.ask(lambda admin: admin.describe_acls(AclBindingFilter()))
    assert sorted((d.pattern.name, d.principal) for d in described) == [("kept", "User:bob"), ("later", "User:bob")]
    # Whatever a node took up at some offset, the others took up there too, or passed over in one step.
    everything: dict[int, frozenset[str]] = {}
    for line in lines.values():
        for offset, names in line.taken_up.items():
            assert everything.setdefault(offset, names) == names
    assert set().union(*everything.values()) == wanted


@pytest.mark.requirement("A-18")
def test_a_snapshot_is_taken_up_as_one_change(barnabas_clusters: Callable[..., LocalCluster]) -> None:
    """Before: all but one. After: that one alone. The changes between lead through neither, and must not be seen."""
    keys = {
        **PLAIN_TOO, **QUICK_QUORUM,
        "metadata.log.max.record.bytes.between.snapshots": "3000", "metadata.max.retention.bytes": "0",
        "internal.metadata.log.segment.bytes": "4096", "broker.session.timeout.ms": "60000",
    }  # fmt: skip
    cluster = barnabas_clusters(
        controllers=1, brokers=1, proxied=True, properties={**PLAIN_TOO, **QUICK_QUORUM, **keys}
    )
    controller, broker = cluster.controllers[0], cluster.brokers[0]
    before = [rule(SECRET, deny=True), rule("*")]
    assert changed(cluster, controller, K.CREATE_ACLS, creations=before) == [0, 0]
    cluster.wait_for(broker.node.acl_count, lambda count: count == len(before), "the rules at the broker")
    address = broker.plan.client
    assert address is not None

    def connect() -> FramePeer:
        peer = FramePeer(address.told, ca=cluster.plan.files.ca)
        peer.login("bob")
        return peer

    old, new = frozenset(OTHERS), frozenset({SECRET})
    with Hammer(connect) as bob:
        bob.wait_for(old)
        loaded = broker.node.kraft.metadata.snapshots_loaded
        cluster.network.partition(broker.node_id, controller.node_id)
        cluster.network.reset(broker.node_id, controller.node_id)  # or the answer on its way would come at the end
        for one in before:
            assert changed(cluster, controller, K.DELETE_ACLS, filters=[filter_of(one)]) == [0]
        for n in range(150):
            assert changed_quickly(cluster, controller, [rule(f"filler-{n}", "nobody"), rule(f"more-{n}", "nobody")])
        assert changed(cluster, controller, K.CREATE_ACLS, creations=[rule(SECRET)]) == [0]
        # An earlier snapshot, with the log after it, would lead through what lies between.
        end = controller.node.replica.applied_offset
        work = controller.node.kraft.controller.snapshot()
        asyncio.run_coroutine_threadsafe(work, controller.node.loop).result(30)
        cluster.wait_for(
            lambda: controller.node.replica.files.start_offset, lambda at: at >= end, "a log that begins later"
        )
        bob.wait_for(old)
        cluster.network.heal()
        bob.wait_for(new)
    assert broker.node.kraft.metadata.snapshots_loaded > loaded
    assert set(bob.seen) == {old, new}


def changed_quickly(cluster: LocalCluster, node: LocalNode, rules: list[dict[str, Any]]) -> bool:
    """Create rules by the node's own way to its controller, without a login for each."""
    work = node.node.channel.call(build(K.CREATE_ACLS, creations=rules), 3)
    answer = asyncio.run_coroutine_threadsafe(work, node.node.loop).result(30)
    return {r.error_code for r in answer.results} == {0}
