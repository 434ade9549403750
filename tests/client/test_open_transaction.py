"""Transactions that one producer writes and somebody else ends, against a broker that fails as it is told to."""

from __future__ import annotations

import pickle

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.open_transaction import end_transaction
from barnabas.client.transaction_errors import AbortableTransactionError, IllegalTransactionStateError
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.produce import ProduceRequest
from tests.client.scripted_broker import ScriptedBroker

from .test_transactional_producer import P0, VERSIONS, config


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
async def test_it_is_ended_elsewhere(version: int, commit: bool) -> None:
    async with ScriptedBroker(version) as broker:
        broker.scripts[EndTxnRequest] += [ErrorCode.NOT_COORDINATOR, None]
        async with TransactionalProducer(config(broker)) as producer:
            await producer.init_transactions()
            await producer.begin()
            await producer.send("t", b"1", partition=0)
            opened = pickle.loads(pickle.dumps(await producer.hand_over()))
            with pytest.raises(IllegalTransactionStateError):
                await producer.send("t", b"2", partition=0)
        assert broker.count("EndTxn") == 0, "closing the producer does not abort it"
        assert not broker.log[P0]
        cluster = Cluster(config(broker))
        try:
            await end_transaction(cluster, opened, commit=commit)
        finally:
            await cluster.close()
        assert broker.log[P0] == ([b"1"] if commit else [])
        assert broker.count("EndTxn") == 3


@VERSIONS
async def test_what_was_refused_is_not_handed_over(version: int) -> None:
    async with ScriptedBroker(version) as broker, TransactionalProducer(config(broker)) as producer:
        broker.scripts[ProduceRequest] += [ErrorCode.MESSAGE_TOO_LARGE]
        await producer.init_transactions()
        await producer.begin()
        await producer.send("t", b"1", partition=0)
        with pytest.raises(AbortableTransactionError):
            await producer.hand_over()
        await producer.abort()
        await producer.begin()
        await producer.send("t", b"2", partition=0)
        await producer.commit()
        assert broker.log[P0] == [b"2"]
