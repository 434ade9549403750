"""Compaction against a naive twin, and Kafka's rules for tombstones, transactions and producers one by one."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.storage.cleaner import Cleaner, CleanerSettings, CleaningAbortedError, CleaningResult
from barnabas.storage.cleaner_schedule import assess, assessed, filthiest
from barnabas.storage.log import Log
from barnabas.storage.log_validator import AppendOrigin
from barnabas.wire.errors import ApiError
from barnabas.wire.record_batch import Compression, check_crc

from .logs import NOW_MS, Bench, batch, marker, read_all

Pair = tuple[bytes, bytes | None]
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "400", "index.interval.bytes": "100"}
HOUR = 3_600_000


def clean(bench: Bench, log: Log, *, max_keys: int = 1000) -> CleaningResult:
    log.update_high_watermark(log.log_end_offset)
    chosen = assess(log, bench.clock.ms)
    cleaner = Cleaner(
        log, chosen.first_dirty, chosen.first_uncleanable, bench.clock.ms, CleanerSettings(max_keys=max_keys)
    )
    result = cleaner.clean()
    log.cleaner_offset = result.end_offset
    return result


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in read_all(log)]


def whole(log: Log) -> None:
    """Check every batch of every segment, and that offsets grow."""
    last = -1
    for segment in log.segments:
        for _, header, data in segment.batches():
            assert check_crc(data, 0, header)
            assert header.base_offset > last
            last = header.last_offset
        assert segment.size == segment.file.size()


KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 40])
BATCHES = st.lists(
    st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=30)), min_size=1, max_size=4), min_size=1, max_size=30
)


@settings(max_examples=40, deadline=None)
@given(BATCHES, st.sampled_from(list(Compression)), st.integers(1, 3))
def test_the_newest_value_of_each_key_stays(batches: list[list[Pair]], codec: Compression, rounds: int) -> None:
    bench = Bench(config={**COMPACT, "delete.retention.ms": str(HOUR)})
    log = bench.open()
    expected: list[tuple[int, bytes, bytes | None]] = []
    for round_ in range(rounds):
        for one in batches[round_::rounds]:
            base = log.log_end_offset
            log.append_as_leader(batch(*one, compression=codec), 0)
            expected += [(base + n, key, value) for n, (key, value) in enumerate(one)]
        active = log.segments.active.base_offset
        end = clean(bench, log).end_offset
        assert end <= active
        last = {key: offset for offset, key, _ in expected if offset < end}
        expected = [row for row in expected if row[0] >= end or last[row[1]] == row[0]]
        assert pairs(log) == expected
        whole(log)
    again = bench.open()
    assert pairs(again) == expected
    assert again.log_end_offset == log.log_end_offset


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.integers(1, 3))
def test_a_map_too_small_takes_more_rounds(batches: list[list[Pair]], max_keys: int) -> None:
    bench = Bench(config=COMPACT)
    log = bench.open()
    newest: dict[bytes, bytes | None] = {}
    for one in batches:
        log.append_as_leader(batch(*one), 0)
        newest.update(one)
    ends = [clean(bench, log, max_keys=max_keys).end_offset for _ in range(3)]
    assert ends == sorted(ends)
    assert {k: v for _, k, v in pairs(log)} == newest
    whole(log)


def test_segments_that_shrank_are_put_together() -> None:
    bench = Bench(config=COMPACT)
    log = bench.open()
    for n in range(60):
        log.append_as_leader(batch((b"k%d" % (n % 3), b"v%d" % n)), 0)
    before = len(log.segments)
    result = clean(bench, log)
    assert (result.records_after, result.bytes_after < result.bytes_before) == (3, True)
    log.cleaner_offset = 0
    clean(bench, log)
    assert len(log.segments) < before
    assert {k: v for _, k, v in pairs(log)} == {b"k0": b"v57", b"k1": b"v58", b"k2": b"v59"}
    names = bench.files()
    assert not [f for f in names if f.endswith((".cleaned", ".swap"))]
    assert [f for f in names if f.endswith(".log.deleted")]


def test_tombstones_stay_for_delete_retention() -> None:
    bench = Bench(config={**COMPACT, "delete.retention.ms": str(HOUR)})
    log = bench.open()
    log.append_as_leader(batch((b"gone", b"v")), 0)
    log.append_as_leader(batch((b"gone", None), (b"kept", b"v")), 0)
    log.roll()
    log.append_as_leader(batch((b"z", b"v")), 0)
    clean(bench, log)
    assert (1, b"gone", None) in pairs(log)
    header = next(log.segments[0].headers())[1]
    assert header.delete_horizon_ms == NOW_MS + HOUR
    assert [r.timestamp for r in read_all(log)][:2] == [NOW_MS, NOW_MS + 1]
    bench.clock.ms += HOUR - 1
    log.cleaner_offset = 0
    clean(bench, log)
    assert (1, b"gone", None) in pairs(log)
    bench.clock.ms += 1
    log.cleaner_offset = 0
    clean(bench, log)
    assert [k for _, k, _ in pairs(log)] == [b"kept", b"z"]


def test_aborted_records_go_and_their_marker_follows_later() -> None:
    bench = Bench(config={**COMPACT, "delete.retention.ms": str(HOUR)})
    log = bench.open()
    log.append_as_leader(batch((b"k", b"good")), 0)
    log.append_as_leader(batch((b"k", b"bad"), producer=(1, 0, 0), transactional=True), 0)
    log.append_as_leader(marker(1, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(batch((b"x", b"1"), producer=(1, 0, 1), transactional=True), 0)
    log.append_as_leader(marker(1, 0, commit=True), 0, origin=AppendOrigin.COORDINATOR)
    log.roll()
    log.append_as_leader(batch((b"z", b"v")), 0)
    clean(bench, log)
    assert [(k, v) for _, k, v in pairs(log)] == [(b"k", b"good"), (b"x", b"1"), (b"z", b"v")]
    controls = [h for _, h in log.segments[0].headers() if h.is_control]
    assert [h.base_offset for h in controls] == [2, 4]
    # The abort's data was seen in this round: its row stays until the marker goes.
    assert [t.first_offset for t in log.aborted_transactions(0, 6)] == [1]
    log.cleaner_offset = 0
    clean(bench, log)
    first = next(h for _, h in log.segments[0].headers() if h.is_control)
    assert first.delete_horizon_ms == NOW_MS + HOUR
    assert log.aborted_transactions(0, 6) == []
    bench.clock.ms += HOUR
    log.cleaner_offset = 0
    clean(bench, log)
    controls = [h for _, h in log.segments[0].headers() if h.is_control]
    assert [h.base_offset for h in controls] == [4]
    assert [(k, v) for _, k, v in pairs(log)] == [(b"k", b"good"), (b"x", b"1"), (b"z", b"v")]
    whole(log)


def test_open_transactions_are_not_touched() -> None:
    bench = Bench(config=COMPACT)
    log = bench.open()
    log.append_as_leader(batch((b"k", b"1")), 0)
    log.roll()
    log.append_as_leader(batch((b"k", b"2"), producer=(1, 0, 0), transactional=True), 0)
    log.roll()
    log.append_as_leader(batch((b"k", b"3")), 0)
    log.update_high_watermark(3)
    chosen = assess(log, bench.clock.ms)
    assert (chosen.first_dirty, chosen.first_uncleanable) == (0, 1)


def test_the_last_batch_of_an_active_producer_stays_though_empty() -> None:
    bench = Bench(config=COMPACT)
    log = bench.open()
    log.append_as_leader(batch((b"k", b"1"), producer=(9, 1, 0)), 0)
    log.append_as_leader(batch((b"k", b"2"), producer=(9, 1, 1)), 0)
    log.append_as_leader(batch((b"k", b"3")), 0)
    log.append_as_leader(batch((b"q", b"3")), 0)
    log.roll()
    log.append_as_leader(batch((b"z", b"v")), 0)
    clean(bench, log)
    headers = [h for _, h in log.segments[0].headers()]
    assert [(h.base_offset, h.record_count, h.producer_id) for h in headers] == [(1, 0, 9), (2, 1, -1), (3, 1, -1)]
    again = bench.open()
    assert again.producers.entries[9].last_sequence == 1
    assert again.append_as_leader(batch((b"k", b"4"), producer=(9, 1, 2)), 0).first_offset == 5


def test_the_last_batch_of_a_round_stays_though_empty() -> None:
    bench = Bench(config=COMPACT)
    log = bench.open()
    log.append_as_leader(batch((b"k", b"1")), 0)
    log.roll()
    log.append_as_leader(batch((b"k", None)), 0)
    log.roll()
    log.append_as_leader(batch((b"z", b"v")), 0)
    bench.config = {**COMPACT, "delete.retention.ms": "0"}
    log.update_config(Bench(config=bench.config).open().config)
    clean(bench, log)
    log.cleaner_offset = 0
    bench.clock.ms += 1
    clean(bench, log)
    assert [(h.base_offset, h.record_count) for _, h in log.segments[0].headers()] == [(1, 0)]
    assert log.read(0, 1000).records.read()[:8] == (1).to_bytes(8, "big")


def test_records_without_keys_go() -> None:
    bench = Bench(config={"segment.bytes": "400"})
    log = bench.open()
    log.append_as_leader(batch(b"no key"), 0)
    log.append_as_leader(batch((b"k", b"v")), 0)
    log.roll()
    log.append_as_leader(batch((b"z", b"v")), 0)
    log.update_config(Bench(config=COMPACT).open().config)
    clean(bench, log)
    assert [k for _, k, _ in pairs(log)] == [b"k", b"z"]


# -- when


def dirty_log(bench: Bench) -> Log:
    log = bench.open()
    for n in range(30):
        log.append_as_leader(batch((b"k%d" % (n % 3), b"v%d" % n), timestamp=NOW_MS + 1000 * n), 0)
    log.update_high_watermark(30)
    return log


def test_the_dirty_ratio_decides() -> None:
    bench = Bench(config=COMPACT)
    log = dirty_log(bench)
    assert assess(log, NOW_MS).ratio == 1.0
    log.cleaner_offset = log.segments[-2].base_offset
    assert assess(log, NOW_MS).ratio < 0.5
    assert filthiest(assessed([log], NOW_MS)) is None
    log.cleaner_offset = log.segments[1].base_offset
    assert filthiest(assessed([log], NOW_MS)) is not None


def test_max_compaction_lag_forces_it_and_min_holds_it_back() -> None:
    bench = Bench(config={**COMPACT, "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "60000"})
    log = dirty_log(bench)
    assert filthiest(assessed([log], NOW_MS + 60_000)) is None
    assert filthiest(assessed([log], NOW_MS + 60_001)) is not None
    log.update_config(Bench(config={**COMPACT, "min.compaction.lag.ms": "20000"}).open().config)
    chosen = assess(log, NOW_MS + 29_000)
    second = next(s for s in log.segments if s.largest_timestamp > NOW_MS + 9000)
    assert chosen.first_uncleanable == second.base_offset


def test_a_checkpoint_outside_the_log_begins_at_its_start() -> None:
    log = dirty_log(Bench(config=COMPACT))
    log.cleaner_offset = 1000
    assert assess(log, NOW_MS).first_dirty == 0


# -- interrupted


def test_segments_dropped_meanwhile_give_the_cleaning_up() -> None:
    bench = Bench(config=COMPACT)
    log = dirty_log(bench)
    chosen = assess(log, NOW_MS)
    calls = 0

    def check(handled: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 26:
            log.delete_records_before(log.segments[2].base_offset)
            log.apply_retention(NOW_MS)

    cleaner = Cleaner(log, chosen.first_dirty, chosen.first_uncleanable, NOW_MS, CleanerSettings(check=check))
    with pytest.raises(CleaningAbortedError):
        cleaner.clean()
    assert calls > 26
    assert [v for _, _, v in pairs(log)] == [b"v%d" % n for n in range(log.log_start_offset, 30)]
    assert not [f for f in bench.files() if f.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("step", range(0, 40, 3))
def test_a_crash_at_any_step_leaves_a_whole_log(step: int) -> None:
    bench = Bench(config=COMPACT)
    log = dirty_log(bench)
    full = pairs(log)
    log.flush()
    renames = 0

    def fault(operation: str, _path: object) -> OSError | None:
        nonlocal renames
        if operation in ("rename", "fsync", "remove"):
            renames += 1
            if renames > step:
                return OSError(errno.EIO, "crash")
        return None

    bench.fs.fault = fault
    with suppress(OSError, ApiError):
        clean(bench, log)
    bench.fs.fault = lambda operation, path: None
    again = bench.open(recovery_point=30)
    rows = pairs(again)
    assert {k: v for _, k, v in rows} == {k: v for _, k, v in full}
    assert again.log_end_offset == 30
    whole(again)
