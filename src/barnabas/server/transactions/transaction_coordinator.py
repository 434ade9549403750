"""The transaction coordinator of a node: the partitions of `__transaction_state` that it leads (KIP-98, KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from barnabas.core.coordinators.step import Now, Producer, Step
from barnabas.core.groups.partitioning import partition_for
from barnabas.core.groups.regex import TopicRegex
from barnabas.core.transactions import describing
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.ending import Ending
from barnabas.core.transactions.errors import response_error
from barnabas.core.transactions.image import TransactionImage
from barnabas.core.transactions.init_producer_id import wanted
from barnabas.core.transactions.shard import TransactionShard
from barnabas.model.ports import Clock
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.coordinators.coordinator_log import CoordinatorLog
from barnabas.server.coordinators.runtime import Ask, Kind, LogSettings, ShardRuntime
from barnabas.server.coordinators.shards import Shards
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.transactions.marker_sender import MarkerSender
from barnabas.wire.coordinator_records import decode_transaction_record
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_transactions import TransactionState
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

TRANSACTION_TOPIC: Final = "__transaction_state"
log = structlog.get_logger("kafka.coordinator.transaction")
R = TypeVar("R")
_NOTE_AGAIN_MS: Final = 100
_NOT_OURS: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""The partition is somebody else's, or was taken over anew, and all that was decided is begun anew with it."""


