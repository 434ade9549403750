"""What is asked of a coordinator at once goes in one request, and each gets the answer that is its own."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.core.coordinators.step import Producer
from barnabas.model.metrics import Metrics
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import AuthenticationError, ChannelError, DisconnectedError, UnsupportedVersionError
from barnabas.net.clock import SystemClock
from barnabas.server.transactions.verifier import Errors, TransactionVerifier
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

E = ErrorCode
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Coordinators:
    """Brokers at the other end: they answer when the test says so. wrong: what they find wrong with partitions."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, AddPartitionsToTxnRequest]] = []
        self.wrong: dict[tuple[str, TopicPartition], ErrorCode] = {}
        self.failure: ChannelError | None = None
        self.error = E.NONE
        self.may_answer = asyncio.Event()

    async def call(self, broker: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.asked.append((broker, request))
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=p,
                                partition_error_code=self.wrong.get(
                                    (transaction.transactional_id, TopicPartition(topic.name, p)), E.NONE
                                ),
                            )
                            for p in topic.partitions
                        ],
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in request.transactions
        ]
        return AddPartitionsToTxnResponse(error_code=self.error, results_by_transaction=results)

    def transactions(self, number: int) -> dict[str, tuple[bool, set[TopicPartition]]]:
        """Give what the n-th request asked: by transactional id whether only to verify, and the partitions."""
        return {t.transactional_id: (t.verify_only, partitions(t.topics)) for t in self.asked[number][1].transactions}


def partitions(topics: list[AddPartitionsToTxnTopic]) -> set[TopicPartition]:
    return {TopicPartition(topic.name, p) for topic in topics for p in topic.partitions}


