"""Appending to, reading and aging one log on a memory disk."""

from __future__ import annotations

import errno

import pytest

from barnabas.storage.log import Log
from barnabas.storage.log_validator import AppendOrigin
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import decode_batch, encode_batch, iter_headers

from .logs import NOW_MS, Bench, batch, marker, read_all, values


def filled(bench: Bench, batches: int = 20, records: int = 5, epoch: int = 0) -> Log:
    log = bench.open()
    for n in range(batches):
        log.append_as_leader(batch(*(b"%d-%d" % (n, r) for r in range(records)), timestamp=NOW_MS + n), epoch)
    log.update_high_watermark(log.log_end_offset)
    return log


def code_of(refused: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return refused.value.code


def test_append_gives_offsets_and_stamps_offset_and_epoch() -> None:
    log = Bench().open()
    first = log.append_as_leader(batch(b"a", b"b"), 3)
    second = log.append_as_leader(batch(b"c"), 4)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 1, 2)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert (first.max_timestamp, first.log_append_time_ms, first.duplicate) == (NOW_MS + 1, -1, False)
    data = log.read(0, 10_000).records.read()
    assert [(h.base_offset, h.leader_epoch) for _, h in iter_headers(data)] == [(0, 3), (2, 4)]
    assert log.leader_epochs.entries == [(3, 0), (4, 2)]
    assert values(read_all(log)) == [b"a", b"b", b"c"]


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    log = filled(Bench())
    data = log.read(7, 10_000).records.read()
    assert next(iter_headers(data))[1].base_offset == 5


@pytest.mark.parametrize("offset", [-1, 101])
def test_a_read_outside_the_log_is_out_of_range(offset: int) -> None:
    with pytest.raises(ApiError) as refused:
        filled(Bench()).read(offset, 100)
    assert code_of(refused) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_at_the_end_is_empty() -> None:
    assert len(filled(Bench()).read(100, 100).records) == 0


@pytest.mark.parametrize("segment_bytes", ["300", "1000000"])
def test_a_read_stops_at_the_bound_in_any_segment(segment_bytes: str) -> None:
    log = filled(Bench(config={"segment.bytes": segment_bytes}))
    for bound in range(0, 100, 5):
        seen = []
        offset = 0
        while offset < bound:
            data = log.read(offset, 1000, max_offset=bound).records.read()
            headers = [h for _, h in iter_headers(data, partial_tail=True)]
            seen += [h.base_offset for h in headers]
            offset = headers[-1].next_offset
        assert seen == list(range(0, bound, 5))
        assert len(log.read(bound, 1000, max_offset=bound).records) == 0


def test_min_one_batch_gives_a_whole_batch_past_max_bytes() -> None:
    log = filled(Bench(), batches=2)
    size = log.size // 2
    assert len(log.read(0, 1).records) == size
    assert len(log.read(0, 1, min_one_batch=False).records) == 1


def test_a_region_stays_readable_when_its_segment_is_deleted() -> None:
    bench = Bench(config={"segment.bytes": "300", "file.delete.delay.ms": "0"})
    log = filled(bench)
    region = log.read(0, 10_000).records
    log.delete_records_before(50)
    log.apply_retention(NOW_MS)
    bench.env.deletes.run(bench.fs, bench.clock.monotonic_ms())
    assert "00000000000000000000.log" not in bench.files()
    assert next(iter_headers(region.read()))[1].base_offset == 0
    first, second = region.split(10)
    assert first.read() + second.read() == region.read()


# -- rolling


def test_a_segment_ends_when_it_is_full() -> None:
    bench = Bench(config={"segment.bytes": "500"})
    log = filled(bench)
    assert len(log.segments) >= 5
    assert all(s.size <= 500 for s in log.segments)
    assert values(read_all(log)) == [b"%d-%d" % (n, r) for n in range(20) for r in range(5)]
    assert all(f"{s.base_offset:020d}.snapshot" in bench.files() for s in log.segments if s.base_offset)


def test_a_segment_ends_when_it_is_old() -> None:
    log = Bench(config={"segment.ms": "1000"}).open()
    for ms in (0, 900, 1001, 1500, 2002):
        log.append_as_leader(batch(b"x", timestamp=NOW_MS + ms), 0)
    assert log.segments.base_offsets == (0, 2, 4)


