"""Transactions in a partition's log: what is stable and what was aborted, over rolls, cuts, restarts, on followers."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.storage.log import Log
from barnabas.storage.log_validator import AppendOrigin
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.storage.producer_state import LATE_TRANSACTION_BUFFER_MS, end_txn_marker
from barnabas.storage.transaction_index import AbortedTxn, TransactionIndex
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import Record, encode_batch
from tests.core.work import lines_run
from tests.storage.logs import Bench, batch, marker

SMALL = {"segment.bytes": "200"}


def data(log: Log, pid: int, sequence: int = 0, epoch: int = 0) -> None:
    log.append_as_leader(batch(b"x", producer=(pid, epoch, sequence), transactional=True), 0)


def end(log: Log, pid: int, *, commit: bool, epoch: int = 0, version: int = 0) -> None:
    log.append_as_leader(
        marker(pid, epoch, commit=commit), 0, origin=AppendOrigin.COORDINATOR, transaction_version=version
    )


def commit_all(log: Log) -> None:
    log.update_high_watermark(log.log_end_offset)


def aborted(log: Log, start: int = 0) -> list[tuple[int, int, int]]:
    found = log.aborted_transactions(start, log.log_end_offset)
    return [(t.producer_id, t.first_offset, t.last_offset) for t in found]


def test_transactions_that_end_in_another_order_stay_unstable_until_their_markers_are_committed() -> None:
    log = Bench().open()
    data(log, 1)  # 0
    data(log, 2)  # 1
    end(log, 2, commit=True)  # 2
    end(log, 1, commit=True)  # 3
    for mark in (2, 3):
        log.update_high_watermark(mark)
        assert log.last_stable_offset == 0, "the marker at 3 is not committed"
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4


def test_the_stable_offset_is_never_before_the_logs_start_nor_past_what_is_committed() -> None:
    log = Bench().open()
    for n in range(3):
        data(log, 1, n)
    assert log.last_stable_offset == 0
    log.update_high_watermark(3)
    log.delete_records_before(2)
    assert log.last_stable_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_aborts_are_found_over_many_segments_and_after_a_restart(clean: bool) -> None:
    bench = Bench(config=SMALL)
    log = bench.open()
    data(log, 1)
    for n in range(6):
        data(log, 2, n)
    end(log, 1, commit=False)
    for n in range(6, 12):
        data(log, 2, n)
    end(log, 2, commit=False)
    assert len(list(log.segments)) > 4
    want = [(1, 0, 7), (2, 1, 14)]
    assert aborted(log) == want
    commit_all(log)
    log.close(clean=clean)
    again = bench.open(clean=clean)
    commit_all(again)
    assert aborted(again) == want
    assert again.last_stable_offset == again.log_end_offset
    fetched = again.read(3, 1, read_committed=True)
    assert [t.producer_id for t in fetched.aborted or ()] == [1, 2]


@pytest.mark.parametrize("config", [SMALL, {}], ids=["many segments", "one segment"])
def test_truncation_opens_a_transaction_again_whose_marker_is_cut(config: dict[str, str]) -> None:
    log = Bench(config=config).open()
    data(log, 1)
    end(log, 1, commit=False)
    for n in range(4):
        data(log, 2, n)
    end(log, 2, commit=False)
    log.update_high_watermark(2)
    log.truncate_to(6)
    assert aborted(log) == [(1, 0, 1)]
    assert log.producers.ongoing_txns == {2: 2}
    assert log.last_stable_offset == 2, "the first transaction is over, and committed"
    end(log, 2, commit=True)
    commit_all(log)
    assert aborted(log) == [(1, 0, 1)]
    assert log.last_stable_offset == log.log_end_offset


def test_truncation_takes_a_transaction_away_that_began_after_it() -> None:
    log = Bench(config=SMALL).open()
    log.append_as_leader(batch(b"plain"), 0)
    for n in range(4):
        data(log, 2, n)
    log.truncate_to(1)
    commit_all(log)
    assert not log.producers.ongoing_txns
    assert log.last_stable_offset == 1
    data(log, 2)


def test_an_open_transaction_stands_in_snapshots_and_is_found_by_them() -> None:
    bench = Bench(config=SMALL)
    log = bench.open()
    data(log, 1)
    for _ in range(8):
        log.append_as_leader(batch(b"plain"), 0)
    log.close(clean=True)
    again = bench.open(clean=True)
    commit_all(again)
    assert again.producers.ongoing_txns == {0: 1}
    assert again.last_stable_offset == 0
    end(again, 1, commit=False)
    commit_all(again)
    assert aborted(again) == [(1, 0, 9)]


def test_producers_in_a_transaction_are_not_forgotten() -> None:
    bench = Bench()
    log = bench.open()
    data(log, 1)
    bench.clock.ms += 10 * 86_400_000
    assert log.expire_producers(bench.clock.ms) == 0
    end(log, 1, commit=True)
    assert log.expire_producers(bench.clock.ms + 86_400_000) == 1


def test_a_follower_comes_to_the_same_transactions() -> None:
    leader, follower = Bench(config=SMALL).open(), Bench(config=SMALL).open()
    data(leader, 1)
    data(leader, 2)
    end(leader, 2, commit=False, epoch=1, version=2)
    data(leader, 2, epoch=1)
    end(leader, 1, commit=True)
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(memoryview(leader.read(follower.log_end_offset, 100).records.read()))
    for log in (leader, follower):
        log.update_high_watermark(4)
    assert follower.producers.entries == leader.producers.entries
    assert aborted(follower) == aborted(leader) == [(2, 1, 2)]
    assert follower.last_stable_offset == leader.last_stable_offset == 0
    for log in (leader, follower):
        log.update_high_watermark(5)
    assert follower.last_stable_offset == leader.last_stable_offset == 3


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [
        (0, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 5, None),
        (1, 5, None),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, None),
    ],
)
def test_a_marker_of_version_2_has_the_next_epoch(version: int, epoch: int, code: ErrorCode | None) -> None:
    log = Bench().open()
    data(log, 1, epoch=5)
    if code is None:
        end(log, 1, commit=True, epoch=epoch, version=version)
        assert log.producers.entries[1].producer_epoch == epoch
        assert not log.producers.ongoing_txns
    else:
        with pytest.raises(ApiError) as refused:
            end(log, 1, commit=True, epoch=epoch, version=version)
        assert refused.value.code is code
        assert log.log_end_offset == 1


def test_the_repetition_of_a_marker_of_version_2_is_written_and_a_late_one_is_not() -> None:
    log = Bench().open()
    data(log, 1, epoch=5)
    end(log, 1, commit=True, epoch=6, version=2)
    end(log, 1, commit=True, epoch=6, version=2)
    assert log.log_end_offset == 3
    data(log, 1, epoch=6)
    with pytest.raises(ApiError) as refused:
        end(log, 1, commit=True, epoch=6, version=2)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    commit_all(log)
    assert log.last_stable_offset == 3


def test_only_the_oldest_open_transaction_can_be_late() -> None:
    log = Bench().open()
    assert not log.producers.has_late_transaction(10**15, 1_000)
    data(log, 1)
    written_ms = log.producers.entries[1].last_timestamp
    late_ms = written_ms + 1_000 + LATE_TRANSACTION_BUFFER_MS
    assert not log.producers.has_late_transaction(late_ms, 1_000)
    assert log.producers.has_late_transaction(late_ms + 1, 1_000)
    end(log, 1, commit=True)
    assert not log.producers.has_late_transaction(late_ms + 1, 1_000)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("epoch", [0, 7, 2**31 - 1, -1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_marker_says_the_same_however_it_is_written(commit: bool, epoch: int, compression: Compression) -> None:
    value = b"\0\0" + epoch.to_bytes(4, "big", signed=True)
    record = Record(0, 1_700_000_000_123, bytes([0, 0, 0, commit]), value)
    written = encode_batch(
        [record], compression=compression, producer_id=7, producer_epoch=3, transactional=True, control=True
    )
    assert end_txn_marker(written) == (commit, epoch, 1_700_000_000_123)
    assert end_txn_marker(memoryview(written)) == (commit, epoch, 1_700_000_000_123)


def test_what_is_as_long_as_a_marker_and_another_control_record_is_none() -> None:
    for key in (b"\0\0\0\2", b"\0\0\1\1"):
        other = encode_batch([Record(0, 1, key, bytes(6))], producer_id=7, producer_epoch=3, control=True)
        assert len(other) == len(marker(7, 3, commit=True))
        assert end_txn_marker(other) is None


def test_a_fetch_looks_at_the_aborted_transactions_that_it_touches_and_no_others() -> None:
    work = []
    for count in (100, 10_000):
        index = TransactionIndex(MemoryFileSystem(lambda: 0), Path("/00000000000000000000.txnindex"))
        for n in range(count):
            index.append(AbortedTxn(n % 7, n * 10, n * 10 + 9, n * 10 + 10))
        begin = count * 5 + 3  # within a transaction
        found, done = index.collect(begin, begin + 20)
        assert [txn.first_offset for txn in found] == [begin - 3, begin + 7, begin + 17]
        assert done
        assert index.collect(count * 10, count * 10 + 5) == ([], False)
        assert index.collect(count * 10 - 1, count * 10 + 5) == ([index.entries[-1]], False)
        work.append(lines_run(lambda i=index, at=begin: i.collect(at, at + 20)))  # type: ignore[misc]
    assert work[0] == work[1]
