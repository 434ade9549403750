"""Opening a log after every kind of end: clean, torn, interrupted, damaged."""

from __future__ import annotations

import errno
from random import Random

import pytest
from structlog.testing import capture_logs

from barnabas.model.uuid import Uuid
from barnabas.storage import partition_metadata
from barnabas.storage.batch_scan import UnsupportedFormatError
from barnabas.storage.log import Log
from barnabas.storage.log_loader import open_log
from barnabas.storage.partition_metadata import InconsistentTopicIdError
from barnabas.storage.segment import SWAP_SUFFIX, Segment
from barnabas.wire.errors import ApiError

from .logs import DIR, NOW_MS, TP, Bench, batch, log_config, read_all, values

ALL = [b"%d" % n for n in range(30)]


def written(bench: Bench) -> Log:
    log = bench.open()
    for n, value in enumerate(ALL):
        log.append_as_leader(batch(value, timestamp=NOW_MS + n), n // 10)
    log.update_high_watermark(30)
    return log


def bytes_of(log: Log, name: str) -> bytes:
    return log.env.fs.read_bytes(DIR / name)


def append_to(bench: Bench, name: str, data: bytes) -> None:
    file = bench.fs.open(DIR / name)
    file.pwrite(data, file.size())


def test_a_clean_stop_is_opened_without_reading_the_records() -> None:
    bench = Bench(config={"segment.bytes": "400"})
    written(bench).close()
    read: list[int] = []
    bench.fs.fault = lambda operation, path: read.append(1) if operation == "pread" else None
    again = bench.open(clean=True, recovery_point=30)
    assert len(read) <= 3
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 30, 30)
    assert again.leader_epochs.entries == [(0, 0), (1, 10), (2, 20)]
    assert values(read_all(again)) == ALL


def test_an_empty_log_with_a_leader_epoch_is_opened_without_waiting_for_the_disk() -> None:
    bench = Bench()
    log = bench.open()
    log.leader_epochs.assign(3, 0)
    log.close()
    waited: list[str] = []
    bench.fs.fault = lambda operation, path: waited.append(operation) if "fsync" in operation else None
    again = bench.open(clean=True, recovery_point=0)
    assert waited == []
    assert again.leader_epochs.entries == []


@pytest.mark.parametrize("tail", [b"\x00" * 100, b"garbage", bytes(batch(b"next"))[:-1], b"\xff" * 61])
def test_a_torn_tail_is_cut_and_counted(tail: bytes) -> None:
    bench = Bench()
    log = written(bench)
    append_to(bench, "00000000000000000000.log", tail)
    with capture_logs() as logged:
        again = bench.open()
    assert values(read_all(again)) == ALL
    assert again.recovered_bytes_cut == len(tail)
    cut = [entry for entry in logged if entry["event"] == "torn tail cut"]
    assert [(e["bytes"], e["log_end_offset"], e["partition"]) for e in cut] == [(len(tail), 30, "t-0")]
    assert again.append_as_leader(batch(b"on"), 2).first_offset == 30
    del log


@pytest.mark.parametrize("cut", [1, 60, 61, 75, 76, 200])
def test_a_truncated_file_keeps_its_whole_batches(cut: int) -> None:
    bench = Bench()
    size = written(bench).size
    bench.fs.open(DIR / "00000000000000000000.log").truncate(size - cut)
    again = bench.open()
    seen = values(read_all(again))
    assert seen == ALL[: len(seen)]
    assert size - cut - again.recovered_bytes_cut == again.size


def test_damage_in_the_middle_cuts_there_and_drops_what_follows() -> None:
    bench = Bench(config={"segment.bytes": "400"})
    log = written(bench)
    second = log.segments[1]
    bench.fs.open(second.path(".log")).pwrite(b"\x99", second.size - 5)
    with capture_logs() as logged:
        again = bench.open()
    end = again.log_end_offset
    assert second.base_offset < end < log.segments[2].base_offset
    assert values(read_all(again)) == ALL[:end]
    assert [e["event"] for e in logged if e["log_level"] == "warning"] == ["torn tail cut", "segments deleted"]
    assert again.leader_epochs.entries[-1][1] < end
    assert sorted(f for f in bench.files() if f.endswith(".log"))[-1] == f"{second.base_offset:020d}.log"


