"""A voter whose leader's address refuses connections: it asks for votes soon, and is stopped where the leader lives."""

from __future__ import annotations

from barnabas.core.raft.absence import FIRST_TURN_MS, TURN_MS
from barnabas.core.raft.candidate import Candidate
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.follower import Follower
from barnabas.core.raft.prospective import Prospective
from barnabas.core.raft.ready import Outgoing
from barnabas.core.raft.voters import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch, vote

from .test_requests import TOPIC, Quorum, begin, vote_for, voted

EPOCH = 3
LEADER = Endpoint("moved", 1)
"""Where `begin` says that it is."""


def sent(quorum: Quorum) -> list[Outgoing]:
    return [outgoing for ready in quorum.carry() for outgoing in ready.requests]


def following(leader: int) -> tuple[Quorum, Outgoing]:
    """Give node 1 of three voters, which has heard from its leader, and the fetch that is under way."""
    quorum = Quorum()
    quorum.node.request(1, begin(leader, EPOCH), 1, "CONTROLLER", quorum.now)
    [first] = sent(quorum)
    quorum.node.response(first.request_id, fetched(leader), quorum.now)
    [under_way] = sent(quorum)
    return quorum, under_way


def fetched(leader: int) -> fetch.FetchResponse:
    led = fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=EPOCH)
    partition = fetch.PartitionData(high_watermark=0, current_leader=led, records=b"")
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic=TOPIC, partitions=[partition])])


def would_vote(quorum: Quorum, other: int) -> bool:
    error, granted = voted(quorum.ask(vote_for(other, EPOCH, pre=True), vote.VoteResponse))
    assert error == ErrorCode.NONE
    return granted


def answered(quorum: Quorum, request: Outgoing, *, granted: bool) -> None:
    partition = vote.ResponsePartitionData(leader_id=2, leader_epoch=EPOCH, vote_granted=granted)
    topic = vote.ResponseTopicData(topic_name=TOPIC, partitions=[partition])
    quorum.node.response(request.request_id, vote.VoteResponse(topics=[topic]), quorum.now)


def standing(leader: int) -> tuple[Quorum, Outgoing]:
    """Give a voter whose turn has come, and what it asks the voter that is left."""
    quorum, _ = following(leader)
    quorum.node.absent(LEADER, quorum.now)
    quorum.now += FIRST_TURN_MS
    quorum.node.tick(quorum.now)
    asked = next(o for o in sent(quorum) if o.to.node_id not in (leader, 1))
    return quorum, asked


def test_it_stands_in_its_turn_and_would_vote_for_another_until_then() -> None:
    quorum, _ = following(2)
    assert not would_vote(quorum, 3)
    quorum.node.absent(LEADER, quorum.now)
    assert isinstance(quorum.node.role, Follower)
    assert would_vote(quorum, 3)
    assert quorum.node.next_deadline_ms() == quorum.now + FIRST_TURN_MS
    quorum.node.tick(quorum.now + FIRST_TURN_MS)
    assert isinstance(quorum.node.role, Prospective)
    assert quorum.node.epoch == EPOCH, "nobody is disturbed before another agrees"


def test_another_address_says_nothing() -> None:
    quorum, _ = following(2)
    quorum.node.absent(Endpoint("host3", 9003), quorum.now)
    quorum.node.tick(quorum.now + 3 * TURN_MS)
    assert isinstance(quorum.node.role, Follower)
    assert not would_vote(quorum, 3)


def test_a_leader_that_answers_after_all_is_followed_on() -> None:
    quorum, under_way = following(2)
    quorum.node.absent(LEADER, quorum.now)
    quorum.node.response(under_way.request_id, fetched(2), quorum.now)
    quorum.node.tick(quorum.now + 3 * TURN_MS)
    assert isinstance(quorum.node.role, Follower)
    assert not would_vote(quorum, 3)


def test_the_vote_of_the_voter_that_is_left_is_enough() -> None:
    quorum, asked = standing(2)
    answered(quorum, asked, granted=True)
    assert isinstance(quorum.node.role, Candidate)


def test_who_is_refused_goes_back_at_once_and_may_ask_again() -> None:
    quorum, asked = standing(2)
    answered(quorum, asked, granted=False)
    assert isinstance(quorum.node.role, Follower)
    assert quorum.node.epoch == EPOCH
    quorum.node.absent(LEADER, quorum.now)
    quorum.node.tick(quorum.now + FIRST_TURN_MS)
    assert isinstance(quorum.node.role, Prospective)


def test_who_follows_nobody_takes_no_notice() -> None:
    quorum = Quorum(saved=ElectionState(EPOCH))
    before = quorum.node.role
    quorum.node.absent(LEADER, quorum.now)
    assert quorum.node.role is before
