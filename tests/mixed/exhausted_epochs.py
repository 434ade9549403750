"""Transactional ids whose producers are in their last epochs (KIP-360, KIP-890), and what coordinators make of them.

Nobody has the time to bump an epoch 32766 times: the state is written into the coordinators' log by hand, and another
leader and back make them read it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.client.admin import Admin
from barnabas.core.groups.partitioning import partition_for
from barnabas.core.transactions.metadata import TransactionMetadata
from barnabas.core.transactions.records import transaction
from barnabas.core.transactions.states import COMPLETE_ABORT, COMPLETE_COMMIT, EMPTY, ONGOING, TransactionState
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.coordinator_records import (
    CoordinatorRecord,
    decode_transaction_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.wire.record_batch import Record, decode_batch, encode_batch, read_header
from tests.conformance.side_by_side.comparison import Known
from tests.conformance.side_by_side.requests import request
from tests.conformance.side_by_side.test_transactions import Producer, added, ended, init
from tests.peers.eventually import eventually

from .clusters import WAIT_S
from .raw import Talk
from .walks import log_bytes

TRANSACTIONS: Final = "__transaction_state"
LAST: Final = 32_766
"""The last epoch that clients get; the one after it is for whoever fences them."""
LEVELS: Final = (2, 1, 0)
"""Of transaction.version."""


@dataclass(frozen=True)
class Begin:
    """What a transactional id begins with."""

    state: TransactionState
    epoch: int


CRASHES: Final = (
    Known(
        "(an epoch of the past|once it fenced itself)$",
        "error_code$",
        "Kafka answers UNKNOWN_SERVER_ERROR, and we PRODUCER_FENCED",
    ),
    Known("is nearly there: the answer was lost", "", "Kafka answers UNKNOWN_SERVER_ERROR, and we once more"),
)
"""What Kafka does not expect: a producer of another epoch than the last one, which its id has reached."""
BEGINS: Final = {
    "begins": Begin(EMPTY, LAST),
    "goes on": Begin(COMPLETE_COMMIT, LAST),
    "is nearly there": Begin(COMPLETE_COMMIT, LAST - 1),
    "was fenced": Begin(COMPLETE_ABORT, LAST + 1),
    "is fenced": Begin(ONGOING, LAST),
    "is fenced by itself": Begin(ONGOING, LAST),
    "is fenced nearly there": Begin(ONGOING, LAST - 1),
    "ends by fencing": Begin(ONGOING, LAST + 1),
    "commits past the last": Begin(ONGOING, LAST + 1),
    "aborts past the last": Begin(ONGOING, LAST + 1),
    **{
        f"{what} v{version}": begin
        for version in (4, 5)
        for what, begin in {
            "commits": Begin(ONGOING, LAST),
            "aborts": Begin(ONGOING, LAST),
            "commits nearly there": Begin(ONGOING, LAST - 1),
            "aborts nothing": Begin(EMPTY, LAST),
            "aborts nothing after a commit": Begin(COMPLETE_COMMIT, LAST),
        }.items()
    },
}


class Exhausted:
    """The transactional ids of one coordinator, and what it is asked about them."""

    def __init__(self, asking: Admin, broker: int, partition: int, partitions: int, topic: str) -> None:
        """partition: of the coordinators' log, which this broker is to lead. topic: which transactions write to."""
        self.partition: Final = partition
        self._broker = broker
        self._topic = topic
        self._names = {
            (what, level): _named(f"{what.replace(' ', '-')}-{level}-by-{broker}", partition, partitions)
            for what in BEGINS
            for level in LEVELS
        }
        self._producers: dict[str, Producer] = {}
        names = {name: f"({what}, level {level})" for (what, level), name in self._names.items()}
        self.talk: Final = Talk(asking, f"broker {broker}", {**names, topic: "(topic)"})

    async def write(self) -> None:
        """Write what they begin with into the log."""
        records: list[Record] = []
        now_ms = time.time_ns() // 1_000_000
        for (what, level), name in self._names.items():
            begin = BEGINS[what]
            producer_id = await self._fresh_id()
            self._producers[name] = Producer(name, producer_id, begin.epoch)
            found = TransactionMetadata(
                name,
                producer_id,
                begin.epoch,
                timeout_ms=600_000,
                updated_ms=now_ms,
                state=begin.state,
                partitions=frozenset({TopicPartition(self._topic, 0)} if begin.state is ONGOING else ()),
                started_ms=now_ms,
                client_version=level,
            )
            record = transaction(found, level)
            assert record.value is not None
            value = encode_coordinator_value(record.value, record.value_version)
            records.append(Record(len(records), now_ms, encode_coordinator_key(record.key), value))
        part = {"index": self.partition, "records": encode_batch(records)}
        topic = {"name": TRANSACTIONS, "partition_data": [part]}
        asked = request("Produce", acks=-1, timeout_ms=30_000, topic_data=[topic])
        answer = await self.talk.ask(self._broker, asked, 11)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    async def _fresh_id(self) -> int:
        found = -1

        async def error() -> int:
            nonlocal found
            made = await self.talk.ask(self._broker, init(None), 4)
            found = made.producer_id
            return int(made.error_code)

        await eventually(error, 0, WAIT_S)  # the broker may have to ask the controller for more of them
        return found

    async def read(self) -> None:
        """Wait until the coordinator has read them."""
        for name in self._producers:
            await self.talk.ready(self._broker, name)

    async def asked_for(self, level: int) -> None:
        """Ask for everything there is to ask of those that are for a level, which has to be the finalised one."""
        now = {what: self._producers[self._names[what, level]] for what in BEGINS}
        await self._begin_and_go_on(now)
        for what in ("is fenced", "is fenced nearly there", "ends by fencing"):
            await self._init(now[what], "while open")
            await self._settled(now[what])
            await self._init(now[what], "once fenced", follow=True)
        await self._init(now["is fenced by itself"], "while open", goes_on=now["is fenced by itself"])
        await self._settled(now["is fenced by itself"])
        await self._init(now["is fenced by itself"], "once it fenced itself", goes_on=now["is fenced by itself"])
        await self._settled(now["is fenced by itself"])
        for version in (4, 5) if level == 2 else (4,):
            for what in (
                "commits",
                "aborts",
                "commits nearly there",
                "aborts nothing",
                "aborts nothing after a commit",
            ):
                await self._end(now[f"{what} v{version}"], version, commit=what.startswith("commits"))
        for what in ("aborts past the last", "commits past the last"):
            await self._end(now[what], 4, commit=what.startswith("commits"))

    async def _begin_and_go_on(self, now: dict[str, Producer]) -> None:
        await self._init(now["begins"], "begins", follow=True)
        for what in ("goes on", "is nearly there", "was fenced"):
            one = now[what]
            await self._init(one, "an epoch of the past", goes_on=one._replace(epoch=7))
            await self._init(one, "goes on", goes_on=one)
            await self._settled(one)
            await self._init(one, f"{what}: the answer was lost", goes_on=one)
            again = await self._init(one, f"{what}: the answer was lost again", goes_on=one)
            await self._init(
                one, "goes on from there", goes_on=Producer(one.name, again.producer_id, again.producer_epoch)
            )
            await self._settled(one)
            await self._init(one, "is late", goes_on=one)

    async def _init(self, one: Producer, note: str, *, goes_on: Producer | None = None, follow: bool = False) -> Any:
        fields = {} if goes_on is None else {"producer_id": goes_on.id, "producer_epoch": goes_on.epoch}
        answer = await self._call(init(one.name, **fields), 4, note)
        if follow:
            await self._settled(one)
            await self._call(ended(one, commit=False), 4, "by who was before")
            await self._call(added(3, one, (self._topic, [0])), 3, "by who was before")
        return answer

    async def _end(self, one: Producer, version: int, *, commit: bool) -> None:
        answer = await self._call(ended(one, commit=commit), version, f"commit {commit}")
        await self._settled(one)
        for also in (commit, not commit):
            await self._call(ended(one, commit=also), version, f"again, commit {also}")
            await self._settled(one)
        after = Producer(one.name, answer.producer_id, answer.producer_epoch) if version >= 5 else one
        await self._call(added(3, one, (self._topic, [0])), 3, "by who was before")
        await self._call(added(3, after, (self._topic, [0])), 3, "goes on")
        await self._call(ended(after, commit=True), version, "goes on")
        await self._settled(after)
        await self._init(one, "begins in the end")
        await self._settled(one)

    async def _call(self, asked: Any, version: int, note: str) -> Any:
        return await self.talk.call(self._broker, asked, version, note)

    async def _settled(self, one: Producer) -> None:
        await self.talk.settled(self._broker, one.name)

    def logged(self, directory: Path) -> dict[tuple[str, int], list[tuple[object, ...]]]:
        """Give what the log holds about each of them in turn, producer ids by the order in which they appear.

        What is written twice counts once: what Kafka answers with UNKNOWN_SERVER_ERROR leaves no record.
        """
        whats = {name: key for key, name in self._names.items()}
        ids: dict[str, dict[int, str]] = {name: {-1: "none"} for name in whats}
        found: dict[tuple[str, int], list[tuple[object, ...]]] = {key: [] for key in self._names}
        for record in _records(log_bytes(directory, f"{TRANSACTIONS}-{self.partition}")):
            value: Any = record.value
            name = getattr(record.key, "transactional_id", "")
            if name not in whats or value is None:
                continue
            mine, rows = ids[name], found[whats[name]]
            producers = [
                mine.setdefault(each, f"id {len(mine)}")
                for each in (value.producer_id, value.previous_producer_id, value.next_producer_id)
            ]
            state = TransactionState(value.transaction_status).spelled
            started = value.transaction_start_timestamp_ms >= 0
            rest = (value.client_transaction_version, record.value_version, len(value.transaction_partitions or ()))
            row = (state, value.producer_epoch, *producers, started, *rest)
            if rows[-1:] != [row]:
                rows.append(row)
        return found


def _named(begin: str, partition: int, partitions: int) -> str:
    return next(name for n in range(1000) if partition_for(name := f"{begin}-{n}", partitions) == partition)


def _records(log: bytes) -> Iterator[CoordinatorRecord]:
    at = 0
    while at < len(log):
        header = read_header(log, at)
        if not header.is_control:
            for record in decode_batch(log, at):
                decoded = decode_transaction_record(record.key or b"", record.value)
                assert isinstance(decoded, CoordinatorRecord)
                yield decoded
        at += header.size
