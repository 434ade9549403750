"""What a transactional producer says to coordinators: one request at a time, until it is answered for good.

Requests: InitProducerId, AddPartitionsToTxn v0-3, AddOffsetsToTxn, TxnOffsetCommit, EndTxn. KIP-98, KIP-360, KIP-447,
KIP-890. Lost answers are asked for again: coordinators answer the same request the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from barnabas.client.admin.groups import CommittedOffset
from barnabas.client.cluster import Cluster, CoordinatorKind, UnsupportedVersionError, backoffs
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer_id import NO_PRODUCER, ProducerId
from barnabas.client.transaction_errors import (
    ABORT,
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT,
    COMMIT_OFFSETS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    Judgement,
    TransactionError,
    Verdict,
    explained,
)
from barnabas.client.transaction_state import TransactionState
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import ChannelError, DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

_TRANSACTION_VERSION: Final = "transaction.version"
_CLIENTS_ADD_PARTITIONS: Final = 3
"""The newest AddPartitionsToTxn for clients; later ones are for brokers."""
_V1_END: Final = 4
"""The newest EndTxn and TxnOffsetCommit that mean transaction.version 1."""
_BUMPS_FROM: Final = 3
"""The first InitProducerId that takes a producer's present id and epoch (KIP-360)."""
_STEADY_INIT: Final = 5
"""The newest InitProducerId that is not of two-phase commits (KIP-939)."""
_FIRST_ADD_BACKOFF_S: Final = 0.02
"""How long to wait when the transaction before is still being completed: that takes no longer as a rule."""


class Coordinators(Protocol):
    """How coordinators are reached; `ClusterCoordinators` is the real one."""

    async def call(self, kind: CoordinatorKind, key: str, request: Any, max_version: int | None) -> Any:
        """Ask once. ApiError when the coordinator cannot be found, ChannelError when there is no answer."""

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """Look for a coordinator anew the next time."""

    def transaction_version(self) -> int:
        """Give the finalized level of transaction.version, as far as it is known; 0 when it is not set."""

    def newest_init(self) -> int:
        """Give the newest InitProducerId that the transaction coordinator serves; -1 before it was asked."""

    async def pause(self, seconds: float) -> None:
        """Wait before a retry."""


