"""A shard with a hand on its clock and its log, so that a test reads like a conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.core.coordinators.shard import At, Shard
from barnabas.core.coordinators.step import Now, Producer, Step
from barnabas.core.transactions import records
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.ending import Ending, ending_of
from barnabas.core.transactions.image import TransactionImage
from barnabas.core.transactions.metadata import TransactionMetadata
from barnabas.core.transactions.shard import TransactionShard
from barnabas.core.transactions.states import EMPTY, TransactionState
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.coordinator_records import (
    CoordinatorRecord,
    decode_transaction_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

WALL_START_MS = 1_700_000_000_000
T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))
NAME = "id"
NOBODY = Producer(-1, -1)
SOMEBODY = Producer(5, 3)


def written(record: CoordinatorRecord) -> CoordinatorRecord:
    """Give the record as it comes back out of a log."""
    value = None if record.value is None else encode_coordinator_value(record.value, record.value_version)
    decoded = decode_transaction_record(encode_coordinator_key(record.key), value)
    assert isinstance(decoded, CoordinatorRecord)
    return decoded


@dataclass
class Driver:
    """Carries steps out. ids_left: how many producer ids are at hand, None for any number."""

    config: TransactionConfig = field(default_factory=TransactionConfig)
    level: int = 2
    now_ms: int = 0
    ids_left: int | None = None
    log: list[CoordinatorRecord] = field(default_factory=list)
    last_producer_id: int = 999
    epoch: int = 7

    def __post_init__(self) -> None:
        self.take_over()

    def take_over(self) -> None:
        """Let another coordinator begin with nothing but the log."""
        self.epoch += 1
        self.shard = TransactionShard(self.config, self.epoch, self.new_producer_id, lambda: self.level)
        served: Shard[TransactionImage] = self.shard
        for offset, record in enumerate(self.log):
            served.replay(record, At(offset))
        self.carry(self.shard.loaded(self.now))

    def new_producer_id(self) -> int:
        if self.ids_left == 0:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.ids_left is not None:
            self.ids_left -= 1
        self.last_producer_id += 1
        return self.last_producer_id

    @property
    def now(self) -> Now:
        return Now(WALL_START_MS + self.now_ms, self.now_ms)

    def carry(self, step: Step[Any]) -> Any:
        for record in step.records:
            self.write(written(record))
        return step.response

    def write(self, record: CoordinatorRecord) -> None:
        self.shard.replay(record, At(len(self.log)))
        self.log.append(record)

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            while (step := self.shard.tick(self.now)) is not None:
                self.carry(step)
        self.now_ms = end

    # what is there

    def metadata(self, name: str = NAME) -> TransactionMetadata:
        return self.shard.image.transactions[name]

    def given(
        self,
        state: TransactionState = EMPTY,
        producer: Producer = SOMEBODY,
        *,
        name: str = NAME,
        previous: int = -1,
        following: int = -1,
        client: int = 0,
        partitions: tuple[TopicPartition, ...] = (),
        timeout_ms: int = 60_000,
    ) -> None:
        """Put a transactional id into the log, as its coordinator of before left it."""
        metadata = TransactionMetadata(
            name,
            producer.producer_id,
            producer.epoch,
            timeout_ms,
            self.now.wall_ms,
            state,
            frozenset(partitions),
            -1 if state is EMPTY else self.now.wall_ms,
            previous,
            following,
            client,
        )
        self.write(written(records.transaction(metadata, self.level)))

    # requests

    def init(
        self, expected: Producer = NOBODY, *, name: str | None = NAME, version: int = 5, **fields: Any
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=name,
            **{"transaction_timeout_ms": 60_000} | fields,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
        )
        response: InitProducerIdResponse = self.carry(self.shard.init_producer_id(request, version, self.now))
        return response

    def initialised(self, expected: Producer = NOBODY, **fields: Any) -> Producer:
        response = self.init(expected, **fields)
        assert response.error_code == ErrorCode.NONE
        return Producer(response.producer_id, response.producer_epoch)

    def add(self, producer: Producer, *partitions: TopicPartition, name: str = NAME, version: int = 4) -> ErrorCode:
        step = self.shard.add_partitions(name, producer, partitions, version, self.now)
        return ErrorCode(self.carry(step))

    def end(self, producer: Producer, *, commit: bool, name: str = NAME, version: int = 5) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commit
        )
        response: EndTxnResponse = self.carry(self.shard.end_txn(request, version, self.now))
        return response

    def endings(self) -> list[Ending]:
        """Give the transactions whose outcome is decided, by name."""
        image = self.shard.image
        return [ending_of(image.transactions[name], at, self.epoch) for name, at in sorted(image.ending.items())]

    def complete(self) -> None:
        """Let all markers be written."""
        for ending in self.endings():
            self.carry(self.shard.marked(ending, self.now))
