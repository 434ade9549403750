"""New clusters that deny by default come up, whoever may let whom in, and say so when they cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from barnabas.core.metadata.scram import ScramMechanism
from barnabas.core.raft.voters import VoterSet
from barnabas.server.config import NodeConfig
from barnabas.server.format import FormatRequest, format_directories
from barnabas.server.node import Node
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.server.controllers import CLUSTER_ID
from tests.server.raft.quorums import WAIT_S, Quorum

from .quorum import asked, brief, broker, quorum_of, secured, starting

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
BROKER = 4
RULE = {
    "resource_type": 2, "resource_name": "t", "principal": "User:bob", "host": "*", "operation": 3,
    "permission_type": 3,
}  # fmt: skip


async def serves(quorum: Quorum, port: int, node: Node) -> None:
    """See that a broker does what a super user asks, by way of the controller, and nothing for anybody else."""
    async with asyncio.timeout(WAIT_S):
        await node.start()
    try:
        strangers = await asked(port, "alice", ApiKey.CREATE_ACLS, creations=[RULE])
        assert [r.error_code for r in strangers.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        assert len(node.image().acls.by_id) == 0
        assert node.live_broker_ids() == {BROKER}
    finally:
        await node.stop()


@pytest.mark.requirement("A-20")
async def test_it_forms_by_super_users(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    own = {BROKER: {**secured("broker"), **broker(port)}}
    quorum = quorum_of(tmp_path, others=(BROKER,), settings=secured(), own=own)
    quorum.format(BROKER)
    async with brief(quorum):
        await serves(quorum, port, Node(NodeConfig.parse(quorum.properties(BROKER))))


@pytest.mark.requirement("A-21")
async def test_it_forms_without_super_users_where_what_no_rule_is_about_is_open(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    settings = secured(super__users="", allow__everyone__if__no__acl__found="true")
    quorum = quorum_of(tmp_path, others=(BROKER,), settings=settings, own={BROKER: broker(port)})
    quorum.format(BROKER)
    async with brief(quorum):
        node = Node(NodeConfig.parse(quorum.properties(BROKER)))
        async with asyncio.timeout(WAIT_S):
            await node.start()
        try:
            grants = [{**RULE, "resource_type": 4, "resource_name": "kafka-cluster", "principal": p, "operation": 2}
                      for p in ("User:ctl", "User:root")]  # fmt: skip
            answer = await asked(port, "alice", ApiKey.CREATE_ACLS, creations=grants)
            assert [r.error_code for r in answer.results] == [0, 0]
            while len(node.image().acls.by_id) < 2:
                await node.next_image()
            refused = await asked(port, "alice", ApiKey.CREATE_ACLS, creations=[RULE])
            assert [r.error_code for r in refused.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        finally:
            await node.stop()
    # Nobody is a super user, and all are down at once: they know each other by what their own logs say.
    async with brief(quorum):
        leader = await quorum.leader()
        assert len(leader.image().acls.by_id) == 2


@pytest.mark.requirement("A-17")
async def test_a_node_that_comes_back_is_not_open_to_those_that_a_rule_shuts_out(tmp_path: Path) -> None:
    settings = secured(super__users="User:root", allow__everyone__if__no__acl__found="true")
    quorum = quorum_of(tmp_path, settings=settings)
    among_nodes = {**RULE, "resource_type": 4, "resource_name": "kafka-cluster", "principal": "User:ctl"}
    async with brief(quorum):
        leader = await quorum.leader()
        port = quorum.ports[leader.config.node_id]
        answer = await asked(port, "root", ApiKey.CREATE_ACLS, creations=[{**among_nodes, "operation": 9}])
        assert [r.error_code for r in answer.results] == [0]
        await quorum.agree()
    async with starting(quorum, 1):
        vote = await asked(quorum.ports[1], "alice", ApiKey.VOTE)
        own = await asked(quorum.ports[1], "ctl", ApiKey.VOTE)
    assert vote.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert own.error_code != ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.requirement("H-18")
async def test_who_is_not_let_in_is_named_as_he_is_seen(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, settings=secured(super__users="User:CTL;User:root"))
    event = "a peer is refused: its principal may not take part in the cluster"

    def told(lines: Sequence[object]) -> list[dict[str, str]]:
        return [line for line in lines if isinstance(line, dict) and line["event"] == event]

    with capture_logs() as lines:
        async with starting(quorum, 1), starting(quorum, 2), asyncio.timeout(WAIT_S):
            while len(told(lines)) < 2:  # noqa: ASYNC110 - log lines have no event
                await asyncio.sleep(0.05)
            for _ in range(20):
                await asked(quorum.ports[1], "ctl", ApiKey.VOTE)
    # Each node tells it once of the other, however often it is asked.
    assert len(told(lines)) == 2
    line = told(lines)[0]
    assert (line["log_level"], line["principal"]) == ("error", "User:ctl")
    assert "add User:ctl to super.users" in line["remedy"]


@pytest.mark.requirement("H-18")
async def test_where_nobody_logs_in_the_peer_is_anonymous_and_told_so(tmp_path: Path) -> None:
    settings = secured(listener__security__protocol__map="CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT")
    quorum = quorum_of(tmp_path, settings=settings)
    event = "a peer is refused: its principal may not take part in the cluster"
    with capture_logs() as lines:
        async with starting(quorum, 1), starting(quorum, 2), asyncio.timeout(WAIT_S):
            while not (found := [line for line in lines if line["event"] == event]):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)
    assert (found[0]["log_level"], found[0]["principal"]) == ("error", "User:ANONYMOUS")
    assert "add User:ANONYMOUS to super.users" in found[0]["remedy"]


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class ByScram(Quorum):
    """A quorum whose nodes know each other by SCRAM, with users that `storage format --add-scram` has put there."""

    def format(self, node_id: int) -> None:
        """Format with the nodes' users."""
        directory = self.directory_of(node_id)
        first = node_id in self.voters and not self.static
        voters = VoterSet.of(self.voter(i) for i in self.voters) if first else None
        scram = [f"SCRAM-SHA-512=[name={name},password={name}-secret]" for name in ("ctl", "broker")]
        format_directories(
            FormatRequest(
                CLUSTER_ID, node_id, [directory], directory, voters=voters, dynamic=not self.static, scram=scram
            )
        )


@pytest.mark.requirement("H-22")
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
async def test_controllers_and_brokers_know_each_other_by_scram_alone(tmp_path: Path, static: bool) -> None:
    port = free_ports(1)[0]

    def by_scram(user: str) -> dict[str, str]:
        jaas = f'{SCRAM} required username="{user}" password="{user}-secret";'
        return {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.controller.scram-sha-512.sasl.jaas.config": jaas,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": jaas,
        }

    settings = {**secured(super__users="User:ctl;User:broker"), **by_scram("ctl")}
    own = {BROKER: {**broker(port), **by_scram("broker")}}
    quorum = ByScram(tmp_path, static=static, others=(BROKER,), settings=settings, own=own)
    quorum.format(BROKER)
    async with brief(quorum):
        node = Node(NodeConfig.parse(quorum.properties(BROKER)))
        async with asyncio.timeout(WAIT_S):
            await node.start()
        try:
            assert node.live_broker_ids() == {BROKER}
            users = node.image().scram.by_mechanism[ScramMechanism.SCRAM_SHA_512]
            assert set(users) == {"ctl", "broker"}
        finally:
            await node.stop()
    async with brief(quorum):
        await quorum.leader()