async def begun(*questions: asyncio.Task[Errors]) -> None:
    """Let questions come as far as they get by themselves."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in questions)


async def test_what_comes_up_meanwhile_goes_with_the_next_request() -> None:
    brokers = Coordinators()
    verifier = TransactionVerifier(brokers.call, lambda transactional_id: 4, Metrics(SystemClock()))
    brokers.wrong = {("t", A0): E.INVALID_TXN_STATE}
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(verifier.verify("t", 7, 0, [A0, A1]))
        await begun(first)
        more = [
            tasks.create_task(verifier.add("u", 8, 0, [B0])),
            tasks.create_task(verifier.verify("t", 7, 0, [A0])),
            tasks.create_task(verifier.verify("t", 7, 0, [B0])),
        ]
        await begun(*more)
        assert len(brokers.asked) == 1
        brokers.may_answer.set()
    assert [task.result() for task in (first, *more)] == [{A0: E.INVALID_TXN_STATE}, {}, {A0: E.INVALID_TXN_STATE}, {}]
    assert [broker for broker, _ in brokers.asked] == [4, 4]
    assert brokers.transactions(0) == {"t": (True, {A0, A1})}
    assert brokers.transactions(1) == {"u": (False, {B0}), "t": (True, {A0, B0})}


async def test_of_two_epochs_of_a_producer_only_the_newer_is_asked_for() -> None:
    brokers = Coordinators()
    verifier = TransactionVerifier(brokers.call, lambda transactional_id: 4, Metrics(SystemClock()))
    async with asyncio.TaskGroup() as tasks:
        busy = tasks.create_task(verifier.verify("other", 1, 0, [A0]))
        await begun(busy)
        old = tasks.create_task(verifier.verify("t", 7, 1, [A0]))
        await begun(old)
        new = tasks.create_task(verifier.verify("t", 7, 2, [A0]))
        await begun(new)
        older = tasks.create_task(verifier.verify("t", 7, 0, [A0]))
        await begun(new)
        brokers.may_answer.set()
    assert (old.result(), older.result()) == ({A0: E.INVALID_PRODUCER_EPOCH}, {A0: E.INVALID_PRODUCER_EPOCH})
    assert new.result() == {}
    assert [(t.transactional_id, t.producer_epoch) for t in brokers.asked[1][1].transactions] == [("t", 2)]


@pytest.mark.parametrize(
    ("failure", "wanted"),
    [
        (DisconnectedError("gone"), {A0: E.NETWORK_EXCEPTION}),
        (AuthenticationError("who?"), {A0: E.SASL_AUTHENTICATION_FAILED}),
        (UnsupportedVersionError("too old to be asked"), {}),
    ],
)
async def test_a_coordinator_that_cannot_be_asked(failure: ChannelError, wanted: Errors) -> None:
    brokers = Coordinators()
    brokers.failure = failure
    brokers.may_answer.set()
    verifier = TransactionVerifier(brokers.call, lambda transactional_id: 4, Metrics(SystemClock()))
    assert await verifier.verify("t", 7, 0, [A0]) == wanted


@pytest.mark.parametrize(
    ("error", "wanted"),
    [(E.CLUSTER_AUTHORIZATION_FAILED, E.INVALID_TXN_STATE), (E.COORDINATOR_LOAD_IN_PROGRESS, None)],
)
async def test_a_refusal_holds_for_all_that_was_asked(error: ErrorCode, wanted: ErrorCode | None) -> None:
    brokers = Coordinators()
    brokers.error = error
    brokers.may_answer.set()
    verifier = TransactionVerifier(brokers.call, lambda transactional_id: 4, Metrics(SystemClock()))
    assert await verifier.add("t", 7, 0, [A0, B0]) == dict.fromkeys([A0, B0], wanted or error)


async def test_nobody_is_asked_while_the_transaction_log_has_no_leader() -> None:
    brokers = Coordinators()
    verifier = TransactionVerifier(brokers.call, lambda transactional_id: None, Metrics(SystemClock()))
    assert await verifier.verify("t", 7, 0, [A0]) == {A0: E.COORDINATOR_NOT_AVAILABLE}
    assert brokers.asked == []


async def test_whoever_waits_is_sent_away_when_it_closes() -> None:
    verifier = TransactionVerifier(Coordinators().call, lambda transactional_id: 4, Metrics(SystemClock()))
    asked = asyncio.create_task(verifier.verify("t", 7, 0, [A0]))
    await begun(asked)
    await verifier.close()
    assert await asked == {A0: E.NOT_LEADER_OR_FOLLOWER}


async def test_refusals_and_times_are_measured() -> None:
    brokers = Coordinators()
    brokers.may_answer.set()
    registry = Metrics(SystemClock())
    coordinators = {"t": 4}
    verifier = TransactionVerifier(brokers.call, coordinators.get, registry)
    assert await verifier.verify("t", 7, 0, [A0]) == {}
    brokers.error = E.COORDINATOR_LOAD_IN_PROGRESS
    assert await verifier.verify("t", 7, 0, [A0, A1]) != {}
    assert await verifier.verify("nobody looks after it", 7, 0, [A0]) != {}
    measured = dict(registry.values("kafka.server:type=AddPartitionsToTxnManager,*"))
    rate, times = (
        measured[f"kafka.server:type=AddPartitionsToTxnManager,name={name}"]
        for name in ("VerificationFailureRate", "VerificationTimeMs")
    )
    assert (rate["Count"], rate["EventType"]) == (3, "failures")
    assert times["Count"] == 2, "of those who were asked"


class Own:
    """The coordinator of node 4, which is the node that asks. knows: whether it can say at once."""

    node_id = 4

    def __init__(self, *, knows: bool) -> None:
        self.knows = knows

    async def add(self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]) -> Errors:
        return dict.fromkeys(partitions, E.CONCURRENT_TRANSACTIONS)

    async def verify(self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]) -> Errors:
        return {tp: E.TRANSACTION_ABORTABLE if tp == A1 else E.NONE for tp in partitions}

    def verified_at_once(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Errors | None:
        return {tp: E.TRANSACTION_ABORTABLE if tp == A1 else E.NONE for tp in partitions} if self.knows else None


async def test_the_coordinator_of_this_node_is_asked_without_a_request_and_measured_all_the_same() -> None:
    brokers, registry = Coordinators(), Metrics(SystemClock())
    brokers.may_answer.set()
    own = Own(knows=True)
    verifier = TransactionVerifier(brokers.call, {"t": 4, "elsewhere": 5}.get, registry, own=own)
    assert verifier.verified_at_once("t", 7, 0, [A0, A1]) == {A1: E.TRANSACTION_ABORTABLE}
    assert await verifier.verify("t", 7, 0, [A0, A1]) == {A1: E.TRANSACTION_ABORTABLE}
    assert await verifier.add("t", 7, 0, [A0]) == {A0: E.CONCURRENT_TRANSACTIONS}
    assert brokers.asked == []
    measured = dict(registry.values("kafka.server:type=AddPartitionsToTxnManager,*"))
    counts = [measured[name]["Count"] for name in sorted(measured)]
    assert counts == [3, 3], "failures, and questions"


async def test_nobody_says_at_once_what_has_to_be_waited_for() -> None:
    brokers = Coordinators()
    coordinators = {"t": 4, "elsewhere": 5}.get
    alone = TransactionVerifier(brokers.call, coordinators, Metrics(SystemClock()))
    busy = TransactionVerifier(brokers.call, coordinators, Metrics(SystemClock()), own=Own(knows=False))
    knows = TransactionVerifier(brokers.call, coordinators, Metrics(SystemClock()), own=Own(knows=True))
    assert alone.verified_at_once("t", 7, 0, [A0]) is None
    assert busy.verified_at_once("t", 7, 0, [A0]) is None
    assert [knows.verified_at_once(name, 7, 0, [A0]) for name in ("t", "elsewhere", "nobody's")] == [{}, None, None]
