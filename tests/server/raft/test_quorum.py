"""Quorums of several controllers: elections, replication, snapshots, voters that come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tests.server.controllers import CLUSTER_ID

from .quorums import Quorum, note, noted, running

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

TOPICS = [f"t{n}" for n in range(20)]


@pytest.mark.parametrize("static", [False, True])
async def test_three_controllers_hold_the_same_log_whoever_leads(tmp_path: Path, static: bool) -> None:
    async with running(Quorum(tmp_path, static=static)) as quorum:
        for term in range(2):
            leader = await quorum.leader()
            for n, topic in enumerate(TOPICS):
                await leader.controller.write(note(topic, n + 100 * term))
            await quorum.agree()
            await quorum.stop(leader.config.node_id)
            successor = await quorum.leader()
            await successor.controller.write(note("successor", successor.config.node_id))
            await quorum.start(leader.config.node_id)
        await quorum.agree()
        expected = {"successor": successor.config.node_id, **{topic: n + 100 for n, topic in enumerate(TOPICS)}}
        for node in quorum.nodes.values():
            assert noted(node.kraft.controller.committed_image, ["successor", *TOPICS]) == expected
        assert len(await quorum.logs()) == 1


async def test_a_follower_that_was_away_too_long_catches_up_by_a_snapshot(tmp_path: Path) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "3000", "metadata.max.retention.bytes": "0",
                "internal.metadata.log.segment.bytes": "4096"}  # fmt: skip
    async with running(Quorum(tmp_path, settings=settings)) as quorum:
        leader = await quorum.leader()
        away = next(i for i in quorum.voters if i != leader.config.node_id)
        left_at = await quorum.agree()
        await quorum.stop(away)
        for n in range(300):
            await leader.controller.write(note(TOPICS[n % 20], n))
        await quorum.until(lambda: leader.replica.files.start_offset > left_at)
        await quorum.start(away)
        await quorum.agree()
        late = quorum.nodes[away]
        assert late.replica.files.start_offset > left_at
        expected = {topic: 280 + n for n, topic in enumerate(TOPICS)}
        assert noted(late.kraft.controller.committed_image, TOPICS) == expected
        await quorum.stop(away)
        await leader.controller.write(note("after", 1))
        await quorum.start(away)
        await quorum.agree()
        back = quorum.nodes[away].kraft.controller
        assert noted(back.committed_image, ["after", *TOPICS]) == {"after": 1, **expected}


async def test_voters_join_by_themselves_and_leave_when_they_are_told_to(tmp_path: Path) -> None:
    # Who wants to join asks as often as it would look for another leader.
    joining = {"controller.quorum.auto.join.enable": "true", "controller.quorum.fetch.timeout.ms": "2000"}
    quorum = Quorum(tmp_path, voters=(1,), others=(2, 3), own={2: joining, 3: joining})
    async with running(quorum):
        first = quorum.nodes[1]
        await quorum.start(2)
        await quorum.start(3)
        await quorum.until(lambda: first.replica.node.control.voters.last.value.node_ids == (1, 2, 3))
        await quorum.agree()
        removed = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=1, voter_directory_id=quorum.keys[1].directory_id
        )
        answer = await first.replica.serve(removed, 0, "CONTROLLER")
        assert isinstance(answer, RemoveRaftVoterResponse)
        assert (answer.error_code, answer.error_message) == (0, None)
        await quorum.until(lambda: quorum.nodes[2].replica.leader.node_id in (2, 3))
        leader = await quorum.leader()
        await leader.controller.write(note("after", 1))
        await quorum.agree()
        assert not first.replica.node.is_voter
        assert noted(first.kraft.controller.committed_image, ["after"]) == {"after": 1}
        assert len(await quorum.logs()) == 1
