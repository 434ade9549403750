"""Nodes whose process has ended are noticed at once: the timeouts here are longer than any test may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.testing.local import LocalCluster
from barnabas.testing.nodes import NodesCluster
from barnabas.testing.processes import Barnabas, NodeProcess, ProcessCluster, Software
from tests.peers.apache import ApacheKafka

from .looking import registered, wait

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
PATIENT = {
    "broker.session.timeout.ms": "600000",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600000",
    "auto.leader.rebalance.enable": "false",
}
LEVELS = {"share.version": 0, "streams.version": 0}


def create(cluster: NodesCluster[NodeProcess], topic: str, *replicas: int, by: NodeProcess | None = None) -> None:
    async def made(admin: Admin) -> None:
        [error] = (await admin.create_topics([NewTopic(topic, assignments={0: list(replicas)})])).values()
        assert error is None

    cluster.ask(made, by.bootstrap if by is not None else "")


def leader(cluster: NodesCluster[NodeProcess], topic: str, witness: NodeProcess) -> int:
    async def found(admin: Admin) -> int:
        topics = await admin.topics()
        return topics[topic].partitions[0].leader if topic in topics else -1

    return cluster.ask(found, witness.bootstrap)


def test_a_node_that_is_killed_loses_its_leaderships_at_once(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, combined=3, plaintext=True, properties=PATIENT) as cluster:
        active = cluster.active_controller()
        second, third = (n for n in cluster if n is not active)
        for number, first in enumerate((active, second)):
            others = [n.node_id for n in cluster if n is not first]
            create(cluster, f"led-{number}", first.node_id, *others)
        active.kill()  # the quorum and the partition need another leader, and nobody's time is up
        cluster.wait_for(lambda: leader(cluster, "led-0", third), lambda node: node != active.node_id, "another leader")
        active.start()  # and nobody thinks that an earlier run of it is alive
        create(cluster, "another", active.node_id)
        again = next(n for n in cluster if n is not cluster.active_controller() and n is not active)
        witness = next(n for n in cluster if n is not again)
        create(cluster, "led-2", again.node_id, witness.node_id)
        again.kill()
        cluster.wait_for(
            lambda: leader(cluster, "led-2", witness), lambda node: node == witness.node_id, "its follower"
        )


@pytest.mark.peer
def test_a_broker_of_apache_kafka_is_noticed_as_well(tmp_path: Path) -> None:
    def software(node_id: int) -> Software:
        return ApacheKafka() if node_id == 1 else Barnabas()

    shape = ProcessCluster(
        tmp_path, controllers=1, brokers=2, plaintext=True, properties=PATIENT, software=software, features=LEVELS
    )
    with shape as cluster:
        create(cluster, "led", 1, 2)
        cluster.node(1).kill()
        cluster.wait_for(lambda: leader(cluster, "led", cluster.node(2)), lambda node: node == 2, "its follower")


def test_a_broker_that_lives_keeps_what_it_leads_when_its_connections_break(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, controllers=1, brokers=2, plaintext=True, properties=PATIENT) as cluster:
        cluster.create_topic("led", replication_factor=2)
        [controller] = cluster.controllers
        node = controller.node
        epochs = {i: b.epoch for i, b in node.image().cluster.brokers.items()}
        before = registered(cluster, "led")

        def heard() -> dict[int, int | None]:
            return {i: node.broker_sessions.heartbeats.last_contact_ms(i, epoch) for i, epoch in epochs.items()}

        for _ in range(3):
            last = heard()
            for listener in node.listeners:
                for connection in tuple(listener.connections):
                    node.loop.call_soon_threadsafe(connection.abort, "a test breaks it")
            wait(cluster, lambda last=last: all(heard()[i] != at for i, at in last.items()), "heartbeats")  # type: ignore[misc]
        assert {i: b.epoch for i, b in node.image().cluster.brokers.items() if not b.fenced} == epochs
        after = registered(cluster, "led")
        assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)


def test_a_broker_that_was_started_anew_while_controllers_changed_is_let_in(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, controllers=3, brokers=1, plaintext=True, properties=PATIENT) as cluster:
        broker = cluster.node(1)
        for node in cluster.controllers:
            node.kill()
        broker.kill()  # nobody was there to notice
        cluster.start()
        create(cluster, "again", 1)


def test_a_new_controller_notices_as_well(tmp_path: Path) -> None:
    rarely = {**PATIENT, "broker.heartbeat.interval.ms": "120000"}
    with ProcessCluster(tmp_path, controllers=3, brokers=2, plaintext=True, properties=rarely) as cluster:
        create(cluster, "led", 1, 2)
        cluster.active_controller().kill()
        for name in ("another", "and-another"):  # its successor has heard of broker 1, which forwards these
            create(cluster, name, 2, 1, by=cluster.node(1))
        cluster.node(1).kill()
        cluster.wait_for(lambda: leader(cluster, "led", cluster.node(2)), lambda node: node == 2, "its follower")
