"""Asks coordinators, for partitions that are led here, whether they are in a transaction, or puts them there (KIP-890).

What is wanted of one coordinator while it is being asked goes with the next request, all transactions in one. This
node's own coordinator is asked without a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from barnabas.core.coordinators.step import Producer
from barnabas.model.metrics import Metrics, mbean
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import AuthenticationError, ChannelError, UnsupportedVersionError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

_MEASURED: Final = "AddPartitionsToTxnManager"
log = structlog.get_logger("kafka.server.AddPartitionsToTxnManager")

Errors = Mapping[TopicPartition, ErrorCode]
Call = Callable[[int, AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]]
"""Asks a broker; ChannelError when there is no answer."""
CoordinatorOf = Callable[[str], int | None]
"""Gives the broker that looks after a transactional id, None while nobody does."""


class OwnCoordinator(Protocol):
    """This node's own coordinator. Each question gives a code for each partition."""

    node_id: int

    def add(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Awaitable[Errors]:
        """Add partitions to the producer's transaction."""
        ...

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Awaitable[Errors]:
        """Say which partitions are in it."""
        ...

    def verified_at_once(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Errors | None:
        """The same, None when that has to be waited for."""
        ...


@dataclass(slots=True)
class _Wanted:
    """What is asked for one transaction, by whom."""

    producer: Producer
    add: bool
    partitions: set[TopicPartition] = field(default_factory=set)
    waiters: list[tuple[frozenset[TopicPartition], asyncio.Future[Errors]]] = field(default_factory=list)

    def settle(self, errors: Errors) -> None:
        for partitions, future in self.waiters:
            if not future.done():
                future.set_result({tp: errors[tp] for tp in partitions if tp in errors})

    def refuse(self, error: ErrorCode) -> None:
        self.settle(dict.fromkeys(self.partitions, error))


class TransactionVerifier:
    """One request a coordinator at a time. registry: where it counts refusals, and measures how long requests take.

    own: this node's own coordinator, None where there is none.
    """

    def __init__(
        self, call: Call, coordinator_of: CoordinatorOf, registry: Metrics, *, own: OwnCoordinator | None = None
    ) -> None:
        self._call = call
        self._own = own
        self._coordinator_of = coordinator_of
        self._clock = registry.clock
        self._failures = registry.meter(
            mbean("kafka.server", type=_MEASURED, name="VerificationFailureRate"), "failures"
        )
        self._times = registry.histogram(mbean("kafka.server", type=_MEASURED, name="VerificationTimeMs"))
        self._wanted: dict[int, dict[str, _Wanted]] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}

    async def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Errors:
        """Give why partitions are not in the producer's open transaction; nothing for those that are."""
        return await self._ask(transactional_id, Producer(producer_id, epoch), frozenset(partitions), add=False)

    async def add(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Errors:
        """Put partitions into the producer's transaction; gives why some cannot be, nothing for those that are in."""
        return await self._ask(transactional_id, Producer(producer_id, epoch), frozenset(partitions), add=True)

    def verified_at_once(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Errors | None:
        """The same as `verify`, where nobody has to be waited for; None where somebody has."""
        own = self._own
        if own is None or self._coordinator_of(transactional_id) != own.node_id:
            return None
        found = own.verified_at_once(transactional_id, Producer(producer_id, epoch), frozenset(partitions))
        return None if found is None else self._noted(found, 0)

    async def _ask(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], *, add: bool
    ) -> Errors:
        coordinator = self._coordinator_of(transactional_id)
        if coordinator is None:
            return self._refused(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._own is not None and coordinator == self._own.node_id:
            question = self._own.add if add else self._own.verify
            return await self._measured(question(transactional_id, producer, partitions))
        of_coordinator = self._wanted.setdefault(coordinator, {})
        wanted = of_coordinator.get(transactional_id)
        if wanted is not None and (wanted.producer, wanted.add) != (producer, add):
            if producer.epoch < wanted.producer.epoch:
                return self._refused(partitions, ErrorCode.INVALID_PRODUCER_EPOCH)
            newer = producer.epoch > wanted.producer.epoch
            wanted.refuse(ErrorCode.INVALID_PRODUCER_EPOCH if newer else ErrorCode.NETWORK_EXCEPTION)
            wanted = None
        if wanted is None:
            wanted = of_coordinator[transactional_id] = _Wanted(producer, add)
        future: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        wanted.partitions |= partitions
        wanted.waiters.append((partitions, future))
        if coordinator not in self._asking:
            self._asking[coordinator] = asyncio.get_running_loop().create_task(self._work(coordinator))
        return await self._measured(future)

    async def _measured(self, answer: Awaitable[Errors]) -> Errors:
        begun_ms = self._clock.monotonic_ms()
        return self._noted(await answer, self._clock.monotonic_ms() - begun_ms)

    def _noted(self, answer: Errors, took_ms: int) -> Errors:
        errors = {tp: code for tp, code in answer.items() if code is not ErrorCode.NONE}
        self._times.update(took_ms)
        self._failures.mark(len(errors))
        return errors

    def _refused(self, partitions: frozenset[TopicPartition], error: ErrorCode) -> Errors:
        """Give an error for all, without asking anybody."""
        self._failures.mark(len(partitions))
        return dict.fromkeys(partitions, error)

    async def _work(self, coordinator: int) -> None:
        try:
            while of_coordinator := self._wanted.pop(coordinator, None):
                await self._ask_all(coordinator, of_coordinator)
        finally:
            del self._asking[coordinator]

    async def _ask_all(self, coordinator: int, wanted: Mapping[str, _Wanted]) -> None:
        try:
            response = await self._call(coordinator, _request(wanted))
        except UnsupportedVersionError as e:
            log.warning("transactions are not verified", broker=coordinator, error=str(e))
            for one in wanted.values():
                one.settle({})
        except ChannelError as e:
            log.warning("transactions could not be verified", broker=coordinator, error=str(e))
            refused = isinstance(e, AuthenticationError)
            for one in wanted.values():
                one.refuse(ErrorCode.SASL_AUTHENTICATION_FAILED if refused else ErrorCode.NETWORK_EXCEPTION)
        except BaseException as e:
            closes = isinstance(e, asyncio.CancelledError)
            for one in wanted.values():
                one.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER if closes else ErrorCode.UNKNOWN_SERVER_ERROR)
            raise
        else:
            _settle(wanted, response)

    async def close(self) -> None:
        """Stop: whoever waits is sent away."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _request(wanted: Mapping[str, _Wanted]) -> AddPartitionsToTxnRequest:
    transactions = []
    for transactional_id, one in wanted.items():
        by_topic: dict[str, list[int]] = {}
        for tp in sorted(one.partitions):
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=one.producer.producer_id,
                producer_epoch=one.producer.epoch,
                verify_only=not one.add,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=ids) for topic, ids in by_topic.items()],
            )
        )
    return AddPartitionsToTxnRequest(transactions=transactions)


def _settle(wanted: Mapping[str, _Wanted], response: AddPartitionsToTxnResponse) -> None:
    if response.error_code:
        # A client cannot mend that this broker may not ask: its transaction is what fails.
        code = ErrorCode(response.error_code)
        denied = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        log.error("transactions could not be verified", error=code.name)
        for one in wanted.values():
            one.refuse(ErrorCode.INVALID_TXN_STATE if denied else code)
        return
    answers = {result.transactional_id: result for result in response.results_by_transaction}
    for transactional_id, one in wanted.items():
        answer = answers.get(transactional_id)
        if answer is None:
            one.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            continue
        codes = {
            TopicPartition(topic.name, p.partition_index): ErrorCode(p.partition_error_code)
            for topic in answer.topic_results
            for p in topic.results_by_partition
        }
        one.settle({tp: code for tp, code in codes.items() if code is not ErrorCode.NONE})
