"""The transactional producer over a socket, against a broker that fails as it is told to."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.client.config import ClientConfig
from barnabas.client.transaction_errors import (
    AbortableTransactionError,
    IllegalTransactionStateError,
    ProducerFencedError,
    TransactionTimeoutError,
)
from barnabas.client.transaction_state import Phase
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.model.config import ConfigError
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.batch_writer import batch_of_body
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, Record, encode_batch
from tests.client.scripted_broker import ScriptedBroker

E = ErrorCode
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def config(broker: ScriptedBroker, **more: str) -> ClientConfig:
    return ClientConfig.from_properties(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "transactional.id": "orders",
            "retry.backoff.ms": "1",
            "linger.ms": "0",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
    )


@VERSIONS
async def test_what_is_committed_is_there_and_what_is_aborted_is_not(version: int) -> None:
    async with ScriptedBroker(version) as broker, TransactionalProducer(config(broker)) as producer:
        await producer.init_transactions()
        for n, commit in enumerate((True, False, True, True)):
            await producer.begin()
            await producer.send_many(P0, [Record(0, 1, None, b"%d-%d" % (n, i)) for i in range(3)])
            await producer.send("t", b"%d" % n, partition=1)
            await (producer.commit() if commit else producer.abort())
        assert broker.log[P0] == [b"%d-%d" % (n, i) for n in (0, 2, 3) for i in range(3)]
        assert broker.log[P1] == [b"0", b"2", b"3"]
        assert bool(broker.count("AddPartitionsToTxn")) is (version == 1)
        # In version 1 the sequences of a partition go on, in version 2 each transaction has its own epoch.
        bases = [h.base_sequence for p, h in broker.headers if p == P0]
        assert bases == [3 * n if version == 1 else 0 for n in range(len(bases))]


@VERSIONS
async def test_lost_answers_and_passing_refusals_double_nothing(version: int) -> None:
    async with ScriptedBroker(version) as broker, TransactionalProducer(config(broker)) as producer:
        broker.scripts[AddPartitionsToTxnRequest] += [E.CONCURRENT_TRANSACTIONS, None]
        broker.scripts[ProduceRequest] += [None, E.NOT_LEADER_OR_FOLLOWER, None]
        broker.scripts[EndTxnRequest] += [E.COORDINATOR_LOAD_IN_PROGRESS, None, E.NOT_COORDINATOR]
        await producer.init_transactions()
        for n in range(3):
            await producer.begin()
            await producer.send("t", b"%d" % n, partition=0)
            await producer.commit()
        assert broker.log[P0] == [b"0", b"1", b"2"]
        assert broker.count("EndTxn") == 6


@VERSIONS
async def test_a_refused_batch_fails_the_transaction_and_the_next_one_is_as_good_as_new(version: int) -> None:
    async with ScriptedBroker(version) as broker, TransactionalProducer(config(broker)) as producer:
        await producer.init_transactions()
        await producer.begin()
        await producer.send("t", b"kept", partition=0)
        await producer.commit()
        await producer.begin()
        broker.scripts[ProduceRequest] += [E.INVALID_RECORD]
        delivery = await producer.send("t", b"bad", partition=0)
        with pytest.raises(AbortableTransactionError, match="abort"):
            await producer.commit()
        with pytest.raises(Exception, match="INVALID_RECORD"):
            await delivery
        with pytest.raises(AbortableTransactionError):
            await producer.send("t", b"more", partition=0)
        await producer.abort()
        await producer.begin()
        await producer.send("t", b"good", partition=0)
        await producer.commit()
        assert broker.log[P0] == [b"kept", b"good"]
        assert broker.count("InitProducerId") == (2 if version == 1 else 1)  # KIP-360 before KIP-890


async def test_a_partition_that_cannot_be_added_takes_its_batches_with_it() -> None:
    async with ScriptedBroker(1) as broker, TransactionalProducer(config(broker)) as producer:
        await producer.init_transactions()
        await producer.begin()
        broker.scripts[AddPartitionsToTxnRequest] += [E.TOPIC_AUTHORIZATION_FAILED]
        delivery = await producer.send("t", b"x", partition=0)
        with pytest.raises(AbortableTransactionError, match="TOPIC_AUTHORIZATION_FAILED"):
            await delivery
        with pytest.raises(AbortableTransactionError):
            await producer.commit()
        await producer.abort()
        assert not broker.count("Produce")
        assert not broker.count("EndTxn")  # the coordinator has heard of nothing


@VERSIONS
async def test_a_zombie_is_fenced(version: int) -> None:
    async with (
        ScriptedBroker(version) as broker,
        TransactionalProducer(config(broker)) as old,
        TransactionalProducer(config(broker)) as new,
    ):
        await old.init_transactions()
        await old.begin()
        await (await old.send("t", b"old", partition=0))
        await new.init_transactions()
        with pytest.raises(ProducerFencedError, match="taken over"):
            await old.commit()
        with pytest.raises(ProducerFencedError):
            await old.begin()
        await new.begin()
        await new.send("t", b"new", partition=0)
        await new.commit()
        assert broker.log[P0] == [b"new"]


@VERSIONS
async def test_an_abort_waits_for_what_is_on_its_way_and_drops_the_rest(version: int) -> None:
    async with ScriptedBroker(version) as broker, TransactionalProducer(config(broker)) as producer:
        await producer.init_transactions()
        await producer.begin()
        broker.hold.clear()
        broker.scripts[ProduceRequest] += [None]  # its answer is lost: it is asked for again, before the end
        first = await producer.send("t", b"first", partition=0)
        await broker.producing.wait()
        second = await producer.send("t", b"second", partition=0)
        abort = asyncio.create_task(producer.abort())
        with pytest.raises(Exception, match="aborted"):
            await second
        assert not abort.done()
        assert not broker.count("EndTxn")
        broker.hold.set()
        await abort
        await first  # it was written; nobody will read it
        assert [name for name, _ in broker.asked if name in ("Produce", "EndTxn")] == ["Produce", "Produce", "EndTxn"]
        assert broker.log[P0] == []
        assert producer.phase is Phase.READY


async def test_a_commit_that_takes_too_long_goes_on() -> None:
    async with ScriptedBroker() as broker, TransactionalProducer(config(broker, max_block_ms="50")) as producer:
        await producer.init_transactions()
        await producer.begin()
        broker.hold.clear()
        await producer.send("t", b"x", partition=0)
        with pytest.raises(TransactionTimeoutError, match="call it again"):
            await producer.commit()
        with pytest.raises(IllegalTransactionStateError, match="not finished"):
            await producer.begin()
        broker.hold.set()
        await producer.commit()
        assert broker.log[P0] == [b"x"]
        await producer.begin()
        await producer.commit()


async def test_whole_batches_go_as_they_are() -> None:
    records = [Record(0, 5, None, b"a"), Record(0, 5, None, b"b")]
    whole = batch_of_body(encode_batch(records)[BATCH_HEADER_SIZE:], 2, 5)
    async with ScriptedBroker() as broker, TransactionalProducer(config(broker)) as producer:
        await producer.init_transactions()
        await producer.begin()
        first, second = [await producer.send_encoded(P1, whole) for _ in range(2)]
        await producer.send("t", b"c", partition=1)
        await producer.commit()
        assert broker.log[P1] == [b"a", b"b", b"a", b"b", b"c"]
        assert [h.base_sequence for _, h in broker.headers] == [0, 2, 4]
        assert ((await first).timestamp, first.batch is second.batch) == (5, False)
        with pytest.raises(ProtocolError, match="one whole batch"):
            await producer.send_encoded(P1, whole + whole)


async def test_leaving_aborts_what_is_open() -> None:
    async with ScriptedBroker() as broker:
        async with TransactionalProducer(config(broker)) as producer:
            await producer.init_transactions()
            await producer.begin()
            await (await producer.send("t", b"x", partition=0))
        assert broker.count("EndTxn") == 1
        assert not broker.log[P0]


async def test_the_block_of_a_transaction_commits_or_aborts() -> None:
    async with ScriptedBroker() as broker, TransactionalProducer(config(broker)) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("t", b"kept", partition=0)
        with pytest.raises(ZeroDivisionError):
            await fail_in(producer)
        assert broker.log[P0] == [b"kept"]


async def fail_in(producer: TransactionalProducer) -> None:
    async with producer.transaction():
        await producer.send("t", b"dropped", partition=0)
        raise ZeroDivisionError


async def test_calls_at_the_wrong_moment_say_what_to_do() -> None:
    async with ScriptedBroker() as broker, TransactionalProducer(config(broker)) as producer:
        with pytest.raises(IllegalTransactionStateError, match="init_transactions"):
            await producer.begin()
        await producer.init_transactions()
        with pytest.raises(IllegalTransactionStateError, match="begin"):
            await producer.send("t", b"x", partition=0)
        with pytest.raises(IllegalTransactionStateError):
            await producer.init_transactions()


@pytest.mark.parametrize(
    ("more", "names"), [({"transactional.id": ""}, "transactional.id"), ({"acks": "1"}, "acks=all")]
)
def test_settings_that_rule_transactions_out(more: dict[str, str], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        TransactionalProducer(
            ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "orders", **more})
        )