def test_a_segment_ends_when_its_index_is_full() -> None:
    log = Bench(config={"segment.index.bytes": "40", "index.interval.bytes": "0"}).open()
    for n in range(12):
        log.append_as_leader(batch(b"x" * 50, timestamp=NOW_MS + n), 0)
    assert len(log.segments) > 2
    assert all(len(s.index) <= 5 and len(s.time_index) <= 3 for s in log.segments)


def test_a_set_larger_than_a_segment_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        Bench(config={"segment.bytes": "200"}).open().append_as_leader(batch(b"x" * 500), 0)
    assert code_of(refused) is ErrorCode.RECORD_LIST_TOO_LARGE


# -- aging


def test_retention_by_size_keeps_at_least_that_much() -> None:
    log = filled(Bench(config={"segment.bytes": "300", "retention.bytes": "1000"}))
    before = log.size
    assert log.apply_retention(NOW_MS) > 0
    assert 1000 <= log.size < before
    assert log.log_start_offset == log.segments[0].base_offset > 0
    assert values(read_all(log))[0] == b"%d-0" % (log.log_start_offset // 5)


def test_retention_by_age_drops_even_the_active_segment() -> None:
    log = filled(Bench(config={"segment.bytes": "300", "retention.ms": "1000"}))
    assert log.apply_retention(NOW_MS + 1010) > 0
    assert log.log_start_offset > 0
    log.apply_retention(NOW_MS + 10_000)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (100, 100, 0)
    assert log.append_as_leader(batch(b"next"), 0).first_offset == 100


def test_retention_keeps_what_is_not_committed() -> None:
    log = filled(Bench(config={"segment.bytes": "300", "retention.ms": "1000"}))
    log.high_watermark = 0
    assert log.apply_retention(NOW_MS + 100_000) == 0


def test_compacted_logs_do_not_age() -> None:
    log = filled(Bench(config={"segment.bytes": "300", "retention.ms": "1"}))
    log.update_config(Bench(config={"cleanup.policy": "compact"}).open().config)
    assert log.apply_retention(NOW_MS + 100_000) == 0


def test_delete_records_moves_the_start_and_frees_whole_segments() -> None:
    log = filled(Bench(config={"segment.bytes": "300"}))
    assert log.delete_records_before(52) == 52
    assert values(read_all(log))[0] == b"10-2"
    log.apply_retention(NOW_MS)
    assert log.segments[0].base_offset <= 52 < log.segments[1].base_offset
    assert log.delete_records_before(-1) == 100
    with pytest.raises(ApiError) as refused:
        log.delete_records_before(101)
    assert code_of(refused) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_dropped_segments_are_renamed_then_deleted_after_the_delay() -> None:
    bench = Bench(config={"segment.bytes": "300", "retention.bytes": "1000", "file.delete.delay.ms": "5000"})
    filled(bench).apply_retention(NOW_MS)
    assert "00000000000000000000.log.deleted" in bench.files()
    bench.env.deletes.run(bench.fs, bench.clock.monotonic_ms() + 4999)
    assert "00000000000000000000.log.deleted" in bench.files()
    bench.env.deletes.run(bench.fs, bench.clock.monotonic_ms() + 5000)
    assert not [f for f in bench.files() if f.endswith(".deleted")]


# -- time


def test_offsets_by_time() -> None:
    log = filled(Bench(config={"segment.bytes": "300"}))
    found = log.offset_for_timestamp(NOW_MS + 10)
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (34, NOW_MS + 10, 0)
    assert log.offset_for_timestamp(NOW_MS + 1000) is None
    newest = log.offset_of_max_timestamp()
    assert newest is not None
    assert (newest.offset, newest.timestamp) == (99, NOW_MS + 23)


# -- truncation


@pytest.mark.parametrize("target", [0, 5, 50, 52, 95])
def test_truncation_ends_the_log_there(target: int) -> None:
    bench = Bench(config={"segment.bytes": "300", "index.interval.bytes": "50"})
    log = filled(bench)
    assert log.truncate_to(target)
    assert log.log_end_offset == target
    assert log.high_watermark == target
    kept = target // 5 * 5
    assert len(read_all(log)) == kept
    log.append_as_leader(batch(b"new"), 1)
    reopened = bench.open()
    assert values(read_all(reopened))[-1] == b"new"
    assert len(read_all(reopened)) == kept + 1


def test_truncation_past_the_end_does_nothing() -> None:
    log = filled(Bench())
    assert not log.truncate_to(100)
    assert log.log_end_offset == 100


def test_truncation_forgets_an_epoch_that_has_no_records() -> None:
    bench = Bench()
    log = filled(bench)
    known = log.leader_epochs.entries
    log.leader_epochs.assign(9, log.log_end_offset)
    log.leader_epochs.save()
    assert not log.truncate_to(log.log_end_offset)
    assert log.leader_epochs.entries == known
    assert bench.open().leader_epochs.entries == known


def test_starting_anew_elsewhere() -> None:
    log = filled(Bench(config={"segment.bytes": "300"}))
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.size) == (1000, 1000, 1000, 0)
    assert log.append_as_leader(batch(b"x"), 7).first_offset == 1000


