"""Who is to write which markers, and when a transaction is at its end."""

from __future__ import annotations

import random

import pytest

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.ending import Ending
from barnabas.core.transactions.marking import NO_LEADER, Marking
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

E = ErrorCode
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {A0: 1, A1: 2, B0: 1}


def ending(*partitions: TopicPartition, who: str = "t", epoch: int = 3, producer_id: int = 7) -> Ending:
    return Ending(who, Producer(producer_id, epoch), True, frozenset(partitions), 5, 2, 40)


def asked_of(request: WriteTxnMarkersRequest) -> set[tuple[int, TopicPartition]]:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition))
        for marker in request.markers
        for topic in marker.topics
        for partition in topic.partition_indexes
    }


def answer(request: WriteTxnMarkersRequest, error: ErrorCode = E.NONE) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=p, error_code=error)
                            for p in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def test_each_leader_is_asked_for_its_partitions_and_the_last_answer_ends_it() -> None:
    marking = Marking()
    one = ending(A0, A1, B0)
    marking.begin(0, [one])
    requests = marking.due(LEADERS.get)
    assert {broker: asked_of(r) for broker, r in requests.items()} == {1: {(7, A0), (7, B0)}, 2: {(7, A1)}}
    (marker,) = requests[2].markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (3, True, 5)
    assert marker.transaction_version == 2
    assert marking.answered(1, answer(requests[1]))
    assert marking.finished() == []
    assert marking.answered(2, answer(requests[2]))
    assert marking.finished() == [(0, one)]
    assert (len(marking), marking.finished()) == (0, [])


def test_a_broker_is_asked_one_thing_at_a_time() -> None:
    marking = Marking()
    marking.begin(0, [ending(A0)])
    first = marking.due(LEADERS.get)[1]
    marking.begin(0, [ending(B0, who="u", producer_id=8), ending(A0, who="v", producer_id=9)])
    assert marking.due(LEADERS.get) == {}
    marking.answered(1, answer(first))
    assert asked_of(marking.due(LEADERS.get)[1]) == {(8, B0), (9, A0)}


@pytest.mark.parametrize(
    "error",
    [E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR, None],
)
def test_what_is_not_written_is_asked_again_of_who_leads_then(error: ErrorCode | None) -> None:
    marking = Marking()
    marking.begin(0, [ending(A0, A1)])
    requests = marking.due(LEADERS.get)
    assert marking.answered(2, answer(requests[2]))
    assert not marking.answered(1, None if error is None else answer(requests[1], error))
    assert {broker: asked_of(r) for broker, r in marking.due({A0: 3}.get).items()} == {3: {(7, A0)}}


@pytest.mark.parametrize("error", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_an_ending_that_was_overtaken_is_dropped(error: ErrorCode) -> None:
    marking = Marking()
    marking.begin(0, [ending(A0, A1)])
    requests = marking.due(LEADERS.get)
    assert marking.answered(1, answer(requests[1], error))
    assert marking.answered(2, answer(requests[2]))
    assert (len(marking), marking.finished()) == (0, [])


def test_a_partition_without_leader_waits_and_one_that_is_gone_does_not() -> None:
    marking = Marking()
    one = ending(A0, A1)
    marking.begin(0, [one])
    assert marking.due({A0: NO_LEADER}.get) == {}
    assert marking.finished() == []
    assert marking.waits
    marking.look_again()
    assert marking.due(lambda tp: None) == {}
    assert not marking.waits
    assert marking.finished() == [(0, one)]


def test_one_without_partitions_is_at_its_end() -> None:
    marking = Marking()
    marking.begin(4, [ending()])
    assert marking.finished() == [(4, ending())]


def test_another_ending_of_the_same_id_takes_the_place_of_the_first() -> None:
    marking = Marking()
    marking.begin(0, [ending(A0)])
    first = marking.due(LEADERS.get)[1]
    later = ending(A0, epoch=4)
    marking.begin(0, [later])
    assert marking.answered(1, answer(first))
    assert marking.finished() == []
    assert marking.answered(1, answer(marking.due(LEADERS.get)[1]))
    assert marking.finished() == [(0, later)]


def test_a_shard_that_is_given_up_is_forgotten() -> None:
    marking = Marking()
    marking.begin(0, [ending(A0)])
    marking.begin(1, [ending(B0, who="u", producer_id=8)])
    request = marking.due(LEADERS.get)[1]
    marking.forget(0)
    marking.answered(1, answer(request))
    assert marking.finished() == [(1, ending(B0, who="u", producer_id=8))]


def leaders_of(partitions: list[TopicPartition], chance: random.Random, *, calm: bool) -> dict[TopicPartition, int]:
    return {tp: chance.choice([0, 1, 2] if calm else [NO_LEADER, 0, 1, 2]) for tp in partitions}


@pytest.mark.sim
def test_every_ending_comes_to_its_end(sim_seed: int) -> None:
    chance = random.Random(sim_seed)
    partitions = [TopicPartition("t", n) for n in range(6)]
    marking, wanted, written = Marking(), {}, set()
    asked: dict[int, WriteTxnMarkersRequest] = {}
    for number in range(30):
        some = frozenset(chance.sample(partitions, chance.randint(0, 4)))
        wanted[number] = Ending(f"t{number}", Producer(number, 0), bool(number % 2), some, 0, 0, number)
    left, finished = list(wanted.values()), []
    for turn in range(10_000):
        if left and chance.random() < 0.3:
            marking.begin(chance.randint(0, 3), [left.pop()])
        calm = turn > 500
        leaders = leaders_of(partitions, chance, calm=calm)
        if turn % 10 == 0:
            marking.look_again()
        for broker, request in marking.due(leaders.get).items():
            assert broker not in asked
            asked[broker] = request
        if asked and chance.random() < 0.7:
            broker = chance.choice(sorted(asked))
            request = asked.pop(broker)
            outcome = chance.random()
            if outcome < 0.3 and not calm:
                marking.answered(broker, None)
            elif outcome < 0.6 and not calm:
                marking.answered(broker, answer(request, E.NOT_LEADER_OR_FOLLOWER))
            else:
                written |= asked_of(request)
                marking.answered(broker, answer(request))
        for _, done in marking.finished():
            assert {(done.producer.producer_id, tp) for tp in done.partitions} <= written
            finished.append(done)
        if not left and not len(marking):
            break
    assert len(finished) == len(wanted)
    assert set(finished) == set(wanted.values())
