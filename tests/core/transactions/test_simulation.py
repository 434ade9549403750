"""Producers that share transactional ids, crash, time out and come back, on virtual time with one seed.

The log commits late, sometimes refuses, and changes hands with or without its uncommitted end; answers get lost;
markers are written in any order, and by coordinators of the past. Invariants:

- A producer id and epoch belong to one client. A producer id's epoch never goes back, nor does the producer id.
- A state follows only a state that leads to it, so what is decided completes with that outcome, whoever completes it.
- Only the owner commits, and only with all that it was told to be in the transaction.
- All markers of a transaction say the same.
- Replaying what was written gives the live image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Now, Producer, Step
from barnabas.core.transactions import records
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.ending import Ending
from barnabas.core.transactions.image import TransactionImage
from barnabas.core.transactions.metadata import MAX_EPOCH, TransactionMetadata
from barnabas.core.transactions.shard import TransactionShard
from barnabas.core.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ENDING,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS_STATES,
    SETTLED,
)
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.records.transaction_log_key import TransactionLogKey
from barnabas.wire.records.transaction_log_value import TransactionLogValue
from tests.core.transactions.driving import WALL_START_MS, written

E = ErrorCode
NAMES = ("a", "b", "c")
PARTITIONS = tuple(TopicPartition("t", n) for n in range(3))
CONFIG = TransactionConfig(
    abort_timed_out_interval_ms=1_000, id_expiration_ms=150_000, remove_expired_interval_ms=20_000
)
TRY_AGAIN = (E.CONCURRENT_TRANSACTIONS, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS)
LOST = (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_TXN_STATE)


@dataclass(eq=False)
class Client:
    """What a producer knows.

    bumps: it acts by the rules of transaction.version 2. outcome: what it waits to hear of. rests_until_ms: for how
    long it leaves the transactional id to whoever fenced it.
    """

    number: int
    name: str
    bumps: bool = False
    producer: Producer | None = None
    added: set[TopicPartition] = field(default_factory=set)
    outcome: bool | None = None
    recovers: bool = False
    waits: bool = False
    rests_until_ms: int = 0

    def restart(self) -> None:
        self.producer, self.outcome, self.recovers = None, None, False
        self.added.clear()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told once the log is committed up to `after`; receive: takes the response, or an error."""

    after: int
    client: Client
    response: Any
    receive: Callable[[Client, Any], None]