# -- replication


def test_a_follower_takes_batches_as_they_are_and_leaves_out_newer_epochs() -> None:
    leader = filled(Bench(), batches=3)
    leader.append_as_leader(batch(b"newer"), 9)
    data = memoryview(bytearray(leader.read(0, 100_000).records.read()))
    follower = Bench().open()
    info = follower.append_as_follower(data, leader_epoch=0)
    assert (info.first_offset, info.last_offset, info.record_count) == (0, 14, 15)
    assert follower.leader_epochs.entries == [(0, 0)]
    follower.append_as_follower(data[info.record_count and leader.segments.active.find(15).position :])  # type: ignore[union-attr]
    assert follower.read(0, 100_000).records.read() == leader.read(0, 100_000).records.read()


def test_a_follower_refuses_what_it_has() -> None:
    leader = filled(Bench(), batches=2)
    data = memoryview(bytearray(leader.read(0, 100_000).records.read()))
    with pytest.raises(ApiError, match="begins at offset 0, before 10"):
        leader.append_as_follower(data)


def test_the_raft_leader_brings_offsets_and_epoch() -> None:
    log = Bench().open()
    data = memoryview(bytearray(encode_batch(list(decode_batch(batch(b"a", b"b"))), leader_epoch=5)))
    info = log.append_as_leader(data, 5, origin=AppendOrigin.RAFT_LEADER)
    assert (info.first_offset, info.last_offset) == (0, 1)
    with pytest.raises(ApiError, match="epoch 5, where 6 is wanted"):
        log.append_as_leader(data, 6, origin=AppendOrigin.RAFT_LEADER)


# -- producers


