"""What attempts of one task, and the driver, tell each other, so that a late one does no harm.

Spark may run a task twice at once: it speculates, or an executor that it gave up for lost lives on. Whoever begins with
the part's transactional id ends what is open there, also what was written completely and is to be committed. So who is
done says so, as the offset of a group of the part's own, and who is about to begin looks there first: it takes what
is prepared for its own. Attempts of an earlier execution of the batch are of another plan, perhaps, and do not count.

A task may also begin after the driver has given its write up, for Spark does not wait until the tasks it kills are
dead. Its transaction would hold readers back until it times out. So the driver leaves a mark before it shuts the tasks
out, and a task looks for that mark when it has its producer id: either the driver came later and shut it out, or it
sees the mark, which is a transactional id that nobody writes with: it needs no topic, and no right beyond the task's.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

import structlog

from barnabas.client.admin.groups import CommittedOffset, GroupsAdmin
from barnabas.client.admin.transactions import TransactionsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.open_transaction import OpenTransaction
from barnabas.client.producer_id import ProducerId
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import ChannelError, UnsupportedVersionError
from barnabas.spark.explain import RefusedError, SourceError, about
from barnabas.spark.part import Part, Pending, RowsWritten
from barnabas.wire.errors import ApiError, ErrorCode

log: Final = structlog.get_logger("barnabas.spark.attempts")


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is told, as JSON in an offset's metadata. opened_s: as in Pending."""

    execution: str
    batch: int | None
    rows: int
    producer_id: int
    epoch: int
    v2: bool
    opened_s: float

    @classmethod
    def read(cls, text: str) -> _Prepared | None:
        """Give what a text tells, None when it is none of ours."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def text(self) -> str:
        """Give the text, of some 150 bytes; brokers keep 4,096 unless told otherwise."""
        return json.dumps(asdict(self), separators=(",", ":"))


async def prepared(cluster: Cluster, part: Part) -> RowsWritten | None:
    """Give what another attempt has written and left open, None when there is none. ApiError when refused."""
    if not part.rivals:
        return None
    with about(_group(part), part.prefix):
        found = await GroupsAdmin(cluster).group_offsets(_group(part))
    for offset in found.values():
        told = _Prepared.read(offset.metadata)
        if told is not None and (told.execution, told.batch) == (part.execution, part.batch):
            transaction = OpenTransaction(part.name, ProducerId(told.producer_id, told.epoch), told.v2)
            log.info("was written by another attempt", part=part.name, batch=part.batch, rows=told.rows)
            return RowsWritten(told.rows, Pending(part, transaction, told.opened_s))
    return None


async def tell(cluster: Cluster, written: RowsWritten, topic: str) -> None:
    """Tell other attempts that the part is prepared. topic: one that was written to, for the offset to be of.

    When that cannot be, a late attempt may end the transaction: the batch fails then, and is never seen twice.
    """
    pending = written.pending
    assert pending is not None
    part, producer = pending.part, pending.transaction.producer
    if not part.rivals:
        return
    told = _Prepared(
        part.execution, part.batch, written.rows, producer.id, producer.epoch, pending.transaction.v2, pending.opened_s
    )
    try:
        outcome = await GroupsAdmin(cluster).commit_offsets(
            _group(part), {TopicPartition(topic, 0): CommittedOffset(0, metadata=told.text())}
        )
        errors: list[Exception | None] = list(outcome.values())
    except (ApiError, ChannelError) as e:
        errors = [e]
    for error in errors:
        if error is not None:
            log.warning("other attempts are not told that it is written", part=part.name, why=str(error))


async def give_up(cluster: Cluster, part: Part) -> None:
    """Leave the mark for tasks of the part's execution that are still to begin. Errors as fence_producers."""
    (outcome,) = (await TransactionsAdmin(cluster).fence_producers([_mark(part)])).values()
    if isinstance(outcome, ApiError):
        raise outcome


async def check_wanted(cluster: Cluster, part: Part) -> None:
    """Raise SourceError when the driver has given the part's execution up. ApiError when that cannot be known."""
    name = _mark(part)
    try:
        (found,) = (await TransactionsAdmin(cluster).describe_transactions([name])).values()
    except UnsupportedVersionError:  # Kafka before 3.0: there the time-out ends what a late task begins
        return
    if not isinstance(found, ApiError):
        raise SourceError(f"{part}: the write was given up before this task had begun")
    if found.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise RefusedError(found.code, name, part.prefix) from found


def _mark(part: Part) -> str:
    return f"{part.prefix}-{part.execution}-given-up"


def _group(part: Part) -> str:
    return f"{part.name}-prepared"
