"""A partition's log: what is appended to by its leader or follower, and read by consumers.

Plain calls, inline on the caller's thread: an append is one write to the page cache, a read gives a region of a
file and touches no data. Opened by `log_loader.open_log`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.storage import log_search
from barnabas.storage.batch_scan import CorruptBatchError
from barnabas.storage.file_region import EMPTY_REGION, FileRegion
from barnabas.storage.log_files import LogFiles
from barnabas.storage.log_search import TimestampedOffset
from barnabas.storage.log_validator import AppendOrigin, validate
from barnabas.storage.producer_state import EndTxnMarker, end_txn_marker
from barnabas.storage.producer_verification import VerificationGuard
from barnabas.storage.segment import BatchSpan, Segment
from barnabas.storage.transaction_index import AbortedTxn
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import BatchHeader, assign, check_crc, iter_headers


class LogAppendInfo(NamedTuple):
    """What became of an append. log_append_time_ms: -1 when records keep their own time; duplicate: nothing was
    written, the offsets are those of the first time."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    record_count: int


class FetchData(NamedTuple):
    """What a read found. aborted: the aborted transactions in it, None unless asked for."""

    records: FileRegion
    first_offset: int
    aborted: list[AbortedTxn] | None
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


class Log(LogFiles):
    """Appending and reading; what happens to the files stands in `LogFiles`."""

    # -- append

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append the batch in `records` (writable: offset and epoch are set in place); ApiError when refused.

        From RAFT_LEADER come whole batches with their offsets and epoch set already. transaction_version: of the
        transaction whose marker a coordinator writes; guard: of the verified transaction that begins here (KIP-890).
        """
        if self._offline or self._closed:
            self.check_usable()
        if origin is AppendOrigin.RAFT_LEADER:
            return self._append_and_flush(records, origin, leader_epoch)
        now_ms = self._now_ms()
        header, data, append_time = validate(records, self.config, origin, now_ms, self._name)
        with self.lock:
            if header.attributes & 0x10 and self.env.verify_transactions and not header.attributes & 0x20:
                self._check_verified(header, origin, guard)
            info = self._append_assigned(header, data, append_time, leader_epoch, origin, transaction_version, now_ms)
        if self._unflushed >= self.config.flush_messages:
            self.flush()
        return info

    def _check_verified(self, header: BatchHeader, origin: AppendOrigin, guard: VerificationGuard | None) -> None:
        retried = origin is AppendOrigin.CLIENT and self.producers.find_duplicate(header) is not None
        if header.producer_id >= 0 and not retried:
            self.producers.verifications.check(self.producers.entries.get(header.producer_id), header, guard)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epochs: bool
    ) -> VerificationGuard | None:
        """Give what a transaction's first batch must come with; None when its transaction is open here already."""
        with self.lock:
            return self.producers.verifications.begin(
                self.producers.entries.get(producer_id),
                producer_id,
                epoch,
                sequence,
                self._now_ms(),
                bumps_epochs=bumps_epochs,
            )

    def _append_assigned(
        self,
        header: BatchHeader,
        data: memoryview,
        append_time: int,
        leader_epoch: int,
        origin: AppendOrigin,
        transaction_version: int,
        now_ms: int,
    ) -> LogAppendInfo:
        first = self.log_end_offset
        last = first + header.last_offset_delta
        marker = None
        if header.producer_id >= 0:
            if header.attributes & 0x20:
                marker = end_txn_marker(data)
                if marker is not None:
                    self.producers.check_marker(header, marker, transaction_version)
            else:
                from_client = origin is AppendOrigin.CLIENT
                known = self.producers.find_duplicate(header) if from_client else None
                if known is not None:
                    return LogAppendInfo(
                        known.first_offset, known.last_offset, header.max_timestamp, known.timestamp,
                        self.log_start_offset, True, header.record_count,
                    )  # fmt: skip
                self.producers.check_data(header, first, check_sequence=from_client)
        size = len(data)
        try:
            segment = self._segment_for(size, first, last, header.max_timestamp, now_ms)
            assign(data, 0, first, leader_epoch)
            if leader_epoch != self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(leader_epoch, first)
            segment.append_one(data, last, header.max_timestamp)
            self.log_end_offset = last + 1
            if header.producer_id >= 0:
                if marker is not None:
                    self._apply_marker(segment, header, first, marker)
                elif not header.attributes & 0x20:
                    self.producers.apply_data(header, first, header.max_timestamp)
        except OSError as e:
            raise self._failed("appending to", e) from e
        self.producers.map_end_offset = last + 1
        self._unflushed += header.record_count
        return LogAppendInfo(
            first, last, header.max_timestamp, append_time, self.log_start_offset, False, header.record_count
        )

    def _apply_marker(self, segment: Segment, header: BatchHeader, offset: int, marker: EndTxnMarker) -> None:
        completed = self.producers.apply_marker(header, offset, marker)
        if completed is not None:
            aborted = self.producers.complete(completed)
            if completed.aborted:
                segment.txn_index.append(aborted)

    def append_as_follower(self, records: memoryview, leader_epoch: int | None = None) -> LogAppendInfo:
        """Append whole batches as a leader sent them. leader_epoch: batches of a later epoch are left out."""
        self.check_usable()
        return self._append_and_flush(records, AppendOrigin.REPLICATION, leader_epoch)

    def _append_and_flush(self, records: memoryview, origin: AppendOrigin, leader_epoch: int | None) -> LogAppendInfo:
        info = self._append_as_given(records, origin, leader_epoch)
        if self._unflushed >= self.config.flush_messages:
            self.flush()
        return info

    def _append_as_given(self, records: memoryview, origin: AppendOrigin, leader_epoch: int | None) -> LogAppendInfo:
        with self.lock:
            headers = self._check_given(records, origin, leader_epoch)
            if not headers:
                return LogAppendInfo(-1, -1, -1, -1, self.log_start_offset, False, 0)
            end = headers[-1][0] + headers[-1][1].size
            first = headers[0][1].base_offset
            last = headers[-1][1].last_offset
            max_timestamp = max(h.max_timestamp for _, h in headers)
            try:
                segment = self._segment_for(end, first, last, max_timestamp, self._now_ms())
                for _, header in headers:
                    if header.leader_epoch >= 0 and header.leader_epoch != self.leader_epochs.latest_epoch:
                        self.leader_epochs.assign(header.leader_epoch, header.base_offset)
                segment.append(records[:end], [BatchSpan(h.last_offset, h.max_timestamp, h.size) for _, h in headers])
                self.log_end_offset = last + 1
                for position, header in headers:
                    if header.producer_id >= 0:
                        aborted = self.producers.replay(header, records[position : position + header.size])
                        if aborted is not None:
                            segment.txn_index.append(aborted)
            except OSError as e:
                raise self._failed("appending to", e) from e
            self.producers.map_end_offset = last + 1
            count = sum(h.record_count for _, h in headers)
            self._unflushed += count
            return LogAppendInfo(first, last, max_timestamp, -1, self.log_start_offset, False, count)

    def _check_given(
        self, records: memoryview, origin: AppendOrigin, leader_epoch: int | None
    ) -> list[tuple[int, BatchHeader]]:
        checked: list[tuple[int, BatchHeader]] = []
        next_offset = self.log_end_offset
        # What a leader sends may end within a batch.
        for position, header in iter_headers(records, partial_tail=origin is AppendOrigin.REPLICATION):
            if origin is AppendOrigin.RAFT_LEADER and header.leader_epoch != leader_epoch:
                raise ApiError(
                    ErrorCode.INVALID_RECORD,
                    f"a batch for {self._name} has the epoch {header.leader_epoch}, where {leader_epoch} is wanted",
                )
            if origin is AppendOrigin.REPLICATION and leader_epoch is not None and header.leader_epoch > leader_epoch:
                break
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise ApiError(
                    ErrorCode.INVALID_RECORD,
                    f"a batch for {self._name} begins at offset {header.base_offset}, before {next_offset}",
                )
            if not check_crc(records, position, header):
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of a batch for {self._name} is not {header.crc}")
            next_offset = header.last_offset + 1
            checked.append((position, header))
        return checked

    def _segment_for(self, size: int, first: int, last: int, max_timestamp: int, now_ms: int) -> Segment:
        segment = self.segments.active
        if segment.should_roll(self.config, size, last, max_timestamp, now_ms):
            if size > self.config.segment_bytes:
                raise ApiError(
                    ErrorCode.RECORD_LIST_TOO_LARGE,
                    f"{size} bytes for {self._name} are more than a segment of {self.config.segment_bytes} holds",
                )
            return self.roll(first)
        return segment

    # -- read

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        max_offset: int | None = None,
        min_one_batch: bool = True,
        read_committed: bool = False,
    ) -> FetchData:
        """Give the records from `offset`, below `max_offset` (the log's end by default), as a region of a file.

        The region begins with the batch that holds `offset`, and may end within a batch, as Kafka's do.
        OFFSET_OUT_OF_RANGE outside of [log start, log end]. read_committed: list the aborted transactions that the
        region touches.
        """
        if self._offline or self._closed:
            self.check_usable()
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._name} has the offsets {self.log_start_offset} to {end}, not {offset}",
            )
        bound = end if max_offset is None or max_offset > end else max_offset
        region = EMPTY_REGION
        aborted: list[AbortedTxn] | None = [] if read_committed else None
        if offset < bound:
            try:
                segment, region = self._find_region(offset, max_bytes, bound, end, min_one_batch)
                if read_committed and segment is not None and region.length:
                    aborted = self._aborted_in(segment, region, offset)
            except OSError as e:
                raise self._failed("reading", e) from e
            except CorruptBatchError as e:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self._name}: {e}") from e
        return FetchData(region, offset, aborted, self.log_start_offset, self.high_watermark, self.last_stable_offset)

    def _find_region(
        self, offset: int, max_bytes: int, bound: int, end: int, min_one_batch: bool
    ) -> tuple[Segment | None, FileRegion]:
        active = self.segments.active
        candidates: Sequence[Segment] = (active,) if offset >= active.base_offset else self.segments.from_offset(offset)
        for segment in candidates:
            end_position = segment.size
            if bound < end:
                if segment.base_offset >= bound:
                    break
                limit = segment.find(bound)
                end_position = limit.position if limit is not None else end_position
            region = segment.read(offset, max_bytes, end_position, min_one_batch=min_one_batch)
            if region is not None:
                return segment, region
        return None, EMPTY_REGION

    def _aborted_in(self, segment: Segment, region: FileRegion, offset: int) -> list[AbortedTxn]:
        upper = segment.index.upper_bound_offset(region.position, region.length)
        if upper is None:
            following = self.segments.after(segment)
            upper = following.base_offset if following is not None else self.log_end_offset
        return self.aborted_transactions(offset, upper, segment)

    def aborted_transactions(self, start: int, end: int, first: Segment | None = None) -> list[AbortedTxn]:
        """Give the aborted transactions that touch the offsets [start, end), in the order of their markers."""
        found: list[AbortedTxn] = []
        for segment in self.segments.from_offset(first.base_offset if first is not None else start):
            some, done = segment.txn_index.collect(start, end)
            found += some
            if done:
                break
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """Give the first record whose timestamp is at least this; None when there is none."""
        return self.guarded(
            "searching", lambda: log_search.by_timestamp(self.segments, timestamp, self.log_start_offset)
        )

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """Give the first record that has the largest timestamp; None when no record has one."""
        return self.guarded("searching", lambda: log_search.largest_timestamp(self.segments))
