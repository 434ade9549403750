"""A transaction that one process has written and another one ends.

Brokers know a transaction by its transactional id, producer id and epoch, whoever shows them: so many producers may
write, each in a transaction of its own, and one place then commits them all.

    opened = await producer.hand_over()  # TransactionalProducer: everything is delivered, nothing is committed
    await end_transaction(cluster, opened, commit=True)  # anywhere else, at any time before transaction.timeout.ms
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.client.cluster import Cluster
from barnabas.client.producer_id import ProducerId
from barnabas.client.transaction_manager import TransactionManager
from barnabas.client.transaction_state import TransactionState


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What ends a transaction. v2: whether it is one of transaction.version 2 (KIP-890)."""

    transactional_id: str
    producer: ProducerId
    v2: bool


async def end_transaction(cluster: Cluster, opened: OpenTransaction, *, commit: bool) -> None:
    """Commit or abort. Asking again for the same end, after a lost answer, is harmless.

    TransactionError when it cannot be: ProducerFencedError when its time was over, or when somebody else has begun
    with the same transactional id, which has aborted it. Tries for as long as nobody answers.
    """
    state = TransactionState(opened.transactional_id)
    state.starting()
    state.identified(opened.producer, v2=opened.v2, can_bump=False)
    state.begin()
    state.started = True
    state.ending(commit=commit)
    await TransactionManager.of_cluster(state, cluster).end(commit=commit)
