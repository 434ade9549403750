"""What a partition remembers of its producers: last sequences, epochs, open transactions (KIP-98).

From it follow which batch is a duplicate, which comes out of order, who is fenced, and how far READ_COMMITTED may
read. It is rebuilt from snapshots (`producer_snapshot`) and the records after them, so it depends on the log alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from barnabas.storage.producer_verification import Verifications
from barnabas.storage.transaction_index import AbortedTxn
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import BatchHeader, decode_batch

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
BATCHES_REMEMBERED: Final = 5
"""A client has at most five requests in flight, so a retry is one of the last five batches."""
LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60_000
_MAX_SEQUENCE: Final = 2**31 - 1
_MARKER: Final = Struct(">21x h 4x q 26x 8s B B 2x i B")
"""A batch of one uncompressed marker, as all brokers write it: its attributes, base timestamp and record."""
_MARKER_SIZE: Final = _MARKER.size
_MARKER_HEAD: Final = b"\x20\0\0\0\x08\0\0\0"
"""Of a record: 16 bytes, no deltas, and a key of 4 bytes: the version, and one of the two bytes of the type."""


class BatchMetadata(NamedTuple):
    """What is kept of a batch, to know it again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + _MAX_SEQUENCE + 1

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerEntry:
    """One producer. coordinator_epoch: of the last transaction marker; current_txn_first_offset: None outside one."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int | None = None
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def is_in_transaction(self, epoch: int) -> bool:
        """Say whether a transaction is open in that very epoch."""
        return self.current_txn_first_offset is not None and self.producer_epoch == epoch

    def check_epoch(self, epoch: int, partition: str) -> None:
        """Refuse, by ApiError, an epoch that is over."""
        if epoch < self.producer_epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} writes with epoch {epoch} to {partition}, but its epoch "
                f"{self.producer_epoch} has been seen",
            )

    def enter_epoch(self, epoch: int) -> None:
        """Start the sequences anew when the epoch is another."""
        if epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = epoch

    def add_batch(self, epoch: int, batch: BatchMetadata) -> None:
        """Remember a batch of data."""
        if epoch != self.producer_epoch:
            self.enter_epoch(epoch)
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp


class EndTxnMarker(NamedTuple):
    """What a transaction's control record says."""

    commit: bool
    coordinator_epoch: int
    timestamp: int


class CompletedTxn(NamedTuple):
    """A transaction that just ended; last_offset: of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


def last_sequence_of(base_sequence: int, last_offset_delta: int) -> int:
    """Give the sequence of a batch's last record; sequences wrap after 2**31 - 1 to 0."""
    last = base_sequence + last_offset_delta
    return last if last <= _MAX_SEQUENCE else last - _MAX_SEQUENCE - 1


def end_txn_marker(batch: bytes | memoryview) -> EndTxnMarker | None:
    """Give the marker in a control batch; None when cleaning has emptied it or it is of another kind."""
    if len(batch) == _MARKER_SIZE:
        attributes, timestamp, head, kind, value_size, epoch, headers = _MARKER.unpack_from(batch)
        if head == _MARKER_HEAD and not attributes & 0xF and kind < 2 and value_size == 12 and not headers:
            return EndTxnMarker(kind == 1, epoch, timestamp)
    for record in decode_batch(batch):
        key, value = record.key, record.value
        if key is None or len(key) < 4 or key[2:4] not in (b"\x00\x00", b"\x00\x01"):
            return None
        epoch = int.from_bytes(value[2:6], "big", signed=True) if value is not None and len(value) >= 6 else -1
        return EndTxnMarker(key[3] == 1, epoch, record.timestamp)
    return None