def test_recovery_checks_only_what_was_not_flushed() -> None:
    bench = Bench(config={"segment.bytes": "400"})
    log = written(bench)
    log.flush()
    first = log.segments[0]
    bench.fs.open(first.path(".log")).pwrite(b"\x99", 70)
    again = bench.open(recovery_point=log.recovery_point)
    assert (again.log_end_offset, again.recovered_bytes_cut) == (30, 0)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_made_anew(suffix: str) -> None:
    bench = Bench(config={"segment.bytes": "800", "index.interval.bytes": "100"})
    log = written(bench)
    log.close()
    names = [f for f in bench.files() if f.endswith(suffix)]
    before = {name: bench.fs.read_bytes(DIR / name) for name in names}
    assert any(before.values())
    for name in names:
        bench.fs.remove(DIR / name)
    again = bench.open(clean=suffix == ".index", recovery_point=0)
    assert values(read_all(again)) == ALL
    again.close()
    assert {name: bench.fs.read_bytes(DIR / name) for name in names} == before


def test_a_corrupt_transaction_index_is_made_anew() -> None:
    bench = Bench(config={"segment.bytes": "400"})
    log = written(bench)
    log.close()
    last = log.segments.active
    bench.fs.open(last.path(".txnindex"), create=True).pwrite(bytes(34), 0)
    again = bench.open(clean=True, recovery_point=30)
    assert again.segments.active.txn_index.entries == []


def test_an_orphaned_index_is_deleted() -> None:
    bench = Bench()
    written(bench).close()
    bench.fs.open(DIR / "00000000000000000099.index", create=True)
    bench.open(clean=True)
    assert "00000000000000000099.index" not in bench.files()


def test_leftover_deletions_and_half_cleaned_segments_go() -> None:
    bench = Bench()
    written(bench).close()
    for name in ("00000000000000000005.log.deleted", "00000000000000000000.log.cleaned", "x.checkpoint.deleted"):
        bench.fs.open(DIR / name, create=True).pwrite(b"junk", 0)
    again = bench.open(clean=True)
    assert values(read_all(again)) == ALL
    assert not [f for f in bench.files() if f.endswith((".deleted", ".cleaned"))]


@pytest.mark.parametrize("renamed_back", [False, True])
def test_an_interrupted_swap_is_finished(renamed_back: bool) -> None:
    bench = Bench(config={"segment.bytes": "400"})
    log = written(bench)
    old = list(log.segments)[:2]
    log.close()
    swap = Segment(bench.fs, DIR, 0, log.config, NOW_MS, SWAP_SUFFIX)
    data = b"".join(s.file.pread(s.size, 0) for s in old)
    swap.file.pwrite(data, 0)
    swap.size = len(data)
    swap.unload()
    if renamed_back:
        bench.fs.rename(swap.path(".index"), DIR / "00000000000000000000.index")
    again = bench.open(clean=True)
    assert again.segments.base_offsets == (0, *log.segments.base_offsets[2:])
    assert values(read_all(again)) == ALL
    assert not [f for f in bench.files() if f.endswith(".swap")]


def test_a_log_that_ends_before_its_start_begins_anew() -> None:
    bench = Bench()
    written(bench).close()
    again = bench.open(log_start_offset=100)
    assert (again.log_start_offset, again.log_end_offset, again.size) == (100, 100, 0)


def test_the_start_comes_from_the_checkpoint() -> None:
    bench = Bench()
    written(bench).close()
    again = bench.open(clean=True, log_start_offset=12)
    assert again.log_start_offset == 12
    assert again.leader_epochs.entries == [(1, 12), (2, 20)]