def test_a_retry_gives_the_first_offsets_and_writes_nothing() -> None:
    log = Bench().open()
    for sequence in range(0, 12, 2):
        log.append_as_leader(batch(b"a", b"b", producer=(7, 0, sequence)), 0)
    size = log.size
    again = log.append_as_leader(batch(b"a", b"b", producer=(7, 0, 4)), 0)
    assert (again.duplicate, again.first_offset, again.last_offset) == (True, 4, 5)
    assert log.size == size
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(b"a", b"b", producer=(7, 0, 0)), 0)
    assert code_of(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("epoch", "sequence", "code"),
    [
        (1, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (2, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_sequences_and_epochs_are_checked(epoch: int, sequence: int, code: ErrorCode) -> None:
    log = Bench().open()
    log.append_as_leader(batch(b"a", b"b", producer=(7, 1, 0)), 0)
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(b"c", producer=(7, epoch, sequence)), 0)
    assert code_of(refused) is code
    assert log.log_end_offset == 2


def test_a_new_epoch_begins_with_zero_and_sequences_wrap() -> None:
    log = Bench().open()
    log.append_as_leader(batch(b"a", producer=(7, 1, 2**31 - 1)), 0)
    log.append_as_leader(batch(b"b", producer=(7, 1, 0)), 0)
    log.append_as_leader(batch(b"c", producer=(7, 2, 0)), 0)
    assert log.log_end_offset == 3


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert Bench().open().append_as_leader(batch(b"a", producer=(7, 3, 55)), 0).first_offset == 0


def test_silent_producers_are_forgotten() -> None:
    log = Bench().open()
    log.append_as_leader(batch(b"a", producer=(7, 0, 0)), 0)
    assert log.expire_producers(NOW_MS + 86_399_999) == 0
    assert log.expire_producers(NOW_MS + 86_400_000) == 1


def test_transactions_bound_the_stable_offset_and_aborts_are_indexed() -> None:
    log = Bench(config={"segment.bytes": "400"}).open()
    log.append_as_leader(batch(b"plain"), 0)
    log.append_as_leader(batch(b"t1", producer=(1, 0, 0), transactional=True), 0)
    log.append_as_leader(batch(b"t2", producer=(2, 0, 0), transactional=True), 0)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    log.append_as_leader(marker(1, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 2
    log.append_as_leader(marker(2, 0, commit=True), 0, origin=AppendOrigin.COORDINATOR)
    assert log.last_stable_offset == 2
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    fetched = log.read(0, 10_000, read_committed=True)
    assert fetched.aborted is not None
    assert [(t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset) for t in fetched.aborted] == [
        (1, 1, 3, 2)
    ]
    later = log.read(4, 10_000, read_committed=True).aborted
    assert later == []


def test_markers_of_fenced_producers_and_coordinators_are_refused() -> None:
    log = Bench().open()
    log.append_as_leader(batch(b"t", producer=(1, 5, 0), transactional=True), 0)
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(marker(1, 4, commit=True), 0, origin=AppendOrigin.COORDINATOR)
    assert code_of(refused) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_as_leader(marker(1, 5, commit=True, coordinator_epoch=3), 0, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(marker(1, 5, commit=True, coordinator_epoch=2), 0, origin=AppendOrigin.COORDINATOR)
    assert code_of(refused) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_plain_writes_inside_a_transaction_are_refused() -> None:
    log = Bench().open()
    log.append_as_leader(batch(b"t", producer=(1, 0, 0), transactional=True), 0)
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(b"p", producer=(1, 0, 1)), 0)
    assert code_of(refused) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("clean", [True, False])
def test_producers_survive_a_restart(clean: bool) -> None:
    bench = Bench(config={"segment.bytes": "400"})
    log = bench.open()
    for n in range(10):
        log.append_as_leader(batch(b"x", producer=(7, 2, n)), 0)
    log.append_as_leader(batch(b"t", producer=(8, 0, 0), transactional=True), 0)
    before = dict(log.producers.entries)
    log.close(clean=clean)
    again = bench.open(clean=clean, recovery_point=log.recovery_point)
    assert again.producers.ongoing_txns == {10: 8}
    for pid, entry in again.producers.entries.items():
        old = before[pid]
        assert (entry.producer_epoch, entry.last_sequence, entry.current_txn_first_offset) == (
            old.producer_epoch,
            old.last_sequence,
            old.current_txn_first_offset,
        )
    with pytest.raises(ApiError):
        again.append_as_leader(batch(b"x", producer=(7, 2, 11)), 0)
    assert again.append_as_leader(batch(b"x", producer=(7, 2, 10)), 0).first_offset == 11


# -- failing disks


def append_and_flush(log: Log) -> None:
    log.append_as_leader(batch(b"x"), 0)
    log.flush()


@pytest.mark.parametrize("operation", ["pwrite", "fsync"])
def test_a_disk_error_is_a_storage_error_and_the_log_is_gone(operation: str) -> None:
    bench = Bench()
    log = filled(bench, batches=2)
    bench.fs.fault = lambda seen, path: OSError(errno.EIO, "broken") if seen == operation else None
    with pytest.raises(ApiError) as refused:
        append_and_flush(log)
    assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(bench.failures) == 1
    bench.fs.fault = lambda seen, path: None
    with pytest.raises(ApiError) as refused:
        log.read(0, 100)
    assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_disk_loses_nothing_that_was_acknowledged() -> None:
    bench = Bench()
    log = filled(bench, batches=4)
    bench.fs.capacity = sum(len(bench.fs.read_bytes(p)) for p in bench.fs._files) + 30
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(b"x" * 100), 0)
    assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
    bench.fs.capacity = None
    again = bench.open()
    assert again.recovered_bytes_cut == 30
    assert (again.log_end_offset, len(read_all(again))) == (20, 20)


# -- flushing


def test_flush_moves_the_recovery_point_and_flush_messages_forces_it() -> None:
    bench = Bench(config={"flush.messages": "3"})
    log = bench.open()
    log.append_as_leader(batch(b"a", b"b"), 0)
    assert (log.recovery_point, log.unflushed_records) == (0, 2)
    log.append_as_leader(batch(b"c"), 0)
    assert (log.recovery_point, log.unflushed_records) == (3, 0)


def test_sealed_segments_are_flushed_without_the_active_one() -> None:
    log = filled(Bench(config={"segment.bytes": "300"}))
    log.flush_sealed()
    assert log.recovery_point == log.segments.active.base_offset