class ClusterCoordinators:
    """The coordinators of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._newest_init = -1

    async def call(self, kind: CoordinatorKind, key: str, request: Any, max_version: int | None) -> Any:
        """Ask once."""
        try:
            channel = await self._cluster.channel(await self._cluster.coordinator(kind, key))
        except (DisconnectedError, RequestTimeoutError):
            if not self._cluster.reached:
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "no node of the cluster can be reached") from None
            raise
        if kind is CoordinatorKind.TRANSACTION:
            self._newest_init = channel.api_versions.get(InitProducerIdRequest.API_KEY, (0, -1))[1]
        return await channel.call(request, max_version=max_version)

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """Look for a coordinator anew the next time."""
        self._cluster.forget_coordinator(kind, key)

    def transaction_version(self) -> int:
        """Give the newest level that a node has told of."""
        return self._cluster.feature_level(_TRANSACTION_VERSION)

    def newest_init(self) -> int:
        """Give what the coordinator that was asked last serves."""
        return self._newest_init

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class _Question:
    """A request, what its answer says code by code, and how to take that. build: anew for each attempt."""

    about: str
    build: Callable[[], Any]
    codes: Callable[[Any], Sequence[int]]
    judgement: Judgement
    kind: CoordinatorKind = CoordinatorKind.TRANSACTION
    key: str = ""
    max_version: int | None = None


class TransactionManager:
    """Takes a TransactionState from step to step. Every method ends when the coordinator has answered for good, or
    raises a TransactionError that the state has taken note of."""

    def __init__(
        self,
        state: TransactionState,
        coordinators: Coordinators,
        *,
        timeout_ms: int,
        waits: Callable[[], Iterable[float]],
    ) -> None:
        self.state = state
        self._coordinators = coordinators
        self._timeout_ms = timeout_ms
        self._waits = waits
        self._turn = asyncio.Lock()

    @classmethod
    def of_cluster(cls, state: TransactionState, cluster: Cluster) -> TransactionManager:
        """Give the manager that asks a cluster, as its settings say."""
        return cls(
            state,
            ClusterCoordinators(cluster),
            timeout_ms=cluster.config.integer("transaction.timeout.ms"),
            waits=lambda: backoffs(cluster.config),
        )

    async def initialize(self) -> None:
        """Get a producer id: older producers with the transactional id are fenced, what they left open is aborted."""
        self.state.starting()
        await self._identify(NO_PRODUCER)

    async def add_partitions(self) -> None:
        """Tell the coordinator of the partitions that wait to be added; those that come meanwhile too."""
        state = self.state
        while state.unadded:
            partitions = sorted(state.unadded)
            await self._ask(
                _Question(
                    "adding partitions",
                    partial(self._partitions_request, partitions),
                    _partition_codes,
                    ADD_PARTITIONS,
                    max_version=_CLIENTS_ADD_PARTITIONS,
                )
            )
            state.added(partitions)

    def _partitions_request(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.state.transactional_id,
            v3_and_below_producer_id=self.state.producer.id,
            v3_and_below_producer_epoch=self.state.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in _by_topic(partitions).items()
            ],
        )

    async def add_offsets(self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata) -> None:
        """Commit a group's offsets as part of the transaction."""
        state = self.state
        if not state.v2:
            await self._ask(
                _Question(
                    f"adding the offsets of group {group.group_id!r}",
                    lambda: AddOffsetsToTxnRequest(
                        transactional_id=state.transactional_id,
                        producer_id=state.producer.id,
                        producer_epoch=state.producer.epoch,
                        group_id=group.group_id,
                    ),
                    _own_code,
                    ADD_OFFSETS,
                )
            )
        state.adding_offsets()
        left = dict(offsets)
        await self._ask(
            _Question(
                f"committing the offsets of group {group.group_id!r}",
                lambda: self._offsets_request(left, group),
                lambda response: _offset_codes(response, left),
                COMMIT_OFFSETS,
                CoordinatorKind.GROUP,
                group.group_id,
                None if state.v2 else _V1_END,
            )
        )

    def _offsets_request(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=self.state.transactional_id,
            group_id=group.group_id,
            producer_id=self.state.producer.id,
            producer_epoch=self.state.producer.epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offset.offset,
                            committed_leader_epoch=offset.leader_epoch,
                            committed_metadata=offset.metadata,
                        )
                        for number in numbers
                        for offset in (offsets[TopicPartition(topic, number)],)
                    ],
                )
                for topic, numbers in _by_topic(offsets).items()
            ],
        )

    async def end(self, *, commit: bool) -> None:
        """Commit or abort what the state says is being ended, and get a new epoch where the next transaction needs it.

        A transaction that the coordinator never heard of ends without it.
        """
        state = self.state
        given: ProducerId | None = None
        if state.started:
            response: EndTxnResponse = await self._ask(
                _Question(
                    "committing" if commit else "aborting",
                    lambda: EndTxnRequest(
                        transactional_id=state.transactional_id,
                        producer_id=state.producer.id,
                        producer_epoch=state.producer.epoch,
                        committed=commit,
                    ),
                    _own_code,
                    COMMIT if commit else ABORT,
                    max_version=None if state.v2 else _V1_END,
                )
            )
            if response.producer_id >= 0:
                given = ProducerId(response.producer_id, response.producer_epoch)
        if state.ended(given, v2=self._v2()):
            await self._identify(state.producer)

    async def _identify(self, present: ProducerId) -> None:
        state = self.state
        response: InitProducerIdResponse = await self._ask(
            _Question(
                "asking for a producer id",
                lambda: InitProducerIdRequest(
                    transactional_id=state.transactional_id,
                    transaction_timeout_ms=self._timeout_ms,
                    producer_id=present.id,
                    producer_epoch=present.epoch,
                ),
                _own_code,
                INIT_PRODUCER_ID,
                max_version=_STEADY_INIT,
            )
        )
        state.identified(
            ProducerId(response.producer_id, response.producer_epoch),
            v2=self._v2(),
            can_bump=self._coordinators.newest_init() >= _BUMPS_FROM,
        )

    def _v2(self) -> bool:
        return self._coordinators.transaction_version() >= 2

    async def _ask(self, question: _Question) -> Any:
        key = question.key or self.state.transactional_id
        async with self._turn:
            if self.state.is_fatal:
                self.state.check()
            for wait_s in self._waits():
                verdict, code, response = await self._attempt(question, key)
                if verdict is Verdict.DONE:
                    return response
                if verdict >= Verdict.ABORT:
                    raise self._failed(verdict, code, question.about)
                if verdict is Verdict.SEEK:
                    self._coordinators.forget(question.kind, key)
                first_add = question.judgement is ADD_PARTITIONS and not self.state.partitions
                hurried = first_add and code is ErrorCode.CONCURRENT_TRANSACTIONS
                await self._coordinators.pause(min(wait_s, _FIRST_ADD_BACKOFF_S) if hurried else wait_s)
        raise AssertionError("back-offs never end")

    async def _attempt(self, question: _Question, key: str) -> tuple[Verdict, ErrorCode, Any]:
        try:
            response = await self._coordinators.call(question.kind, key, question.build(), question.max_version)
        except ApiError as e:
            return FIND_COORDINATOR.of(e.code), e.code, None
        except (DisconnectedError, RequestTimeoutError):
            return Verdict.SEEK, ErrorCode.NETWORK_EXCEPTION, None
        except UnsupportedVersionError:
            return Verdict.FATAL, ErrorCode.UNSUPPORTED_VERSION, None
        except ChannelError as e:
            why = f"{question.about} ({e})"
            raise self._failed(Verdict.FATAL, ErrorCode.SASL_AUTHENTICATION_FAILED, why) from e
        verdict, code = question.judgement.worst(ErrorCode(c) for c in question.codes(response))
        return verdict, code, response

    def _failed(self, verdict: Verdict, code: ErrorCode, about: str) -> TransactionError:
        state = self.state
        error = explained(verdict, code, state.transactional_id, about)
        if state.fail(verdict, error) and state.is_fatal and verdict is not Verdict.FATAL:
            state.error = error = explained(Verdict.FATAL, code, state.transactional_id, about)
        return error


def _own_code(response: InitProducerIdResponse | AddOffsetsToTxnResponse | EndTxnResponse) -> Sequence[int]:
    return (response.error_code,)


def _partition_codes(response: AddPartitionsToTxnResponse) -> Sequence[int]:
    return [p.partition_error_code for t in response.results_by_topic_v3_and_below for p in t.results_by_partition]


def _offset_codes(response: TxnOffsetCommitResponse, left: dict[TopicPartition, CommittedOffset]) -> Sequence[int]:
    """Give each partition's code; those that are done need not be asked for again."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                left.pop(TopicPartition(topic.name, partition.partition_index), None)
    return [p.error_code for t in response.topics for p in t.partitions]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition.partition)
    return grouped