def test_a_directory_belongs_to_one_topic_id() -> None:
    bench = Bench()
    one, other = Uuid(bytes(15) + b"\xaa"), Uuid(bytes(15) + b"\xbb")
    opened = open_log(bench.env, DIR, TP, log_config({}), topic_id=one)
    assert opened.topic_id == one
    assert bench.fs.read_bytes(DIR / "partition.metadata") == f"version: 0\ntopic_id: {one}".encode()
    assert open_log(bench.env, DIR, TP, log_config({})).topic_id == one
    with pytest.raises(InconsistentTopicIdError, match=str(one)):
        open_log(bench.env, DIR, TP, log_config({}), topic_id=other)
    bench.fs.open(DIR / "partition.metadata").pwrite(b"V", 0)
    with pytest.raises(InconsistentTopicIdError, match="damaged"):
        partition_metadata.read(bench.fs, DIR)


@pytest.mark.sim
def test_power_loss_keeps_what_was_flushed(sim_seed: int) -> None:
    """Random appends, flushes, rolls and truncations; then the power goes, with some unflushed writes lost."""
    rng = Random(sim_seed)
    bench = Bench(config={"segment.bytes": str(rng.choice([300, 1000, 100_000])), "index.interval.bytes": "80"})
    log, flushed = bench.open(), 0
    written_values: dict[int, bytes | None] = {}
    for epoch in range(3):
        for _ in range(rng.randint(1, 60)):
            end = log.log_end_offset
            match rng.choice("aaaaaaafte"):
                case "f":
                    log.flush()
                    flushed = end
                case "t":
                    target = rng.randint(max(0, end - 4), end)
                    log.truncate_to(target)
                    written_values = {o: v for o, v in written_values.items() if o < target}
                    flushed = min(flushed, target)
                case "e":
                    log.roll()
                case _:
                    value = b"%d.%d" % (epoch, rng.randint(0, 10**9)) * rng.randint(1, 9)
                    written_values[log.append_as_leader(batch(value), epoch).first_offset] = value
        log.update_high_watermark(log.log_end_offset)
        bench.fs.crash(rng, keep_names=rng.random() < 0.5)
        with capture_logs() as logged:
            log = bench.open(recovery_point=flushed)
        seen = {r.offset: r.value for r in read_all(log)}
        assert seen.items() <= written_values.items()
        assert {o: v for o, v in written_values.items() if o < flushed}.items() <= seen.items()
        cut = sum(e["bytes"] for e in logged if e["event"] in ("torn tail cut", "segments deleted"))
        assert cut == log.recovered_bytes_cut
        written_values, flushed = dict(seen), min(flushed, log.log_end_offset)


def test_power_loss_with_a_seed_that_once_brought_cut_data_back() -> None:
    test_power_loss_keeps_what_was_flushed(782)


def test_a_hole_between_unflushed_segments_is_reported() -> None:
    bench = Bench(config={"segment.bytes": "400"})
    log = written(bench)
    first = log.segments[0]
    bench.fs.open(first.path(".log")).truncate(first.find(3).position)  # type: ignore[union-attr]
    with capture_logs() as logged:
        again = bench.open()
    holes = [(e["first"], e["last"]) for e in logged if e["event"] == "offsets missing"]
    assert holes == [(3, log.segments[1].base_offset - 1)]
    assert again.log_end_offset == 30


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_and_not_cut(magic: int) -> None:
    bench = Bench()
    written(bench)
    old = bytearray(batch(b"old"))
    old[16] = magic
    append_to(bench, "00000000000000000000.log", bytes(old))
    size = bench.fs.size(DIR / "00000000000000000000.log")
    with pytest.raises(UnsupportedFormatError, match=f"format {magic}"):
        bench.open()
    assert bench.fs.size(DIR / "00000000000000000000.log") == size


def test_errors_while_opening_are_the_callers() -> None:
    bench = Bench()
    written(bench).close()
    bench.fs.fault = lambda operation, path: OSError(errno.EIO, "bad") if operation == "pread" else None
    with pytest.raises(OSError, match="bad"):
        bench.open()


def test_a_closed_log_refuses() -> None:
    log = written(Bench())
    log.close()
    with pytest.raises(ApiError, match="closed"):
        log.append_as_leader(batch(b"x"), 0)
