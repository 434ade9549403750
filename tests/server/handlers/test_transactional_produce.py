"""Produce in transactions: who may, what the coordinator is asked and when, and what producers are told. KIP-890."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.replication.transaction_verification import TransactionVerifier
from barnabas.storage.log_validator import AppendOrigin
from barnabas.wire.errors import ErrorCode
from tests.server.handlers.group_world import allow
from tests.server.handlers.transaction_world import ALONE, FOLLOWED, SHARED, Coordinator, World, world
from tests.storage.logs import batch, marker

E = ErrorCode
T0, T1 = TopicPartition(ALONE, 0), TopicPartition(ALONE, 1)


def part(sequence: int = 0, epoch: int = 0, pid: int = 7, *, transactional: bool = True) -> memoryview:
    return batch(b"x", producer=(pid, epoch, sequence), transactional=transactional)


def ends(world: World) -> tuple[int, int]:
    return world.partition(ALONE, 0).log.log_end_offset, world.partition(ALONE, 1).log.log_end_offset


def end(world: World, epoch: int = 0, version: int = 0) -> None:
    log = world.partition().log
    log.append_as_leader(
        marker(7, epoch, commit=False), 0, origin=AppendOrigin.COORDINATOR, transaction_version=version
    )


@pytest.mark.parametrize(("version", "question"), [(3, "verify"), (11, "verify"), (12, "add")])
async def test_the_coordinator_is_asked_once_for_each_partition_of_a_transaction(version: int, question: str) -> None:
    async with world() as w:
        verifier: TransactionVerifier = w.coordinator
        assert verifier is w.replicas.verification.verifier
        assert await w.produce((ALONE, 0, part()), (ALONE, 1, part()), version=version) == [E.NONE, E.NONE]
        assert w.coordinator.asked == [(question, "x", 7, 0, (T0, T1))]
        assert await w.produce((ALONE, 0, part(1)), version=version) == [E.NONE]
        assert len(w.coordinator.asked) == 1
        assert ends(w) == (2, 1)
        end(w)
        assert await w.produce((ALONE, 0, part(2)), (ALONE, 1, part(1)), version=version) == [E.NONE, E.NONE]
        assert w.coordinator.asked[1] == (question, "x", 7, 0, (T0,))


async def test_what_is_in_no_transaction_is_written_at_once() -> None:
    async with world() as w:
        assert await w.produce((ALONE, 0, batch(b"x")), name=None) == [E.NONE]
        assert await w.produce((ALONE, 0, part(transactional=False)), name="x") == [E.NONE]
        assert w.coordinator.asked == []


async def test_a_batch_in_no_requests_transaction_is_refused() -> None:
    async with world() as w:
        assert await w.produce((ALONE, 0, part()), name=None) == [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        assert ends(w) == (0, 0)


async def test_two_producers_are_refused_as_a_whole() -> None:
    async with world() as w:
        both = await w.produce((ALONE, 0, part()), (ALONE, 1, part(pid=8)))
        assert both == [E.INVALID_PRODUCER_ID_MAPPING] * 2
        assert await w.produce((ALONE, 0, part()), (ALONE, 1, part(epoch=1))) == [E.INVALID_PRODUCER_ID_MAPPING] * 2
        assert ends(w) == (0, 0)
        assert w.coordinator.asked == []


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (E.INVALID_TXN_STATE, 12, E.INVALID_TXN_STATE),
        (E.PRODUCER_FENCED, 12, E.INVALID_PRODUCER_EPOCH),
        (E.INVALID_PRODUCER_ID_MAPPING, 11, E.INVALID_PRODUCER_ID_MAPPING),
        (E.TRANSACTION_ABORTABLE, 10, E.INVALID_TXN_STATE),
        (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE),
        (E.NETWORK_EXCEPTION, 11, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_LOAD_IN_PROGRESS, 12, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_NOT_AVAILABLE, 12, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, 9, E.NOT_ENOUGH_REPLICAS),
        (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS),
    ],
)
async def test_producers_are_told_what_they_understand(said: ErrorCode, version: int, told: ErrorCode) -> None:
    async with world() as w:
        w.coordinator.wrong = [{T0: said, T1: E.NONE}]
        assert await w.produce((ALONE, 0, part()), (ALONE, 1, part()), version=version) == [told, E.NONE]
        assert ends(w) == (0, 1)
        assert await w.produce((ALONE, 0, part()), version=version) == [E.NONE], "asked again, it agrees"


async def test_a_busy_coordinator_is_asked_again_for_clients_that_add_partitions() -> None:
    async with world() as w:
        patient = {**w.config.values, "add.partitions.to.txn.retry.backoff.max.ms": 60_000}
        w.replicas.verification.reconfigure(replace(w.config, values=patient))
        w.coordinator.wrong = [{T0: E.CONCURRENT_TRANSACTIONS}] * 2
        assert await w.produce((ALONE, 0, part())) == [E.NONE]
        assert len(w.coordinator.asked) == 3
        w.replicas.verification.reconfigure(w.config)
        w.coordinator.wrong = [{T1: E.CONCURRENT_TRANSACTIONS}] * 100
        assert await w.produce((ALONE, 1, part())) == [E.CONCURRENT_TRANSACTIONS], "patience has an end"


@pytest.mark.parametrize("key", ["add.partitions.to.txn.retry.backoff.max.ms", "request.timeout.ms"])
async def test_how_long_it_is_asked_again_is_configured(key: str) -> None:
    async with world() as w:
        w.replicas.verification.reconfigure(replace(w.config, values={**w.config.values, key: 0}))
        w.coordinator.wrong = [{T0: E.CONCURRENT_TRANSACTIONS}]
        assert await w.produce((ALONE, 0, part())) == [E.CONCURRENT_TRANSACTIONS]
        assert len(w.coordinator.asked) == 1


async def test_an_answer_that_comes_after_the_marker_is_worth_nothing() -> None:
    async with world() as w:
        w.coordinator.answers.clear()
        late = asyncio.ensure_future(w.produce((ALONE, 0, part()), version=11))
        await w.coordinator.was_asked.wait()
        end(w)
        w.coordinator.answers.set()
        assert await late == [E.INVALID_TXN_STATE]
        assert ends(w) == (1, 0)
        assert w.partition().log.last_stable_offset == w.partition().log.high_watermark


async def test_records_survive_the_wait_for_the_coordinator() -> None:
    async with world() as w:
        w.coordinator.answers.clear()
        asking = asyncio.ensure_future(w.produce((ALONE, 0, part())))
        await w.coordinator.was_asked.wait()
        w.coordinator.answers.set()
        assert await asking == [E.NONE]
        assert w.partition().log.read(0, 1000).records.read()[-2:] == b"x\x00"


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_fenced_producer_is_told_so_and_nobody_is_asked(acks: int) -> None:
    async with world() as w:
        assert await w.produce((ALONE, 0, part(epoch=5)), acks=acks) == [E.NONE]
        end(w, 6, 2)
        asked = len(w.coordinator.asked)
        assert await w.produce((ALONE, 0, part(1, epoch=5)), acks=acks) == [E.INVALID_PRODUCER_EPOCH]
        assert len(w.coordinator.asked) == asked


async def test_partitions_that_are_not_led_here_are_not_asked_about() -> None:
    async with world() as w:
        codes = await w.produce((FOLLOWED, 0, part()), ("nobody's", 0, part()), (ALONE, 0, part()))
        assert codes == [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]
        assert w.coordinator.asked == [("add", "x", 7, 0, (T0,))]


async def test_what_was_verified_still_waits_for_the_replicas_in_sync() -> None:
    async with world() as w:
        writing = asyncio.ensure_future(w.produce((SHARED, 0, part())))
        await w.grown(1)
        assert not writing.done()
        w.follow()
        assert await writing == [E.NONE]


async def test_verification_can_be_switched_off_but_for_clients_that_add_partitions() -> None:
    async with world() as w:
        w.replicas.verification.reconfigure(
            replace(w.config, values={**w.config.values, "transaction.partition.verification.enable": False})
        )
        w.log_dirs.env.verify_transactions = False
        assert await w.produce((ALONE, 0, part()), version=11) == [E.NONE]
        assert w.coordinator.asked == []
        assert await w.produce((ALONE, 1, part()), version=12) == [E.NONE]
        assert len(w.coordinator.asked) == 1


async def test_without_a_way_to_coordinators_no_transaction_begins() -> None:
    async with world() as w:
        w.replicas.verification.verifier = None
        assert await w.produce((ALONE, 0, part())) == [E.INVALID_TXN_STATE]
        assert ends(w) == (0, 0)


async def test_a_producer_needs_the_right_to_its_transactional_id() -> None:
    topic = allow("User:alice", AclOperation.WRITE, ResourceType.TOPIC, ALONE)
    async with world([topic]) as w:
        assert await w.produce((ALONE, 0, part())) == [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        assert w.coordinator.asked == []
        assert await w.produce((ALONE, 0, part(transactional=False))) == [E.NONE], "it is not used"
        assert w.acls is not None
        w.acls.append(allow("User:alice", AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x"))
        assert await w.produce((ALONE, 1, part()), (SHARED, 0, part())) == [E.NONE, E.TOPIC_AUTHORIZATION_FAILED]
        assert w.coordinator.asked == [("add", "x", 7, 0, (T1,))]


def test_the_twin_is_a_way_to_coordinators() -> None:
    verifier: type[TransactionVerifier] = Coordinator
    assert verifier is Coordinator
