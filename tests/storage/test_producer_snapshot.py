"""Producer snapshots: Kafka's bytes, damage skipped, strays removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.storage.producer_snapshot import CorruptSnapshotError, ProducerSnapshots, decode, encode
from barnabas.storage.producer_state import BatchMetadata, ProducerEntry, ProducerState
from barnabas.wire.message import encode as encode_message
from barnabas.wire.records.producer_snapshot import ProducerEntry as WireEntry
from barnabas.wire.records.producer_snapshot import ProducerSnapshot

DIR = Path("/log")


def entry(pid: int, *, txn: int | None = None) -> ProducerEntry:
    made = ProducerEntry(pid, 3, 4, 1000, txn)
    made.add_batch(3, BatchMetadata(17, 90, 5, 1000))
    return made


def state(offset: int, *entries: ProducerEntry) -> ProducerState:
    made = ProducerState("t-0")
    for one in entries:
        made.load(one)
    made.map_end_offset = offset
    return made


def snapshots(fs: MemoryFileSystem) -> ProducerSnapshots:
    fs.make_dirs(DIR)
    return ProducerSnapshots(fs, DIR, fs.listdir(DIR))


def test_the_bytes_are_those_of_kafkas_declaration() -> None:
    data = encode([entry(7, txn=88), ProducerEntry(8)])
    rows = [
        WireEntry(
            producer_id=7,
            epoch=3,
            last_sequence=17,
            last_offset=90,
            offset_delta=5,
            timestamp=1000,
            coordinator_epoch=4,
            current_txn_first_offset=88,
        ),
        WireEntry(
            producer_id=8,
            epoch=-1,
            last_sequence=-1,
            last_offset=-1,
            offset_delta=0,
            timestamp=-1,
            coordinator_epoch=-1,
            current_txn_first_offset=-1,
        ),
    ]
    crc = int.from_bytes(data[2:6], "big")
    assert data == b"\x00\x01" + encode_message(ProducerSnapshot(crc=crc, producer_entries=rows), 1)
    assert decode(data) == [entry(7, txn=88), ProducerEntry(8)]


@pytest.mark.parametrize("at", [0, 1, 3, 9, 20, -1])
def test_damage_is_seen(at: int) -> None:
    data = bytearray(encode([entry(7)]))
    data[at] ^= 0x40
    with pytest.raises(CorruptSnapshotError):
        decode(bytes(data))
    with pytest.raises(CorruptSnapshotError):
        decode(bytes(data[:5]))


def test_the_newest_good_snapshot_is_loaded() -> None:
    fs = MemoryFileSystem()
    kept = snapshots(fs)
    assert kept.take(state(10, entry(1)), sync=True) == 10
    assert kept.take(state(20, entry(1), entry(2)), sync=False) == 20
    assert kept.take(state(20), sync=False) is None
    fs.open(DIR / "00000000000000000020.snapshot").pwrite(b"\xff", 12)
    loaded = ProducerState("t-0")
    again = snapshots(fs)
    again.load_newest(loaded, 0, 1000)
    assert (sorted(loaded.entries), loaded.map_end_offset, again.offsets) == ([1], 10, [10])


def test_expired_producers_are_left_out_and_open_transactions_are_not() -> None:
    fs = MemoryFileSystem()
    snapshots(fs).take(state(10, entry(1), entry(2, txn=5)), sync=False)
    loaded = ProducerState("t-0", expiration_ms=100)
    snapshots(fs).load_newest(loaded, 0, 1100)
    assert (list(loaded.entries), loaded.ongoing_txns) == ([2], {5: 2})


def test_strays_go_but_for_the_newest_past_all_segments() -> None:
    fs = MemoryFileSystem()
    kept = snapshots(fs)
    for offset in (5, 10, 15, 20, 25):
        kept.take(state(offset), sync=False)
    kept.remove_strays([0, 10, 20])
    assert kept.offsets == [10, 20, 25]
    kept.remove_outside(10, 20)
    assert kept.offsets == [20]
    assert fs.listdir(DIR) == ["00000000000000000020.snapshot"]
