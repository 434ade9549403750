"""A metadata snapshot as record batches: a control batch that opens it, the state, a control batch that closes it.

The same form serves `.checkpoint` files of the metadata log and `bootstrap.checkpoint`. Offsets inside count from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.core.raft.control import encode_control
from barnabas.core.raft.voters import VoterSet
from barnabas.wire.message import Message
from barnabas.wire.record_batch import Record, encode_batch
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord
from barnabas.wire.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.records.snapshot_header_record import SnapshotHeaderRecord

BATCH_BYTES: Final = 1024 * 1024
"""A batch of state is closed once its values reach this; a single larger value gets a batch of its own."""


def snapshot_batches(
    values: Iterable[bytes],
    *,
    epoch: int,
    last_timestamp_ms: int,
    now_ms: int,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
) -> Iterator[bytes]:
    """Give the batches in order. values: encoded metadata records; epoch, last_timestamp_ms: of the last record that
    the snapshot contains; kraft_version, voters: written from kraft.version 1 on only."""
    opening: list[Message] = [SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)]
    if kraft_version > 0:
        opening.append(KRaftVersionRecord(version=0, kraft_version=kraft_version))
        if voters is not None:
            opening.append(voters.to_record())
    yield encode_control(opening, base_offset=0, epoch=epoch, now_ms=now_ms)
    offset = len(opening)
    for chunk in _chunks(values):
        records = [Record(offset + i, now_ms, None, value, ()) for i, value in enumerate(chunk)]
        yield encode_batch(records, base_offset=offset, leader_epoch=epoch)
        offset += len(chunk)
    yield encode_control([SnapshotFooterRecord(version=0)], base_offset=offset, epoch=epoch, now_ms=now_ms)


def _chunks(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for value in values:
        if chunk and size + len(value) > BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(value)
        size += len(value)
    if chunk:
        yield chunk