class ProducerState:
    """The producers of one partition, and its transactions in the order of their first offsets."""

    __slots__ = (
        "entries",
        "expiration_ms",
        "map_end_offset",
        "ongoing_txns",
        "topic_partition",
        "unreplicated_txns",
        "verifications",
    )

    def __init__(self, name: str, expiration_ms: int = 86_400_000) -> None:
        self.topic_partition = name
        self.expiration_ms = expiration_ms
        self.entries: dict[int, ProducerEntry] = {}
        self.ongoing_txns: dict[int, int] = {}
        """First offset -> producer id; first offsets only grow, so the dict is in order."""
        self.unreplicated_txns: dict[int, int] = {}
        """First offset -> offset of the marker, for transactions whose marker is not below the high watermark."""
        self.map_end_offset = 0
        self.verifications = Verifications(name)

    @property
    def first_unstable_offset(self) -> int | None:
        """Give the first offset that belongs to an open, or ended but not yet replicated transaction."""
        ongoing, unreplicated = self.ongoing_txns, self.unreplicated_txns
        oldest = next(iter(ongoing), None)
        if not unreplicated:
            return oldest
        # Transactions end in any order, so those that have ended are not in the order of their first offsets.
        ended = min(unreplicated)
        return ended if oldest is None else min(oldest, ended)

    def has_late_transaction(self, now_ms: int, longest_ms: int) -> bool:
        """Say whether the oldest open transaction should have ended long ago: its coordinator may have lost it.

        longest_ms: how long a transaction may take; it gets five more minutes to be ended, as with Kafka.
        """
        oldest = next(iter(self.ongoing_txns.values()), None)
        if oldest is None:
            return False
        last_ms = self.entries[oldest].last_timestamp
        return last_ms > 0 and now_ms - last_ms > longest_ms + LATE_TRANSACTION_BUFFER_MS

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Give the remembered batch of which this is a retry, or None."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        last = last_sequence_of(header.base_sequence, header.last_offset_delta)
        for batch in entry.batches:
            if batch.last_sequence == last and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def check_data(self, header: BatchHeader, offset: int, *, check_sequence: bool) -> None:
        """Refuse a batch whose producer is fenced, or that does not follow: ApiError with Kafka's code."""
        entry = self.entries.get(header.producer_id)
        if entry is not None:
            entry.check_epoch(header.producer_epoch, self.topic_partition)
        if check_sequence and self.verifications:
            self.verifications.check_sequence(entry, header)
        if entry is None:
            return
        if check_sequence:
            self._check_sequence(entry, header.producer_epoch, header.base_sequence, offset)
        if entry.current_txn_first_offset is not None and not header.attributes & 0x10:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction in {self.topic_partition}, "
                f"and writes outside of it at offset {offset}",
            )

    def _check_sequence(self, entry: ProducerEntry, epoch: int, first: int, offset: int) -> None:
        if entry.producer_epoch == NO_EPOCH:
            return
        if epoch != entry.producer_epoch:
            if first == 0:
                return
            expected = "a new epoch begins with 0"
        else:
            last = entry.last_sequence
            if first == last + 1 or (first == 0 and last == _MAX_SEQUENCE):
                return
            expected = f"the last one was {last}"
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {entry.producer_id}, epoch {epoch}, sends sequence {first} at offset {offset} of "
            f"{self.topic_partition}: {expected}",
        )

    def check_marker(self, header: BatchHeader, marker: EndTxnMarker, transaction_version: int) -> None:
        """Refuse a marker of a fenced producer or of a coordinator that was replaced (KIP-890, KIP-1228)."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        epoch, current = header.producer_epoch, entry.producer_epoch
        stale = epoch <= current if transaction_version >= 2 else epoch < current
        # The retry of a marker that was written: the transaction is over, so a second marker does no harm.
        retry = epoch == current and (entry.current_txn_first_offset is None or epoch == 0x7FFF)
        if stale and not (transaction_version >= 2 and retry):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker of producer {header.producer_id} in {self.topic_partition} has epoch {epoch}, "
                f"but its epoch {current} has been seen",
            )
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker of producer {header.producer_id} in {self.topic_partition} has coordinator epoch "
                f"{marker.coordinator_epoch}, but {entry.coordinator_epoch} has been seen",
            )

    def apply_data(self, header: BatchHeader, base_offset: int, max_timestamp: int) -> None:
        """Remember a batch that was written at `base_offset`."""
        if self.verifications:
            self.verifications.written(header)
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id)
        delta = header.last_offset_delta
        last = last_sequence_of(header.base_sequence, delta) if header.base_sequence >= 0 else NO_SEQUENCE
        entry.add_batch(header.producer_epoch, BatchMetadata(last, base_offset + delta, delta, max_timestamp))
        if header.attributes & 0x10 and entry.current_txn_first_offset is None:
            entry.current_txn_first_offset = base_offset
            self.ongoing_txns[base_offset] = header.producer_id

    def apply_marker(self, header: BatchHeader, offset: int, marker: EndTxnMarker) -> CompletedTxn | None:
        """Remember a marker that was written at `offset`; gives the transaction it ended, if it held data here.

        `complete` must follow, once the transaction index has the abort.
        """
        if self.verifications:
            self.verifications.written(header)
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id)
        first = entry.current_txn_first_offset
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        entry.current_txn_first_offset = None
        return None if first is None else CompletedTxn(header.producer_id, first, offset, not marker.commit)

    def complete(self, txn: CompletedTxn) -> AbortedTxn:
        """End a transaction; gives its row for the transaction index (wanted when it was aborted)."""
        stable = next((o for o, pid in self.ongoing_txns.items() if pid != txn.producer_id), txn.last_offset + 1)
        self.ongoing_txns.pop(txn.first_offset, None)
        self.unreplicated_txns[txn.first_offset] = txn.last_offset
        return AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable)

    def replay(self, header: BatchHeader, batch: bytes | memoryview) -> AbortedTxn | None:
        """Take in a batch that stands in the log already, unchecked; gives an aborted transaction that it ended."""
        aborted = None
        if header.producer_id >= 0:
            if not header.attributes & 0x20:
                self.apply_data(header, header.base_offset, header.max_timestamp)
            elif (marker := end_txn_marker(batch)) is not None:
                completed = self.apply_marker(header, header.base_offset, marker)
                if completed is not None:
                    row = self.complete(completed)
                    aborted = row if completed.aborted else None
        self.map_end_offset = header.base_offset + header.last_offset_delta + 1
        return aborted

    def on_high_watermark(self, offset: int) -> None:
        """Forget ended transactions whose marker is below `offset`."""
        unreplicated = self.unreplicated_txns
        if unreplicated:
            for first in [f for f, marker in unreplicated.items() if marker < offset]:
                del unreplicated[first]

    def expire(self, now_ms: int) -> int:
        """Forget producers without an open transaction that were silent for long; gives how many."""
        gone = [pid for pid, entry in self.entries.items() if self.is_expired(entry, now_ms)]
        for pid in gone:
            del self.entries[pid]
        self.verifications.expire(now_ms - self.expiration_ms)
        return len(gone)

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        """Say whether nothing was heard of a producer for `producer.id.expiration.ms`."""
        return entry.current_txn_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms

    def load(self, entry: ProducerEntry) -> None:
        """Take in an entry of a snapshot."""
        self.entries[entry.producer_id] = entry
        if entry.current_txn_first_offset is not None:
            self.ongoing_txns[entry.current_txn_first_offset] = entry.producer_id
            self.ongoing_txns = dict(sorted(self.ongoing_txns.items()))

    def clear(self, end_offset: int) -> None:
        """Forget everybody; the next record has `end_offset`."""
        self.entries.clear()
        self.ongoing_txns.clear()
        self.unreplicated_txns.clear()
        self.map_end_offset = end_offset
