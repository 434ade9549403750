"""From the committed batches of the metadata log to images: one delta after another, transactions as a whole (KIP-868).

States: outside a transaction; inside one, whose records count only at its end. Records before a transaction's begin
are published before it; an aborted transaction leaves no trace but its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from barnabas.core.metadata.delta import DeltaBuilder, MetadataDelta, difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay as replay_all
from barnabas.core.replicated import ReplayError, VersionedRecord
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.records.abort_transaction_record import AbortTransactionRecord
from barnabas.wire.records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.records.end_transaction_record import EndTransactionRecord


class CommittedBatch(NamedTuple):
    """A batch of the metadata log. records: decoded, empty for a control batch; last_offset: the batch's own."""

    base_offset: int
    last_offset: int
    epoch: int
    records: Sequence[VersionedRecord]


class MetadataLoader:
    """Follows the log. image: the newest published, which never shows half a transaction."""

    __slots__ = ("_builder", "_end", "_transaction_start")

    def __init__(self, image: MetadataImage = MetadataImage.EMPTY) -> None:
        self._builder = DeltaBuilder(image)
        self._end = image.offset_epoch
        self._transaction_start: int | None = None

    @property
    def image(self) -> MetadataImage:
        """The newest image that was published."""
        return self._builder.before

    @property
    def transaction_start(self) -> int | None:
        """The offset at which the open transaction began; None outside of one."""
        return self._transaction_start

    @property
    def position(self) -> OffsetAndEpoch:
        """The last record read, published or not."""
        return self._end

    def load(self, batches: Iterable[CommittedBatch]) -> list[MetadataDelta]:
        """Apply committed batches, in the log's order; gives the deltas to publish, in theirs.

        ReplayError, naming the offset, when a record does not fit: the node cannot go on.
        """
        deltas: list[MetadataDelta] = []
        for batch in batches:
            for index, versioned in enumerate(batch.records):
                offset = batch.base_offset + index
                try:
                    self._step(versioned.record, offset, deltas)
                except ReplayError as e:
                    raise ReplayError(f"metadata log, offset {offset}: {e}") from e
                self._end = OffsetAndEpoch(offset, batch.epoch)
            self._end = OffsetAndEpoch(batch.last_offset, batch.epoch)
        if self._transaction_start is None and self._end != self.image.offset_epoch:
            deltas.append(self._publish())
        return deltas

    def _step(self, record: Any, offset: int, deltas: list[MetadataDelta]) -> None:
        if isinstance(record, BeginTransactionRecord):
            if self._transaction_start is not None:
                raise ReplayError(f"a transaction begins inside the one that began at {self._transaction_start}")
            if self._end != self.image.offset_epoch:
                deltas.append(self._publish())
            self._transaction_start = offset
        elif isinstance(record, EndTransactionRecord):
            self._leave("ends")
        elif isinstance(record, AbortTransactionRecord):
            self._leave("is aborted")
            self._builder = DeltaBuilder(self.image)
        else:
            self._builder.replay(record)

    def _leave(self, how: str) -> None:
        if self._transaction_start is None:
            raise ReplayError(f"a transaction {how} that never began")
        self._transaction_start = None

    def _publish(self) -> MetadataDelta:
        delta = self._builder.build(self._end.offset, self._end.epoch)
        self._builder = DeltaBuilder(delta.after)
        return delta

    def load_snapshot(self, records: Iterable[VersionedRecord], last: OffsetAndEpoch) -> MetadataDelta:
        """Take a whole snapshot, `last` being the last record it includes; gives one delta, applied as one (A-18)."""
        try:
            after = replay_all(MetadataImage.EMPTY, records).at(last.offset, last.epoch)
        except ReplayError as e:
            raise ReplayError(f"metadata snapshot {last.offset}-{last.epoch}: {e}") from e
        delta = difference(self.image, after)
        self._builder = DeltaBuilder(after)
        self._end = last
        self._transaction_start = None
        return delta
