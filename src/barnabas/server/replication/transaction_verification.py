"""Asking a transaction's coordinator, before the first batch of the transaction is appended to a partition (KIP-890).

Without that a batch that comes late would begin a transaction which nobody ends, and READ_COMMITTED would stop there
for ever. Clients of `transaction.version` 2 have the partition added by their first batch; for older ones the
coordinator says whether they have added it. Kafka's AddPartitionsToTxnManager, but for the network beneath.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.core.coordinators.step import Producer
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.model.ports import Clock
    from barnabas.model.topic_partition import TopicPartition
    from barnabas.server.config import NodeConfig
    from barnabas.server.replication.partitions import Partitions
    from barnabas.storage.producer_verification import VerificationGuard

NO_SEQUENCE: Final = -1
_UNANSWERED: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What keeps a coordinator from answering. Old producers do not repeat a write for it; for NOT_ENOUGH_REPLICAS they
do."""


class TransactionVerifier(Protocol):
    """The way to transaction coordinators. Both give what is wrong, by partition; what is right may be left out.

    Codes are the coordinator's own. COORDINATOR_NOT_AVAILABLE: it has no leader; NETWORK_EXCEPTION: it was not
    reached; INVALID_TXN_STATE in the place of CLUSTER_AUTHORIZATION_FAILED. A coordinator too old for the question is
    not asked, and nothing is wrong.
    """

    async def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Ask whether the partitions are part of the producer's open transaction."""
        ...

    async def add(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Make the partitions part of the producer's transaction, which begins by that if it has to."""
        ...

    def verified_at_once(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode] | None:
        """The same as `verify`, where nobody has to be waited for; None where somebody has."""
        ...


class Client(Enum):
    """What a producer understands, by the version of its request."""

    OLD = "old"
    ABORTS = "knows TRANSACTION_ABORTABLE"
    ADDS = "adds partitions by its first batch"

    @classmethod
    def of_produce(cls, version: int) -> Client:
        """Give what who sends Produce in that version understands."""
        return cls.ADDS if version >= 12 else cls.ABORTS if version == 11 else cls.OLD

    @classmethod
    def of_offset_commit(cls, version: int) -> Client:
        """Give what who sends TxnOffsetCommit in that version understands."""
        return cls.ADDS if version >= 5 else cls.ABORTS if version == 4 else cls.OLD


class FirstBatches(NamedTuple):
    """What a producer sends to partitions, with the sequence of each batch; NO_SEQUENCE where there is none."""

    transactional_id: str
    producer: Producer
    sequences: Mapping[TopicPartition, int]
    client: Client


@dataclass(slots=True)
class Begun:
    """Where the coordinator has to be asked: guards; and errors: where there is no need to ask any more."""

    client: Client = Client.OLD
    guards: dict[TopicPartition, VerificationGuard] = field(default_factory=dict)
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    def guard_of(self, tp: TopicPartition) -> VerificationGuard | None:
        """Give what a batch for the partition comes with; ApiError, as a producer understands it, when none may."""
        code = self.errors.get(tp)
        if code is None:
            return self.guards.get(tp)
        if code is ErrorCode.INVALID_TXN_STATE:
            raise ApiError(code, f"{tp} was not added to the transaction")
        if code in _UNANSWERED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and self.client is not Client.ADDS):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"it cannot be verified that {tp} was added to the transaction: {code.name}",
            )
        raise ApiError(code)


class TransactionVerification:
    """See the module. verifier: None until there is a way to coordinators; nothing is asked before that."""

    def __init__(self, partitions: Partitions, clock: Clock) -> None:
        self.verifier: TransactionVerifier | None = None
        self.is_enabled = True
        """`transaction.partition.verification.enable`; partitions are added in any case."""
        self._partitions = partitions
        self._clock = clock
        self._backoff_ms = 20
        self._patience_ms = 100

    def reconfigure(self, config: NodeConfig) -> None:
        """Take another configuration from now on."""
        self.is_enabled = config["transaction.partition.verification.enable"]
        self._backoff_ms = config["add.partitions.to.txn.retry.backoff.ms"]
        self._patience_ms = min(config["add.partitions.to.txn.retry.backoff.max.ms"], config["request.timeout.ms"])

    def begin(self, batches: FirstBatches) -> Begun:
        """Give where the transaction is not open yet: when there are any guards, `ask`."""
        begun = Begun(batches.client)
        adds = batches.client is Client.ADDS
        if self.verifier is None or not (adds or self.is_enabled):
            return begun
        for tp, sequence in batches.sequences.items():
            try:
                log = self._partitions.leader(tp.topic, tp.partition).log
                guard = log.begin_verification(*batches.producer, sequence, bumps_epochs=adds)
            except ApiError as e:
                begun.errors[tp] = e.code
            else:
                if guard is not None:
                    begun.guards[tp] = guard
        return begun

    async def ask(self, batches: FirstBatches, begun: Begun) -> Begun:
        """Give the guards of what the coordinator agrees to, and what is wrong with the others."""
        assert self.verifier is not None, "nothing has begun"
        question = self.verifier.add if batches.client is Client.ADDS else self.verifier.verify
        found = await question(batches.transactional_id, *batches.producer, tuple(begun.guards))
        return _answered(batches, begun, found)

    def ask_at_once(self, batches: FirstBatches, begun: Begun) -> Begun | None:
        """The same where the coordinator is this node and knows; None where it has to be waited for."""
        assert self.verifier is not None, "nothing has begun"
        if batches.client is Client.ADDS:
            return None
        found = self.verifier.verified_at_once(batches.transactional_id, *batches.producer, tuple(begun.guards))
        return None if found is None else _answered(batches, begun, found)

    async def ask_patiently(self, batches: FirstBatches, begun: Begun) -> Begun:
        """The same; asks a busy coordinator again, as sending all the records once more would cost more."""
        until_ms = self._clock.monotonic_ms() + self._patience_ms
        answer = await self.ask(batches, begun)
        while (
            batches.client is Client.ADDS
            and ErrorCode.CONCURRENT_TRANSACTIONS in answer.errors.values()
            and self._clock.monotonic_ms() < until_ms
        ):
            await asyncio.sleep(self._backoff_ms / 1000)
            begun = self.begin(batches)
            answer = await self.ask(batches, begun) if begun.guards else begun
        return answer

    async def guard_of_offsets(
        self, tp: TopicPartition, transactional_id: str, producer: Producer, version: int
    ) -> VerificationGuard | None:
        """Give what TxnOffsetCommit of that version has to come with; ApiError when it is not to be written at all."""
        batches = FirstBatches(transactional_id, producer, {tp: NO_SEQUENCE}, Client.of_offset_commit(version))
        begun = self.begin(batches)
        if begun.guards:
            begun = await self.ask(batches, begun)
        if tp in begun.errors:
            raise ApiError(begun.errors[tp])
        return begun.guards.get(tp)


def _answered(batches: FirstBatches, begun: Begun, found: Mapping[TopicPartition, ErrorCode]) -> Begun:
    wrong = {tp: _to_producer(code, batches.client) for tp, code in found.items() if code is not ErrorCode.NONE}
    return Begun(batches.client, begun.guards, {**begun.errors, **wrong})


def _to_producer(code: ErrorCode, client: Client) -> ErrorCode:
    """Give the code that a producer expects for what the coordinator said."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and client is Client.OLD:
        return ErrorCode.INVALID_TXN_STATE
    return code