class Simulation:
    """The clients, the coordinator and its log. The epochs are soon exhausted."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.level = self.rng.randrange(3)
        self.now_ms = 0
        self.epoch = 0
        self.last_producer_id = 0
        self.log: list[CoordinatorRecord] = []
        self.images = [TransactionImage()]
        self.committed = 0
        self.answers: list[Answer] = []
        self.under_way: list[tuple[int, Ending]] = []
        self.owners: dict[Producer, int] = {}
        self.markers: dict[tuple[str, int], set[bool]] = {}
        self.counts = dict.fromkeys(("commits", "aborts", "fenced", "rotated", "late markers", "take-overs"), 0)
        self.clients = [Client(n, name) for n, name in enumerate("aaabbc")]
        for name in NAMES:
            epoch = self.rng.randint(32_750, 32_766)
            self.given(TransactionMetadata(name, self.new_producer_id(), epoch, 3_000, WALL_START_MS))
        self.take_over()

    # the log

    def given(self, metadata: TransactionMetadata) -> None:
        record = written(records.transaction(metadata, 0))
        self.log.append(record)
        self.images.append(self.images[-1].with_transaction(metadata, len(self.log) - 1))
        self.committed += 1

    def new_producer_id(self) -> int:
        self.last_producer_id += 1
        return self.last_producer_id

    @property
    def now(self) -> Now:
        return Now(WALL_START_MS + self.now_ms, self.now_ms)

    def take_over(self) -> None:
        """Another coordinator begins with what is committed, and perhaps with more."""
        kept = self.rng.randint(self.committed, len(self.log))
        del self.log[kept:], self.images[kept + 1 :]
        self.epoch += 1
        self.counts["take-overs"] += 1
        self.shard = TransactionShard(CONFIG, self.epoch, self.new_producer_id, lambda: self.level)
        for offset, record in enumerate(self.log):
            self.shard.replay(record, At(offset))
        assert self.shard.image == self.images[-1]
        self.carry(self.shard.loaded(self.now))
        unanswered, self.answers = self.answers, []
        for answer in unanswered:
            answer.receive(answer.client, E.NOT_COORDINATOR)

    def carry(self, step: Step[Any]) -> bool:
        """Append what the step wants; False when the log did not take it: then the shell takes the image back."""
        if step.records and self.rng.random() < 0.02:
            before = self.shard.image
            for offset, record in enumerate(step.records, len(self.log)):
                self.shard.replay(written(record), At(offset))
            self.shard.image = before
            return False
        for record in step.records:
            back = written(record)
            self.check_move(back)
            self.shard.replay(back, At(len(self.log)))
            self.log.append(back)
            self.images.append(self.shard.image)
        return True

    def ask(self, client: Client, step: Step[Any], receive: Callable[[Client, Any], None]) -> None:
        client.waits = True
        if self.carry(step):
            self.answers.append(Answer(len(self.log), client, step.response, receive))
        else:
            receive(client, E.NOT_COORDINATOR)

    def commit(self, up_to: int) -> None:
        self.committed = max(self.committed, up_to)
        told = [a for a in self.answers if a.after <= self.committed]
        self.answers = [a for a in self.answers if a.after > self.committed]
        for answer in told:
            lost = self.rng.random() < 0.05
            answer.receive(answer.client, E.NOT_COORDINATOR if lost else answer.response)

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            step = self.shard.tick(self.now)
            if step is not None:
                self.carry(step)
        self.now_ms = end

    # the markers

    def begin_markers(self) -> None:
        image = self.images[self.committed]
        for ending in self.shard.decided(image):
            self.under_way.append((self.prepared_at(ending.transactional_id, self.committed), ending))

    def prepared_at(self, name: str, end: int) -> int:
        return max(
            offset
            for offset, record in enumerate(self.log[:end])
            if isinstance(record.key, TransactionLogKey)
            and record.key.transactional_id == name
            and isinstance(record.value, TransactionLogValue)
            and record.value.transaction_status in ENDING
        )

    def end_markers(self) -> None:
        if not self.under_way:
            return
        prepared_at, ending = self.under_way.pop(self.rng.randrange(len(self.under_way)))
        said = self.markers.setdefault((ending.transactional_id, prepared_at), set())
        said.add(ending.commit)
        assert len(said) == 1
        step = self.shard.marked(ending, self.now)
        if step.records:
            assert self.prepared_at(ending.transactional_id, len(self.log)) == prepared_at
        else:
            self.counts["late markers"] += 1
        if not self.carry(step) or self.rng.random() < 0.2:  # it may be noted that the end is known, and noted again
            self.under_way.append((prepared_at, ending))

    # the clients

    def act(self, client: Client) -> None:
        if client.waits or client.rests_until_ms > self.now_ms:
            return
        choice = self.rng.random()
        if choice < 0.01:
            client.restart()
        elif client.producer is None:
            self.init(client, None)
        elif client.recovers:
            self.init(client, client.producer)
        elif client.outcome is not None:
            self.end(client, client.producer, commit=client.outcome)
        elif choice < 0.6:
            self.add(client, client.producer)
        elif choice < 0.93 and client.added:
            self.end(client, client.producer, commit=self.rng.random() < 0.7)
        elif choice > 0.97:
            self.init(client, client.producer)
        else:
            self.verify(client, client.producer)

    def init(self, client: Client, expected: Producer | None) -> None:
        client.recovers = expected is not None
        client.added.clear()
        request = InitProducerIdRequest(
            transactional_id=client.name,
            transaction_timeout_ms=self.rng.choice((3_000, 30_000)),
            producer_id=expected.producer_id if expected else -1,
            producer_epoch=expected.epoch if expected else -1,
        )
        self.ask(client, self.shard.init_producer_id(request, 5, self.now), self.initialised)

    def initialised(self, client: Client, response: InitProducerIdResponse | ErrorCode) -> None:
        client.waits = False
        error = response if isinstance(response, ErrorCode) else ErrorCode(response.error_code)
        if error is E.NONE:
            assert not isinstance(response, ErrorCode)
            client.restart()
            client.bumps = self.level == 2 and self.rng.random() < 0.8
            self.owns(client, Producer(response.producer_id, response.producer_epoch))
        else:
            self.refused(client, error)

    def owns(self, client: Client, producer: Producer) -> None:
        assert producer.epoch < MAX_EPOCH
        assert self.owners.setdefault(producer, client.number) == client.number
        client.producer = producer

    def refused(self, client: Client, error: ErrorCode) -> None:
        assert error in TRY_AGAIN or error in LOST, error
        if error in LOST:
            self.counts["fenced"] += 1
            client.restart()
            client.rests_until_ms = self.now_ms + self.rng.choice((0, 2_000, 20_000))

    def add(self, client: Client, producer: Producer) -> None:
        wanted = set(self.rng.sample(PARTITIONS, self.rng.randint(1, 2)))
        step = self.shard.add_partitions(client.name, producer, wanted, 4 if client.bumps else 3, self.now)

        def receive(client: Client, error: ErrorCode) -> None:
            client.waits = False
            if error is E.NONE:
                client.added |= wanted
            else:
                self.refused(client, error)

        self.ask(client, step, receive)

    def verify(self, client: Client, producer: Producer) -> None:
        response = self.shard.verify_partitions(client.name, producer, client.added).response
        assert response is not None
        assert E.TRANSACTION_ABORTABLE not in response.values()

    def end(self, client: Client, producer: Producer, *, commit: bool) -> None:
        client.outcome = commit
        request = EndTxnRequest(
            transactional_id=client.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        step = self.shard.end_txn(request, 5 if client.bumps else 4, self.now)
        assert step.response is not None
        if step.response.error_code == E.NONE:
            self.check_outcome(client, producer, step, commit=commit)
        self.ask(client, step, self.ended)

    def check_outcome(self, client: Client, producer: Producer, step: Step[EndTxnResponse], *, commit: bool) -> None:
        """What is answered well is a transaction of this client, with all that it knows to be in it."""
        record = step.records[0] if step.records else self.log[self.prepared_at(client.name, len(self.log))]
        assert isinstance(record.value, TransactionLogValue)
        prepared = records.metadata_from(client.name, record.value)
        assert prepared.state is (PREPARE_COMMIT if commit else PREPARE_ABORT)
        assert prepared.producer_id == producer.producer_id
        assert prepared.producer_epoch == producer.epoch + client.bumps
        assert prepared.partitions >= client.added

    def ended(self, client: Client, response: EndTxnResponse | ErrorCode) -> None:
        client.waits = False
        error = response if isinstance(response, ErrorCode) else ErrorCode(response.error_code)
        if error is not E.NONE:
            self.refused(client, error)
            return
        assert not isinstance(response, ErrorCode)
        self.counts["commits" if client.outcome else "aborts"] += 1
        client.outcome = None
        client.added.clear()
        if client.bumps:
            self.owns(client, Producer(response.producer_id, response.producer_epoch))

    def event(self) -> None:
        choice = self.rng.random()
        if choice < 0.15:
            self.commit(self.rng.randint(self.committed, len(self.log)))
        elif choice < 0.25:
            self.commit(len(self.log))
        elif choice < 0.3:
            self.begin_markers()
        elif choice < 0.45:
            self.end_markers()
        elif choice < 0.55:
            self.advance(self.rng.choice((1, 30, 300)))
        elif choice < 0.552:
            self.advance(self.rng.choice((5_000, 40_000)))
        elif choice < 0.557:
            self.take_over()
        elif choice < 0.5575:
            self.advance(200_000)
        elif choice < 0.558:
            self.level = min(2, self.level + 1)
        else:
            self.act(self.rng.choice(self.clients))
        self.check_indexes()

    def settle(self) -> None:
        """Let everything that is open time out, and complete."""
        while any(m.state not in SETTLED for m in self.shard.image.transactions.values()):
            self.advance(31_000)
            self.commit(len(self.log))
            self.begin_markers()
            while self.under_way:
                self.end_markers()

    # invariants

    def check_move(self, record: CoordinatorRecord) -> None:
        assert isinstance(record.key, TransactionLogKey)
        before = self.shard.image.transactions.get(record.key.transactional_id)
        if record.value is None:
            assert before is not None
            assert before.state in SETTLED
            return
        assert isinstance(record.value, TransactionLogValue)
        after = records.metadata_from(record.key.transactional_id, record.value)
        if before is None:
            assert (after.state, after.producer_epoch) == (EMPTY, 0)
            return
        assert before.state in PREVIOUS_STATES[after.state]
        assert after.producer >= before.producer
        if after.producer_id != before.producer_id:
            assert after.producer_epoch == 0
            assert before.producer_epoch >= 32_766
            self.counts["rotated"] += 1
        if after.state is ONGOING:
            assert after.partitions >= before.partitions
            assert after.producer == before.producer
        if after.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
            assert after.producer == before.successor

    def check_indexes(self) -> None:
        image = self.shard.image
        assert {n for n, m in image.transactions.items() if m.state in ENDING} == set(image.ending)


@pytest.mark.sim
def test_a_random_life_keeps_the_invariants(sim_seed: int) -> None:
    simulation = Simulation(sim_seed)
    for _ in range(3_000):
        simulation.event()
    simulation.settle()
    assert simulation.counts["commits"] > 10, simulation.counts
    assert simulation.counts["fenced"] > 5, simulation.counts


def test_the_lives_together_see_all_that_is_rare() -> None:
    totals: dict[str, int] = {}
    for seed in range(10):
        simulation = Simulation(seed)
        for _ in range(1_000):
            simulation.event()
        for what, times in simulation.counts.items():
            totals[what] = totals.get(what, 0) + times
    assert min(totals.values()) > 5, totals


def test_the_same_seed_gives_the_same_life() -> None:
    lives = []
    for _ in range(2):
        simulation = Simulation(4)
        for _ in range(300):
            simulation.event()
        lives.append(simulation.log)
    assert lives[0] == lives[1]


def test_replaying_any_prefix_gives_the_image_of_that_moment() -> None:
    simulation = Simulation(11)
    for _ in range(300):
        simulation.event()
    shard = TransactionShard(CONFIG, 1, simulation.new_producer_id, lambda: 2)
    for offset, record in enumerate(simulation.log):
        shard.replay(record, At(offset))
        assert shard.image == simulation.images[offset + 1]