def transaction_config(values: Mapping[str, Any]) -> TransactionConfig:
    """Give the coordinator's part of a node's configuration."""
    return TransactionConfig(
        max_timeout_ms=values["transaction.max.timeout.ms"],
        abort_timed_out_interval_ms=values["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        id_expiration_ms=values["transactional.id.expiration.ms"],
        remove_expired_interval_ms=values["transaction.remove.expired.transaction.cleanup.interval.ms"],
        two_phase_commit_enable=values["transaction.two.phase.commit.enable"],
    )


def _whole_match(pattern: str) -> Callable[[str], bool]:
    return TopicRegex(pattern).matches  # RE2, as Kafka's, so that no pattern can hold up the node


class TransactionCoordinator:
    """All shards of this node. Requests for a transactional id go to the shard of its partition.

    partition_count: how many partitions the transaction log has, or will have. new_sender: makes what brings the
    markers to the partitions' leaders, and calls what it is given when all of a transaction are written.
    """

    def __init__(
        self,
        config: TransactionConfig,
        *,
        clock: Clock,
        producer_ids: ProducerIds,
        transaction_version: Callable[[], int],
        partition_count: Callable[[], int],
        open_log: Callable[[TopicPartition], CoordinatorLog],
        new_sender: Callable[[Callable[[int, Ending], None]], MarkerSender],
        settings: LogSettings | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._producer_ids = producer_ids
        self._partition_count = partition_count
        self.markers = new_sender(self._marked)
        self.noting_again: set[tuple[int, Ending]] = set()
        """All partitions know of these, and the log did not take that: it is soon asked again."""
        self.shards: Shards[TransactionShard, TransactionImage] = Shards(
            Kind("transactional ids", "kafka.coordinator.transaction", decode_transaction_record, response_error),
            TRANSACTION_TOPIC,
            lambda opened: TransactionShard(config, opened.leader_epoch, producer_ids.take, transaction_version),
            clock=clock,
            open_log=open_log,
            settings=settings or LogSettings(),
            on_commit=self._committed,
        )

    # leadership

    def elected(self, partition: int) -> asyncio.Task[None]:
        """Take a partition over, or again after its epoch changed; the task ends when it is loaded."""
        self.markers.forget(partition)
        return self.shards.elected(partition)

    def resigned(self, partition: int) -> None:
        """Give a partition up: its transactional ids are somebody else's now."""
        self.shards.resigned(partition)
        self.markers.forget(partition)

    async def close(self) -> None:
        """Give all partitions up, and wait until nothing of them runs."""
        await self.shards.close()
        await self.markers.close()

    # who looks after what

    def partition_for(self, transactional_id: str) -> int:
        """Give the partition of `__transaction_state` that a transactional id belongs to."""
        return partition_for(transactional_id, self._partition_count())

    def _shard(self, transactional_id: str) -> ShardRuntime[TransactionShard, TransactionImage]:
        if not transactional_id:  # nobody's, whoever looks after its partition
            raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id has at least one character")
        return self.shards.at(self.partition_for(transactional_id))

    def _submit(self, transactional_id: str, ask: Ask[TransactionShard, R]) -> asyncio.Future[R]:
        return self._shard(transactional_id).submit(ask)

    # producers; each raises ApiError with what the request is refused for

    async def init_producer_id(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        """Give a transactional id's producer its id and epoch."""
        assert request.transactional_id is not None
        wanted(request, self._config)  # what nobody may ask for is refused by every node
        await self._producer_ids.provide()
        return await self._submit(
            request.transactional_id, lambda shard, now: shard.init_producer_id(request, version, now)
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: int,
        answer: Callable[[ErrorCode], R],
    ) -> asyncio.Future[R]:
        """Add partitions to the open transaction, or begin one.

        version: of AddPartitionsToTxn; answer: makes the answer of the code that holds for each of the partitions.
        """

        def ask(shard: TransactionShard, now: Now) -> Step[R]:
            step = shard.add_partitions(transactional_id, producer, partitions, version, now)
            assert step.response is not None
            return Step(step.records, answer(step.response))

        return self._submit(transactional_id, ask)

    def add_offsets(
        self, transactional_id: str, producer: Producer, of_group: TopicPartition, version: int
    ) -> Awaitable[ErrorCode]:
        """Add a group's offsets. of_group: its partition of `__consumer_offsets`; version: of AddOffsetsToTxn."""
        return self._submit(
            transactional_id,
            lambda shard, now: shard.add_offsets(transactional_id, producer, of_group, version, now),
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> asyncio.Future[Mapping[TopicPartition, ErrorCode]]:
        """Say which partitions are in the open transaction: at once, unless that depends on what is not committed."""
        return self._submit(
            transactional_id, lambda shard, now: shard.verify_partitions(transactional_id, producer, partitions)
        )

    def end(self, request: EndTxnRequest, version: int) -> Awaitable[EndTxnResponse]:
        """Commit or abort; the answer comes when that is decided for good, before the partitions know."""
        if not self._producer_ids.at_hand:
            return self._end_with_ids(request, version)
        return self._submit(request.transactional_id, lambda shard, now: shard.end_txn(request, version, now))

    async def _end_with_ids(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        await self._producer_ids.provide()
        return await self._submit(request.transactional_id, lambda shard, now: shard.end_txn(request, version, now))

    # administration

    def describe(self, transactional_id: str) -> TransactionState:
        """Describe a transactional id; one that is not looked after here says so by its error."""
        try:
            return describing.describe(self._shard(transactional_id).committed_image(), transactional_id)
        except ApiError as e:
            return TransactionState(transactional_id=transactional_id, error_code=e.code)

    def listed(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """List the transactional ids of this node; the error says that a shard loads, or that the pattern is none."""
        now_ms = self._clock.now_ms()
        try:
            images = self.shards.committed_images()
            states = [state for image in images for state in describing.listed(image, request, now_ms, _whole_match)]
        except ApiError as e:
            return ListTransactionsResponse(error_code=e.code)
        return ListTransactionsResponse(
            unknown_state_filters=describing.unknown_states(request), transaction_states=states
        )

    # markers

    def _committed(self, partition: int, runtime: ShardRuntime[TransactionShard, TransactionImage]) -> None:
        endings = runtime.shard.decided(runtime.committed_image())
        if endings:
            self.markers.begin(partition, endings)

    def _marked(self, partition: int, ending: Ending) -> None:
        """Note in the log that all partitions know; a failure is tried again as long as the shard is here."""
        if self.noting_again:
            self.noting_again.discard((partition, ending))
        try:
            future = self.shards.at(partition).submit(lambda shard, now: shard.marked(ending, now))
        except ApiError:
            return  # whoever has the partition now begins anew
        future.add_done_callback(partial(self._noted, partition, ending))

    def _noted(self, partition: int, ending: Ending, future: asyncio.Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is None or (isinstance(error, ApiError) and error.code in _NOT_OURS):
            return
        if not isinstance(error, ApiError):
            log.error(
                "the end of a transaction is not noted", transactional_id=ending.transactional_id, error=str(error)
            )
            return
        # The log alone is asked again: the partitions have their markers, and each more would be written there.
        self.noting_again.add((partition, ending))
        asyncio.get_running_loop().call_later(_NOTE_AGAIN_MS / 1000, self._marked, partition, ending)
