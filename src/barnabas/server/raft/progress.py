"""What the state machine hears of the metadata log, in the order of the log, in steps that give way to the event loop.

While this replica leads, its state machine knows what it proposed and hears of commits alone; else it is read what is
committed. A long stretch is read to it piece by piece, a turn of the loop each, so that the quorum is served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import structlog

from barnabas.core.raft.ready import LeaderAndEpoch, Leadership
from barnabas.core.raft.snapshot import SnapshotTrigger
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.server.raft.metadata_log import LoadedBatch, MetadataLog

log = structlog.get_logger("kafka.raft")

_PIECE_BYTES: Final = 256 * 1024
"""What is applied in one turn of the loop."""


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """What a snapshot is made of. id: the offset after the last record in it, and that one's epoch."""

    id: OffsetAndEpoch
    timestamp_ms: int
    values: Callable[[], Iterator[bytes]]


class StateMachine(Protocol):
    """Who applies the committed log. Called on the event loop, in the order of the log; nothing here may wait."""

    def restore(self, snapshot_id: OffsetAndEpoch, batches: Iterator[LoadedBatch]) -> None:
        """Begin with a snapshot, or go on with one that was fetched; replaces all that was known."""
        ...

    def apply(self, batches: Iterator[LoadedBatch], end_offset: int) -> None:
        """Apply committed records that this replica did not propose in its present epoch: up to `end_offset`.

        Many come in pieces; `commit` follows the last one.
        """
        ...

    def commit(self, end_offset: int) -> None:
        """Take note that everything up to `end_offset` is committed, own proposals included, and all else applied."""
        ...

    def lead(self, leadership: Leadership) -> None:
        """Begin to propose: everything before the epoch is applied."""
        ...

    def lose(self, reason: str) -> None:
        """Stop to propose; what is not committed stays undecided."""
        ...

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Take note of who leads now, this replica perhaps; `lead` says when that one may propose."""
        ...

    def snapshot_source(self) -> SnapshotSource | None:
        """Give what is committed now for a snapshot; None while there is nothing to write."""
        ...


class Progress:
    """See the module. leads: says whether this replica still leads that epoch; stuck: told when a later turn fails."""

    def __init__(
        self,
        files: MetadataLog,
        machine: StateMachine,
        trigger: SnapshotTrigger,
        leads: Callable[[int], bool],
        stuck: Callable[[BaseException], None],
    ) -> None:
        self._files = files
        self._machine = machine
        self._trigger = trigger
        self._leads = leads
        self._stuck = stuck
        self._steps: deque[Callable[[], bool]] = deque()
        self._led_epoch: int | None = None
        self.applied = 0
        """The end of what the state machine has heard of."""

    @property
    def leading(self) -> bool:
        """Say whether the state machine was told to lead, and not yet to stop."""
        return self._led_epoch is not None

    def load(self) -> None:
        """Restore the newest snapshot there is; the log after it follows once it is known to be committed."""
        found = self._files.read_snapshot()
        if found is not None:
            snapshot_id, batches = found
            self._machine.restore(snapshot_id, batches)
            self.applied = snapshot_id.offset

    def interrupt(self) -> None:
        """Drop what is not applied yet: a snapshot is about to replace it."""
        self._steps.clear()

    def commit(self, high_watermark: int) -> None:
        """Let everything below the high watermark be known."""
        self._do(partial(self._commit, high_watermark))

    def lead(self, leadership: Leadership) -> None:
        """Let the state machine propose, once it knows everything before."""
        self._do(partial(self._lead, leadership))

    def lose(self, reason: str) -> None:
        """Let the state machine stop to propose, at once."""
        if self._led_epoch is not None:
            self._led_epoch = None
            self._machine.lose(reason)

    def _do(self, step: Callable[[], bool]) -> None:
        if self._steps:
            self._steps.append(step)
        elif not step():
            self._steps.append(step)
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        try:
            while self._steps and self._steps[0]():
                self._steps.popleft()
        except Exception as e:  # noqa: BLE001 - whatever it is, the replica cannot go on, and its task says so
            self._steps.clear()
            self._stuck(e)
            return
        if self._steps:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _commit(self, high_watermark: int) -> bool:
        """Go one piece towards the high watermark; says whether it is reached."""
        if self._led_epoch is None and self.applied < high_watermark:
            piece = self._piece(high_watermark)
            if piece:
                self.applied = piece[-1].end_offset
                self._machine.apply(iter(piece), self.applied)
                if self.applied < high_watermark:
                    return False
        self.applied = max(self.applied, high_watermark)
        self._machine.commit(self.applied)
        return True

    def _piece(self, high_watermark: int) -> list[LoadedBatch]:
        piece = []
        size = 0
        for batch in self._files.read(self.applied, high_watermark):
            self._trigger.committed(batch.size_bytes)
            piece.append(batch)
            size += batch.size_bytes
            if size >= _PIECE_BYTES:
                break
        return piece

    def _lead(self, leadership: Leadership) -> bool:
        if self._leads(leadership.epoch):
            log.info("leads the metadata quorum", epoch=leadership.epoch, start=leadership.start_offset)
            self._led_epoch = leadership.epoch
            self._machine.lead(leadership)
        return True
