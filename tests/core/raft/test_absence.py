"""What a leader's address that refuses connections means.

A voter asks for votes soon, and is stopped where the leader lives; an observer asks the other controllers who leads.
"""

from __future__ import annotations

from typing import ClassVar

from barnabas.core.raft.absence import ELSEWHERE_MS, FIRST_TURN_MS, TURN_MS
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


class Observer(Quorum):
    """Node 1 as a broker: it votes nowhere, and knows the address of its leader and one other."""

    bootstrap: ClassVar[tuple[Endpoint, ...]] = (LEADER, Endpoint("host2", 9002))


def observing() -> tuple[Observer, Outgoing]:
    """Give an observer, and the fetch that it has under way at its leader."""
    observer = Observer(voters=0)
    observer.node.request(1, begin(3, EPOCH), 1, "CONTROLLER", observer.now)
    [under_way] = sent(observer)
    assert under_way.to.endpoint == LEADER
    return observer, under_way


def led_by(leader: int, epoch: int, host: str) -> fetch.FetchResponse:
    """Give the answer of a controller that does not lead."""
    partition = fetch.PartitionData(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
    )
    return fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic=TOPIC, partitions=[partition])],
        node_endpoints=[fetch.NodeEndpoint(node_id=leader, host=host, port=1)],
    )


def test_an_observer_hears_of_the_next_leader_from_another_controller() -> None:
    observer, _ = observing()
    observer.node.absent(LEADER, observer.now)
    [asked] = sent(observer)
    assert asked.to.endpoint == Endpoint("host2", 9002)
    observer.node.response(asked.request_id, led_by(2, EPOCH + 1, "next"), observer.now)
    [fetches] = sent(observer)
    assert (fetches.to.node_id, fetches.to.endpoint) == (2, Endpoint("next", 1))


def test_an_observer_goes_on_asking_while_nobody_else_leads_and_tries_the_leader_again() -> None:
    observer, _ = observing()
    observer.node.absent(LEADER, observer.now)
    asked: list[Endpoint] = []
    until = observer.now + ELSEWHERE_MS
    while observer.now < until:
        for outgoing in sent(observer):
            asked.append(outgoing.to.endpoint)
            observer.node.response(outgoing.request_id, led_by(3, EPOCH, LEADER.host), observer.now)
        deadline = observer.node.next_deadline_ms()
        assert deadline is not None
        assert deadline > observer.now, "an answer without news is no reason to ask again at once"
        observer.now = deadline
        observer.node.tick(observer.now)
    assert set(asked) == {Endpoint("host2", 9002)}
    [again] = sent(observer)
    assert again.to.endpoint == LEADER


class Alone(Quorum):
    """An observer that knows no other controller than its leader."""

    bootstrap: ClassVar[tuple[Endpoint, ...]] = (LEADER,)


def test_who_has_nobody_else_to_ask_asks_the_leader() -> None:
    observer = Alone(voters=0)
    observer.node.request(1, begin(3, EPOCH), 1, "CONTROLLER", observer.now)
    sent(observer)
    observer.node.absent(LEADER, observer.now)
    observer.now += 20
    observer.node.tick(observer.now)
    assert [outgoing.to.endpoint for outgoing in sent(observer)] == [LEADER]
