"""Transactional producers at full speed: librdkafka's C library, a thread for each producer."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Final

from bench.librdkafka import BLOCK, PRODUCER, Librdkafka, LibrdkafkaError, Message, Rate

_CALL_LIMIT_MS: Final = 60_000
Wanted = Callable[[int], bool]
"""Says whether a producer that has ended so many transactions begins another."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """What each transaction has: so many records of so many bytes. abort_each: one of how many is aborted, 0: none."""

    records: int
    size: int
    abort_each: int = 0


@dataclass(frozen=True, slots=True)
class TransactionRate:
    """How many transactions were committed in how long."""

    transactions: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Give transactions per second."""
        return self.transactions / self.seconds


class TransactionalProducer:
    """One producer, which writes to one partition. Use as a context manager; making it initialises transactions."""

    def __init__(self, library: Librdkafka, config: Mapping[str, str], transactional_id: str, topic: str) -> None:
        self._lib = library.lib
        settings = {
            "transactional.id": transactional_id,
            "queue.buffering.max.messages": "1000000",
            "queue.buffering.max.kbytes": "262144",
            **config,
        }
        self._handle = library.client(PRODUCER, settings)
        self._topic = self._lib.rd_kafka_topic_new(self._handle, topic.encode(), None)
        try:
            self._done(self._lib.rd_kafka_init_transactions(self._handle, _CALL_LIMIT_MS))
        except LibrdkafkaError:
            self.close()
            raise

    def __enter__(self) -> TransactionalProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the client."""
        self._lib.rd_kafka_topic_destroy(self._topic)
        self._lib.rd_kafka_destroy(self._handle)

    def run(self, shape: Transactions, partition: int, wanted: Wanted) -> int:
        """Write transactions, one after the other, as long as they are wanted; give how many were committed."""
        lib, handle = self._lib, self._handle
        payload = ctypes.create_string_buffer(bytes(i * 37 % 251 for i in range(shape.size)), shape.size)
        batch = (Message * shape.records)()
        for message in batch:
            message.payload = ctypes.addressof(payload)
            message.len = shape.size
        committed = 0
        for number in count():
            if not wanted(number):
                return committed
            self._done(lib.rd_kafka_begin_transaction(handle))
            if lib.rd_kafka_produce_batch(self._topic, partition, BLOCK, batch, shape.records) != shape.records:
                raise LibrdkafkaError("a record of a transaction was not taken")
            if shape.abort_each and number % shape.abort_each == shape.abort_each - 1:
                lib.rd_kafka_flush(handle, _CALL_LIMIT_MS)  # else nothing of it would ever be sent
                self._done(lib.rd_kafka_abort_transaction(handle, _CALL_LIMIT_MS))
                continue
            self._done(lib.rd_kafka_commit_transaction(handle, _CALL_LIMIT_MS))
            committed += 1
        raise AssertionError("unreachable")

    def _done(self, error: int | None) -> None:
        if error:
            text = self._lib.rd_kafka_error_string(error).decode()
            self._lib.rd_kafka_error_destroy(error)
            raise LibrdkafkaError(text)


def measure(
    library: Librdkafka,
    config: Mapping[str, str],
    topic: str,
    shape: Transactions,
    *,
    partitions: int,
    producers: int,
    seconds: float,
) -> TransactionRate:
    """Have so many producers write transactions for so long, the n-th to partition n modulo `partitions`."""
    settings = {"linger.ms": "0", **config}
    with ExitStack() as stack, ThreadPoolExecutor(producers) as pool:
        ids = [f"bench-{number}" for number in range(producers)]
        made = list(pool.map(lambda name: TransactionalProducer(library, settings, name, topic), ids))
        for each in made:
            stack.callback(each.close)
        begin = time.perf_counter()
        until = begin + seconds

        def run(number: int) -> int:
            return made[number].run(shape, number % partitions, lambda _: time.perf_counter() < until)

        total = sum(pool.map(run, range(producers)))
        return TransactionRate(total, time.perf_counter() - begin)


def fill(
    library: Librdkafka,
    config: Mapping[str, str],
    topic: str,
    shape: Transactions,
    *,
    partitions: int,
    records: int,
) -> Rate:
    """Write transactions to each partition until about so many records have been committed in all; give what has."""
    begin = time.perf_counter()
    wanted = max(1, records // shape.records // partitions)
    committed = 0
    for partition in range(partitions):
        with TransactionalProducer(library, config, f"fill-{partition}", topic) as producer:
            committed += producer.run(shape, partition, lambda number: number < wanted)
    filled = committed * shape.records
    return Rate(filled, filled * shape.size, time.perf_counter() - begin)
