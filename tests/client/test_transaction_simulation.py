"""Transactions against a scripted coordinator that loses requests and answers, moves, dawdles, fences; with one seed.

- A commit that returns is what the coordinator has committed, whole; an abort that returns left nothing visible.
- Nothing is ever in two transactions, whichever answers were lost.
- Who was fenced neither writes nor commits any more, and learns of it.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from barnabas.client.admin.groups import CommittedOffset
from barnabas.client.cluster import CoordinatorKind
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer_id import ProducerId
from barnabas.client.transaction_errors import AbortableTransactionError, ProducerFencedError, Verdict, explained
from barnabas.client.transaction_manager import TransactionManager
from barnabas.client.transaction_state import Phase, TransactionState
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import DisconnectedError
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

E = ErrorCode
PASSING = (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS, E.CONCURRENT_TRANSACTIONS)
PARTITIONS = [TopicPartition("t", n) for n in range(4)]
GROUP = GroupMetadata("g", 5, "m")


@dataclass
class Scripted:
    """The coordinators of one transactional id and one group. trouble: how often something goes wrong."""

    random: Random
    version: int
    trouble: float = 0.0
    producer: ProducerId = field(default_factory=lambda: ProducerId(40, -1))
    before: ProducerId | None = None
    open: set[TopicPartition] = field(default_factory=set)
    ended: bool | None = None
    written: list[tuple[TopicPartition, str]] = field(default_factory=list)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    group_in: bool = False
    committed: list[frozenset[tuple[TopicPartition, str]]] = field(default_factory=list)
    committed_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    refuse: dict[type[Any], ErrorCode] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    forgotten: int = 0

    # The port.

    async def call(self, kind: CoordinatorKind, key: str, request: Any, max_version: int | None) -> Any:
        await asyncio.sleep(0)  # lets go, as a socket would
        row = API_KEYS[request.API_KEY]
        version = row.max_version if max_version is None else min(max_version, row.max_version)
        self.asked.append((request.NAME.removesuffix("Request"), version))
        arrived = decode(type(request), version, encode(request, version))
        trouble = self.random.random()
        if trouble < self.trouble / 3:
            raise DisconnectedError("the request was lost")
        if trouble < self.trouble / 2:
            raise ApiError(E.COORDINATOR_NOT_AVAILABLE)
        refusal = self.refuse.get(type(request), E.NONE)
        if trouble < self.trouble * 2 / 3:
            refusal = self.random.choice(PASSING)
        answer = self._answer(arrived, version, refusal)
        if self.trouble and self.random.random() < self.trouble / 3:
            raise DisconnectedError("the answer was lost")
        return decode(row.response, version, encode(answer, version))

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        self.forgotten += 1

    def transaction_version(self) -> int:
        return self.version

    def newest_init(self) -> int:
        return 5

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(0)

    # What it does.

    def _answer(self, request: Any, version: int, refusal: ErrorCode) -> Any:
        match request:
            case InitProducerIdRequest():
                return self._init(ProducerId(request.producer_id, request.producer_epoch), refusal)
            case AddPartitionsToTxnRequest():
                asked = [(t.name, p) for t in request.v3_and_below_topics for p in t.partitions]
                mine = ProducerId(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
                code = refusal or self._fenced(mine)
                if code == E.NONE:
                    self._reopen()
                    self.open |= {TopicPartition(*one) for one in asked}
                return AddPartitionsToTxnResponse(
                    results_by_topic_v3_and_below=[
                        AddPartitionsToTxnTopicResult(
                            name=topic,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=code)
                            ],
                        )
                        for topic, p in asked
                    ]
                )
            case AddOffsetsToTxnRequest():
                code = refusal or self._fenced(ProducerId(request.producer_id, request.producer_epoch))
                if code == E.NONE:
                    self._reopen()
                    self.group_in = True
                return AddOffsetsToTxnResponse(error_code=code)
            case TxnOffsetCommitRequest():
                return self._commit_offsets(request, version, refusal)
            case EndTxnRequest():
                return self._end(request, version, refusal)
        raise AssertionError(request)

    def _init(self, present: ProducerId, refusal: ErrorCode) -> InitProducerIdResponse:
        code = refusal
        if code == E.NONE and present.id >= 0 and present not in (self.producer, self.before):
            code = E.PRODUCER_FENCED
        if code != E.NONE:
            return InitProducerIdResponse(error_code=code)
        if present.id < 0 or present == self.producer:
            if self._is_open:
                self._finish(commit=False)
            self._bump()
            if present.id < 0:
                self.before = None  # a successor: nothing that the one before asks is a retry
        return InitProducerIdResponse(producer_id=self.producer.id, producer_epoch=self.producer.epoch)

    def _end(self, request: EndTxnRequest, version: int, refusal: ErrorCode) -> EndTxnResponse:
        mine = ProducerId(request.producer_id, request.producer_epoch)
        again = version >= 5 and mine == self.before and self.ended == request.committed and not self._is_open
        code = refusal or (E.NONE if again else self._fenced(mine))
        if code == E.NONE and not again:
            if self._is_open or (version >= 5 and not request.committed):
                self._finish(commit=request.committed)
                if version >= 5:
                    self._bump()
            elif self.ended != request.committed:
                code = E.INVALID_TXN_STATE
        given = self.producer if version >= 5 and code == E.NONE else ProducerId(-1, -1)
        return EndTxnResponse(error_code=code, producer_id=given.id, producer_epoch=given.epoch)

    def _commit_offsets(
        self, request: TxnOffsetCommitRequest, version: int, refusal: ErrorCode
    ) -> TxnOffsetCommitResponse:
        code = refusal or self._fenced(ProducerId(request.producer_id, request.producer_epoch))
        if code == E.NONE and version >= 5:
            self._reopen()
            self.group_in = True
        topics = []
        for topic in request.topics:
            results = []
            for p in topic.partitions:
                one = code
                if one == E.NONE and self.random.random() < self.trouble:
                    one = E.COORDINATOR_LOAD_IN_PROGRESS
                if one == E.NONE:
                    assert self.group_in, "offsets of a group that is not in the transaction"
                    self.offsets[TopicPartition(topic.name, p.partition_index)] = p.committed_offset
                results.append(TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=one))
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=results))
        return TxnOffsetCommitResponse(topics=topics)

    def write(self, mine: ProducerId, partition: TopicPartition, record: str, *, adds: bool) -> ErrorCode:
        """What the leader of a partition does with a record. adds: whether Produce came in a version that lets it."""
        if (code := self._fenced(mine)) != E.NONE:
            return code
        if adds:
            self._reopen()
            self.open.add(partition)
        assert partition in self.open, "a record of a partition that is not in the transaction"
        self.written.append((partition, record))
        return E.NONE

    @property
    def _is_open(self) -> bool:
        return bool(self.open) or self.group_in

    def _reopen(self) -> None:
        self.ended = None

    def _fenced(self, mine: ProducerId) -> ErrorCode:
        return E.NONE if mine == self.producer else E.INVALID_PRODUCER_EPOCH

    def _bump(self) -> None:
        self.before, self.producer = self.producer, ProducerId(self.producer.id, self.producer.epoch + 1)

    def _finish(self, *, commit: bool) -> None:
        if commit:
            self.committed.append(frozenset(self.written))
            self.committed_offsets |= self.offsets
        self.open, self.group_in, self.ended = set(), False, commit
        self.written, self.offsets = [], {}


def producer(coordinators: Scripted) -> TransactionManager:
    return TransactionManager(
        TransactionState("id"), coordinators, timeout_ms=60_000, waits=lambda: itertools.repeat(0.1)
    )


async def write(manager: TransactionManager, scripted: Scripted, partition: TopicPartition, record: str) -> None:
    state = manager.state
    if not state.admits(partition):
        await manager.add_partitions()
        assert state.admits(partition)
    code = scripted.write(state.producer, partition, record, adds=state.v2)
    if code != E.NONE:
        state.fail(Verdict.BUMP, explained(Verdict.BUMP, code, "id", "writing"))


async def finish(manager: TransactionManager, *, commit: bool) -> None:
    state = manager.state
    state.ending(commit=commit)
    await manager.end(commit=commit)


@pytest.mark.sim
@pytest.mark.parametrize("version", [1, 2])
async def test_what_is_committed_is_what_was_said(sim_seed: int, version: int) -> None:
    random = Random(sim_seed)
    scripted = Scripted(random, version, trouble=0.45)
    manager = producer(scripted)
    names = map(str, itertools.count())
    said: list[frozenset[tuple[TopicPartition, str]]] = []
    said_offsets: dict[TopicPartition, int] = {}
    await manager.initialize()
    for _ in range(40):
        state = manager.state
        state.begin()
        sent: set[tuple[TopicPartition, str]] = set()
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for _ in range(random.randrange(4)):
            one = (random.choice(PARTITIONS), next(names))
            await write(manager, scripted, *one)
            sent.add(one)
        if random.random() < 0.4:
            offsets = {p: CommittedOffset(random.randrange(100)) for p in random.sample(PARTITIONS, 2)}
            await manager.add_offsets(offsets, GROUP)
        lost = random.random() < 0.15
        if lost:  # a batch whose fate nobody knows
            state.fail(Verdict.BUMP, explained(Verdict.BUMP, E.NETWORK_EXCEPTION, "id", "writing"))
        commit = not lost and random.random() < 0.6
        if lost and random.random() < 0.5:
            with pytest.raises(AbortableTransactionError):
                await finish(manager, commit=True)
        await finish(manager, commit=commit)
        assert state.phase is Phase.READY
        if commit and (sent or offsets):
            said.append(frozenset(sent))
            said_offsets |= {p: o.offset for p, o in offsets.items()}
        assert scripted.committed == said
        assert scripted.committed_offsets == said_offsets
        assert state.producer == scripted.producer
        if random.random() < 0.1 and version == 2:
            scripted.version = random.choice([1, 2])
    assert said
    assert scripted.forgotten


@pytest.mark.sim
@pytest.mark.parametrize("version", [1, 2])
async def test_a_zombie_learns_that_it_is_one(sim_seed: int, version: int) -> None:
    random = Random(sim_seed)
    scripted = Scripted(random, version, trouble=0.3)
    old, new = producer(scripted), producer(scripted)
    await old.initialize()
    old.state.begin()
    moment = random.randrange(3)
    if moment > 0:
        await write(old, scripted, PARTITIONS[0], "old")
    await new.initialize()
    assert scripted.producer == new.state.producer

    async def go_on() -> None:
        if moment == 2:
            await old.add_offsets({PARTITIONS[1]: CommittedOffset(3)}, GROUP)
        else:
            await write(old, scripted, PARTITIONS[1], "zombie")
        await finish(old, commit=True)

    with pytest.raises((ProducerFencedError, AbortableTransactionError)) as refused:
        await go_on()
    if refused.type is AbortableTransactionError:  # a leader said so: the coordinator confirms it
        with pytest.raises(ProducerFencedError):
            await finish(old, commit=False)
    assert old.state.phase is Phase.FATAL_ERROR
    new.state.begin()
    await write(new, scripted, PARTITIONS[2], "new")
    await finish(new, commit=True)
    assert scripted.committed == [frozenset({(PARTITIONS[2], "new")})]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_versions_that_tell_the_coordinator_which_protocol_is_spoken(version: int) -> None:
    scripted = Scripted(Random(1), version)
    manager = producer(scripted)
    await manager.initialize()
    manager.state.begin()
    await write(manager, scripted, PARTITIONS[0], "x")
    await manager.add_offsets({PARTITIONS[0]: CommittedOffset(1)}, GROUP)
    await finish(manager, commit=True)
    names = [name for name, _ in scripted.asked]
    if version == 2:
        assert scripted.asked == [("InitProducerId", 5), ("TxnOffsetCommit", 5), ("EndTxn", 5)]
    else:
        assert names == ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
        assert [version for _, version in scripted.asked[1:]] == [3, 4, 4, 4]


@pytest.mark.parametrize("commit", [True, False])
async def test_an_empty_transaction_is_the_coordinators_no_business(commit: bool) -> None:
    scripted = Scripted(Random(1), 1)
    manager = producer(scripted)
    await manager.initialize()
    manager.state.begin()
    await finish(manager, commit=commit)
    assert [name for name, _ in scripted.asked] == ["InitProducerId"]


async def test_a_cluster_that_goes_over_to_version_2_bumps_the_epoch_once() -> None:
    scripted = Scripted(Random(1), 1)
    manager = producer(scripted)
    await manager.initialize()
    manager.state.begin()
    await write(manager, scripted, PARTITIONS[0], "x")
    scripted.version = 2
    await finish(manager, commit=True)
    assert scripted.asked[-2:] == [("EndTxn", 4), ("InitProducerId", 5)]
    assert manager.state.producer == scripted.producer == ProducerId(40, 1)
    manager.state.begin()
    await write(manager, scripted, PARTITIONS[0], "y")
    await finish(manager, commit=True)
    assert scripted.asked[-1] == ("EndTxn", 5)
    assert len(scripted.committed) == 2


@pytest.mark.parametrize(
    ("request_type", "code", "phase"),
    [
        (AddPartitionsToTxnRequest, E.TOPIC_AUTHORIZATION_FAILED, Phase.ABORTABLE_ERROR),
        (AddPartitionsToTxnRequest, E.UNKNOWN_PRODUCER_ID, Phase.ABORTABLE_ERROR),
        (AddPartitionsToTxnRequest, E.INVALID_PRODUCER_ID_MAPPING, Phase.FATAL_ERROR),
        (EndTxnRequest, E.TRANSACTION_ABORTABLE, Phase.ABORTABLE_ERROR),
        (EndTxnRequest, E.INVALID_TXN_STATE, Phase.FATAL_ERROR),
    ],
)
async def test_a_refusal_leaves_the_state_that_it_should(
    request_type: type[Any], code: ErrorCode, phase: Phase
) -> None:
    scripted = Scripted(Random(1), 1, refuse={request_type: code})
    manager = producer(scripted)
    await manager.initialize()
    manager.state.begin()

    async def go_on() -> None:
        await write(manager, scripted, PARTITIONS[0], "x")
        await finish(manager, commit=True)

    with pytest.raises(ApiError) as refused:
        await go_on()
    assert (refused.value.code, manager.state.phase) == (code, phase)
    if phase is Phase.ABORTABLE_ERROR:
        scripted.refuse.clear()
        await finish(manager, commit=False)
        assert manager.state.phase is Phase.READY
        assert not scripted.committed


async def test_a_refused_producer_id_may_be_asked_for_again() -> None:
    scripted = Scripted(Random(1), 2, refuse={InitProducerIdRequest: E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
    manager = producer(scripted)
    with pytest.raises(AbortableTransactionError):
        await manager.initialize()
    scripted.refuse.clear()
    await manager.initialize()
    assert manager.state.phase is Phase.READY
