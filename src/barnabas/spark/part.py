"""A task's part of a batch: what it is called, what the driver is told of it, and how its transaction may be lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from barnabas.client.config import ClientConfig
from barnabas.client.open_transaction import OpenTransaction
from barnabas.spark.explain import SourceError
from barnabas.wire.errors import ApiError, ErrorCode

TIMEOUT: Final = "transaction.timeout.ms"
OVER: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""How coordinators and partitions refuse a transaction that was ended by somebody else."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one task writes. run: the query's id, or the write's. batch: None in a batch write.

    execution: which execution of the batch, or which write, the task is of, so that its attempts and the driver know
    each other. rivals: whether another attempt of the task may be under way at the same time.
    """

    prefix: str
    run: str
    number: int
    batch: int | None
    execution: str
    rivals: bool = True

    @property
    def name(self) -> str:
        """Give the transactional id, which is also the name of the group that knows the last batch."""
        return f"{self.prefix}-{self.run}-{self.number}"

    def __str__(self) -> str:
        batch = "" if self.batch is None else f" of batch {self.batch}"
        return f"partition {self.number}{batch} (transactional id {self.name})"


@dataclass(frozen=True, slots=True)
class Pending:
    """A part that is written and not committed. opened_s: since when its transaction runs, s since the epoch."""

    part: Part
    transaction: OpenTransaction
    opened_s: float


@dataclass
class RowsWritten(WriterCommitMessage):
    """What one task did. pending: what is to be committed; done: the part that an earlier run had committed;
    empty: the part, where there was nothing to write."""

    rows: int
    pending: Pending | None = None
    done: Part | None = None
    empty: Part | None = None

    @property
    def part(self) -> Part | None:
        """Give the part, None when it was not written in a transaction."""
        return self.done or self.empty if self.pending is None else self.pending.part


@contextmanager
def told(part: Part, config: ClientConfig, opened_s: float) -> Iterator[None]:
    """Say what became of a transaction that is over, or cannot be begun."""
    try:
        yield
    except ApiError as e:
        if e.code in OVER:
            raise SourceError(over(part, config, opened_s)) from e
        if e.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise SourceError(
                f"{TIMEOUT} is {config.integer(TIMEOUT)}, more than transaction.max.timeout.ms of the brokers: set "
                f"kafka.{TIMEOUT} to what they allow, which is 15 minutes unless they say otherwise"
            ) from e
        if e.code is ErrorCode.UNSUPPORTED_VERSION:
            raise SourceError(f"{part}: these brokers have no transactions; set exactlyOnce to false") from e
        raise


def over(part: Part, config: ClientConfig, opened_s: float) -> str:
    """Say why a transaction that was opened at opened_s, s since the epoch, is over already."""
    ran_s, most_s = time.time() - opened_s, config.integer(TIMEOUT) / 1000
    if ran_s >= most_s:
        return (
            f"{part}: its transaction was open for {ran_s:.0f} s, longer than kafka.{TIMEOUT}={most_s * 1000:.0f} "
            "allows, so the cluster has aborted it. Raise that (brokers allow up to transaction.max.timeout.ms), or "
            "make batches smaller, for example with maxOffsetsPerTrigger"
        )
    return (
        f"{part}: somebody else has begun with the same transactional id, which has aborted this transaction: the same "
        "query runs twice (with a copy of its checkpoint?), another attempt of this task has begun, or an "
        "administrator has ended it"
    )
