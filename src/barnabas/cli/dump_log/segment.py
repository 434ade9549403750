"""Batches and records of a segment or a metadata snapshot."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from barnabas.cli.dump_log.lines import Decoded, Line, Options
from barnabas.cli.dump_log.message_json import to_json
from barnabas.model.java_number import java_double
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import Message
from barnabas.wire.record_batch import (
    BatchHeader,
    ControlType,
    Record,
    TimestampType,
    check_crc,
    decode_batch,
    decode_control,
    iter_headers,
)

BOOTSTRAP: Final = "bootstrap.checkpoint"
_TIMES: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
_CONTROL: Final = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def dump_segment(path: Path, options: Options, findings: list[str]) -> Iterator[Line]:
    """Give a line for each batch, and for each record when asked."""
    yield _heading(path)
    last_offset = -1
    gaps: list[tuple[int, int]] = []
    with mapped(path, options.max_bytes) as data:
        end = 0
        for position, header in iter_headers(data, partial_tail=True):
            valid = check_crc(data, position, header)
            yield _batch_line(position, header, valid)
            if options.deep:
                for record in decode_batch(data, position):
                    if record.offset != last_offset + 1:
                        gaps.append((last_offset, record.offset))
                    last_offset = record.offset
                    yield _record_line(header, record, options)
            end = position + header.size
        left = len(data) - end
    if left and options.max_bytes is None:
        yield Line(f"Found {left} invalid bytes at the end of {path.name}", {"invalid_bytes": left})
    if gaps:
        findings.append(f"Non-consecutive offsets in {path.absolute()}")
        findings.extend(f"  {before} is followed by {after}" for before, after in gaps)


@contextmanager
def mapped(path: Path, max_bytes: int | None = None) -> Iterator[memoryview]:
    """Give a file's bytes without reading them all."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield memoryview(b"")
            return
        # Not closed here: a caller that fails still holds views of it, and it goes with the last of them.
        yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[:max_bytes]


def _heading(path: Path) -> Line:
    if path.suffix == ".log":
        start = int(path.name.split(".")[0])
        return Line(f"Log starting offset: {start}", {"log_start_offset": start})
    if path.name == BOOTSTRAP:
        return Line("KRaft bootstrap snapshot", {"snapshot": "bootstrap"})
    offset, _, epoch = path.name.split(".")[0].partition("-")
    if not offset.isdigit() or not epoch.isdigit():
        raise ProtocolError("the name of a snapshot is its end offset and epoch")
    return Line(
        f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}", {"end_offset": int(offset), "epoch": int(epoch)}
    )


def _batch_line(position: int, h: BatchHeader, valid: bool) -> Line:
    horizon = "OptionalLong.empty" if h.delete_horizon_ms is None else f"OptionalLong[{h.delete_horizon_ms}]"
    time = _TIMES[h.timestamp_type]
    codec = h.compression.name.lower()
    text = (
        f"baseOffset: {h.base_offset} lastOffset: {h.last_offset} count: {h.record_count} "
        f"baseSequence: {h.base_sequence} lastSequence: {h.last_sequence} producerId: {h.producer_id} "
        f"producerEpoch: {h.producer_epoch} partitionLeaderEpoch: {h.leader_epoch} "
        f"isTransactional: {_bool(h.is_transactional)} isControl: {_bool(h.is_control)} deleteHorizonMs: {horizon} "
        f"position: {position} {time}: {h.max_timestamp} size: {h.size} magic: {h.magic} compresscodec: {codec} "
        f"crc: {h.crc} isvalid: {_bool(valid)}"
    )
    data: dict[str, Any] = {
        "base_offset": h.base_offset,
        "last_offset": h.last_offset,
        "count": h.record_count,
        "base_sequence": h.base_sequence,
        "last_sequence": h.last_sequence,
        "producer_id": h.producer_id,
        "producer_epoch": h.producer_epoch,
        "partition_leader_epoch": h.leader_epoch,
        "is_transactional": h.is_transactional,
        "is_control": h.is_control,
        "delete_horizon_ms": h.delete_horizon_ms,
        "position": position,
        "timestamp_type": time,
        "max_timestamp": h.max_timestamp,
        "size": h.size,
        "compression": codec,
        "crc": h.crc,
        "is_valid": valid,
    }
    return Line(text, {"batch": data})


def _record_line(header: BatchHeader, record: Record, options: Options) -> Line:
    text = ""
    data: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if not options.skip_record_metadata:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        headers = ",".join(name for name, _ in record.headers)
        text = (
            f"| offset: {record.offset} {_TIMES[header.timestamp_type]}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence} "
            f"headerKeys: [{headers}]"
        )
        data |= {"key_size": _size(record.key), "value_size": _size(record.value), "sequence": sequence}
        data["header_keys"] = [name for name, _ in record.headers]
        if header.is_control:
            control = decode_control(record)
            text += _control_text(control, record)
            data["control"] = None if control is None else {control[0].name: _control_json(*control)}
    if options.print_data and not header.is_control:
        decoded = options.decoder(record)
        text += _contents(decoded, "| " if options.skip_record_metadata else " ")
        data |= {"key": decoded.key, "value": decoded.value}
    return Line(text, {"record": data})


def _contents(decoded: Decoded, prefix: str) -> str:
    text = ""
    for label, value in (("key", decoded.key), ("payload", decoded.value)):
        if value is not None:
            shown = value if isinstance(value, str) else _java_json(value)
            text += f"{prefix}{label}: {shown}"
            prefix = " "
    return text


def _java_json(value: Any) -> str:
    """Give a value as Java's tools print JSON: a double by Double.toString, 2.0E7 for twenty million."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_java_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_java_json, value)) + "]"
    return java_double(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _control_text(control: tuple[ControlType, Message] | None, record: Record) -> str:
    if control is None:
        number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
        return f" controlType: UNKNOWN({number})"
    kind, message = control
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {_control_json(kind, message)['coordinatorEpoch']}"
    return f" {_CONTROL[kind]} {json.dumps(_control_json(kind, message), separators=(',', ':'))}"


def _control_json(kind: ControlType, message: Message) -> dict[str, Any]:
    return to_json(message, int(getattr(message, "version", message.MAX_VERSION)))


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)
