"""Records that brokers and controllers write for one another: ends of transactions, changes of the quorum."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from barnabas.wire.batch_header import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.wire.batch_reader import Record
from barnabas.wire.batch_writer import encode_batch
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import Message, decode, decode_from, encode
from barnabas.wire.records.end_txn_marker import EndTxnMarker
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord
from barnabas.wire.records.leader_change_message import LeaderChangeMessage
from barnabas.wire.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.wire.records.voters_record import VotersRecord


class ControlType(IntEnum):
    """What a control record says; its key holds the number."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
_VALUES: Final[dict[ControlType, type[Message]]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_END_TXN: Final = (ControlType.ABORT, ControlType.COMMIT)


def control_batch(
    records: Sequence[tuple[ControlType, Message]],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytes:
    """Give a control batch. Ends of transactions are transactional and carry the producer; the quorum's are not."""
    made = [Record(0, timestamp, _KEY.pack(0, kind), _encode_value(kind, value)) for kind, value in records]
    return encode_batch(
        made,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def decode_control(record: Record) -> tuple[ControlType, Message] | None:
    """Give what a record of a control batch says; None for a type that is newer than we are."""
    if record.key is None or len(record.key) < _KEY.size or record.value is None:
        raise ProtocolError("a control record has no proper key or value")
    number = _KEY.unpack_from(record.key)[1]
    if number not in ControlType.__members__.values():
        return None
    kind = ControlType(number)
    return kind, _decode_value(kind, record.value)


def _encode_value(kind: ControlType, value: Message) -> bytes:
    # A leader change says its version in its first field; so do the other messages of the quorum.
    version = int(getattr(value, "version", value.MAX_VERSION))
    prefix = _VERSION.pack(version) if kind in _END_TXN else b""
    return prefix + encode(value, version)


def _decode_value(kind: ControlType, value: bytes) -> Message:
    cls = _VALUES[kind]
    if kind in _END_TXN:
        # A newer marker begins like ours; what it adds is left out.
        if len(value) < _VERSION.size or _VERSION.unpack_from(value)[0] < 0:
            raise ProtocolError("a transaction marker has no proper version")
        return decode_from(cls, cls.MAX_VERSION, value, _VERSION.size)[0]
    version = _VERSION.unpack_from(value)[0] if len(value) >= _VERSION.size else cls.MAX_VERSION
    return decode(cls, min(max(version, cls.MIN_VERSION), cls.MAX_VERSION), value)
