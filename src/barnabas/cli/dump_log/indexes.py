"""Entries of `.index`, `.timeindex`, `.txnindex` and `.snapshot` files, checked against their segment."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

from barnabas.cli.dump_log.lines import Line, Options
from barnabas.cli.dump_log.segment import mapped
from barnabas.storage.producer_snapshot import CorruptSnapshotError
from barnabas.storage.producer_snapshot import decode as decode_snapshot
from barnabas.wire.record_batch import iter_headers, read_header

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_TXN_ENTRY: Final = struct.Struct(">hqqqq")


def dump_index(path: Path, options: Options, findings: list[str]) -> Iterator[Line]:
    """Give the entries of an offset index; a mismatch is an entry that is not the last offset of its batch."""
    if not path.stat().st_size:
        yield Line(f"{path} is empty.", {"entries": 0})
        return
    if options.sanity_only:
        yield _sane(path, _OFFSET_ENTRY.size)
        return
    mismatches = []
    entries = _offset_entries(path)  # before the log, where a node that runs has by then what they point to
    with mapped(path.with_suffix(".log")) as log:
        for offset, position in entries:
            found = read_header(log, position).last_offset
            if found != offset:
                mismatches.append(f"  Index offset: {offset}, log offset: {found}")
            if not options.verify_only:
                yield Line(f"offset: {offset} position: {position}", {"offset": offset, "position": position})
    if mismatches:
        findings += [f"Mismatches in :{path.absolute()}", *reversed(mismatches)]


def dump_time_index(path: Path, options: Options, findings: list[str]) -> Iterator[Line]:
    """Give the entries of a time index; each must name a batch's last offset and its greatest timestamp."""
    if options.sanity_only:
        yield _sane(path, _TIME_ENTRY.size)
        return
    times, offsets = _time_entries(path), list(_offset_entries(path.with_suffix(".index")))  # before the log, as above
    wrong_time, disorder, missing = [], [], []
    previous = -1
    with mapped(path.with_suffix(".log")) as log:
        for timestamp, offset in times:
            position = max((p for o, p in offsets if o <= offset), default=0)
            batch = next(
                (h for _, h in iter_headers(log, position, partial_tail=True) if h.last_offset >= offset), None
            )
            if batch is None or batch.last_offset != offset:
                found = -1 if batch is None else batch.last_offset
                missing.append(f"Indexed offset: {offset}, found log offset: {found}")
            else:
                if batch.max_timestamp != timestamp:
                    wrong_time.append(f"  Index timestamp: {timestamp}, log timestamp: {batch.max_timestamp}")
                if previous >= timestamp:
                    disorder.append(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")
            if not options.verify_only:
                yield Line(f"timestamp: {timestamp} offset: {offset}", {"timestamp": timestamp, "offset": offset})
            previous = timestamp
    for heading, rows in (
        ("Found timestamp mismatch in :", wrong_time),
        ("Found out of order timestamp in :", disorder),
        ("The following indexed offsets are not found in :", missing),
    ):
        if rows:
            findings += [f"{heading}{path.absolute()}", *rows]


def dump_transaction_index(path: Path, options: Options, findings: list[str]) -> Iterator[Line]:
    """Give the aborted transactions of a segment."""
    data = path.read_bytes()
    for version, *numbers in _TXN_ENTRY.iter_unpack(data[: len(data) // _TXN_ENTRY.size * _TXN_ENTRY.size]):
        names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
        facts = {"version": version, **dict(zip(names, numbers, strict=True))}
        yield Line(" ".join(f"{name}: {value}" for name, value in facts.items()), facts)


def dump_snapshot(path: Path, options: Options, findings: list[str]) -> Iterator[Line]:
    """Give the producers of a snapshot of their state."""
    try:
        entries = decode_snapshot(path.read_bytes())
    except CorruptSnapshotError as e:
        findings.append(f"{path}: {e}")
        return
    for entry in entries:
        first = entry.current_txn_first_offset
        text = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if first is None else f'OptionalLong[{first}]'} "
            f"lastTimestamp: {entry.last_timestamp}"
        )
        data = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": first,
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            batch = entry.batches[0]
            facts = {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
            text += "".join(f" {name}: {value}" for name, value in facts.items())
            data |= facts
        yield Line(text, data)


def _offset_entries(path: Path) -> Iterator[tuple[int, int]]:
    base = int(path.name.split(".")[0])
    return ((base + relative, position) for relative, position in _entries(path, _OFFSET_ENTRY, 0))


def _time_entries(path: Path) -> Iterator[tuple[int, int]]:
    base = int(path.name.split(".")[0])
    return ((timestamp, base + relative) for timestamp, relative in _entries(path, _TIME_ENTRY, 1))


def _entries(path: Path, entry: struct.Struct, relative: int) -> Iterator[tuple[int, int]]:
    """Read the file now, give its entries later. relative: where in an entry its offset is."""
    data = path.read_bytes()
    rows = enumerate(entry.iter_unpack(data[: len(data) // entry.size * entry.size]))
    # The file is longer than its entries while a node writes it.
    return (row for _, row in takewhile(lambda found: found[0] == 0 or found[1][relative] != 0, rows))


def _sane(path: Path, size: int) -> Line:
    bad = path.stat().st_size % size
    verdict = f"{path} passed sanity check." if not bad else f"{path} failed sanity check: {bad} bytes too many."
    return Line(verdict, {"sane": not bad})
