"""Writes of transactions that are none: not begun, of another epoch, ended (KIP-890), and what leaders make of them.

The leader of a partition asks the coordinator whether the partition belongs to the transaction, and each may be of
either kind.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.client.admin import Admin
from barnabas.wire.record_batch import decode_batch, read_header
from tests.conformance.side_by_side.requests import request
from tests.conformance.side_by_side.test_records import batch
from tests.conformance.side_by_side.test_transactions import Producer, added, ended, init
from tests.peers.eventually import eventually

from .clusters import WAIT_S
from .raw import Talk

CHECKING: Final = 11
"""Of Produce: the leader asks whether the partition was added."""
ADDING: Final = 12
"""Of Produce: the leader has the partition added, for clients of transaction.version 2."""


class Late:
    """One coordinator, and the leader of the only partition of a topic."""

    def __init__(self, asking: Admin, coordinator: int, leader: int, topic: str, other: str, name: str) -> None:
        """name: a transactional id of the coordinator's. other: a topic, of anybody, that transactions write to."""
        self._coordinator, self._leader, self._topic, self._other, self._name = coordinator, leader, topic, other, name
        places = {topic: "(topic)", other: "(other)", name: "(id)"}
        self.talk: Final = Talk(asking, f"coordinator {coordinator}, leader {leader}", places)

    async def ask_for_everything(self) -> None:
        """Write when that is refused, and now and then when it is not; write down what the partition holds then."""
        await self.talk.ready(self._coordinator, self._name)
        for version in (CHECKING, ADDING):
            await self._never_begun(version)
            await self._of_another_epoch(version)
            await self._ended(version)
        await self._what_there_is()

    async def _never_begun(self, version: int) -> None:
        now = await self._begun()
        if version == CHECKING:
            await self._send(now, version, "nothing was added")
            await self._add(now, self._other)
            await self._send(now, version, "another topic was added")
        stranger = now._replace(id=now.id + 987_654)
        await self._send(stranger, version, "an unknown producer")
        await self._send(now, version, "an unknown id", name="nobody's")
        await self._send(now._replace(epoch=now.epoch + 1), version, "the next epoch")
        await self._send(now._replace(epoch=-1), version, "no epoch")
        await self._end(now, version, commit=False)

    async def _of_another_epoch(self, version: int) -> None:
        before = await self._begun()
        await self._add(before, self._topic)
        await self._send(before, version, "in time")
        now = await self._begun()
        await self._send(before, version, "of the epoch before")
        await self._add(now, self._topic)
        await self._send(before, version, "of the epoch before, in a transaction of the next")
        await self._send(now, version, "of the epoch now")
        await self._send(before._replace(epoch=0), version, "of the first epoch")
        await self._send(now._replace(epoch=now.epoch + 5), version, "of an epoch of the future")
        await self._end(now, version, commit=True)

    async def _ended(self, version: int) -> None:
        for commit in (True, False):
            now = await self._begun()
            await self._add(now, self._topic)
            await self._send(now, version, f"in time {commit}")
            after = await self._end(now, version, commit=commit)
            await self._send(now, version, f"after the end {commit}", sequence=1)
            await self._send(now, version, f"after the end, begins anew {commit}")
            if version == ADDING:
                await self._send(after, version, f"the next {commit}")
                await self._send(now, version, f"after the end, in the next {commit}", sequence=1)
                await self._end(after, version, commit=commit)

    async def _begun(self) -> Producer:
        made: Any = None

        async def error() -> int:
            nonlocal made
            made = await self.talk.ask(self._coordinator, init(self._name), 4)
            return int(made.error_code)

        await eventually(error, 0, WAIT_S)  # what was open is aborted first
        await self.talk.settled(self._coordinator, self._name)
        return Producer(self._name, made.producer_id, made.producer_epoch)

    async def _add(self, by: Producer, topic: str) -> None:
        await self.talk.call(self._coordinator, added(3, by, (topic, [0])), 3, "adds")

    async def _end(self, by: Producer, version: int, *, commit: bool) -> Producer:
        answer = await self.talk.call(self._coordinator, ended(by, commit=commit), 5 if version == ADDING else 4)
        await self.talk.settled(self._coordinator, self._name)
        return Producer(by.name, answer.producer_id, answer.producer_epoch) if version == ADDING else by

    async def _send(self, by: Producer, version: int, note: str, *, sequence: int = 0, name: str = "") -> None:
        part = {"index": 0, "records": _records(by, sequence, note)}
        topic = {"name": self._topic, "partition_data": [part]}
        asked = request("Produce", transactional_id=name or by.name, acks=-1, timeout_ms=30_000, topic_data=[topic])
        await self.talk.call(self._leader, asked, version, f"v{version}: {note}")

    async def _what_there_is(self) -> None:
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
        whole: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000_000, "isolation_level": 1}
        asked = request("Fetch", topics=[{"topic": self._topic, "partitions": [part]}], **whole)
        records = bytes((await self.talk.ask(self._leader, asked, 12)).responses[0].partitions[0].records)
        found, at = [], 0
        while at < len(records):
            header = read_header(records, at)
            found += [(r.offset, r.key, header.producer_epoch) for r in decode_batch(records, at)]
            at += header.size
        self.talk.side.note(asked, 12, "", f"{found}")  # markers name the epoch of their coordinator besides


def _records(by: Producer, sequence: int, note: str) -> bytes:
    return batch(
        1,
        key=note.encode(),
        transactional=True,
        producer_id=by.id,
        producer_epoch=by.epoch,
        base_sequence=sequence,
    )
