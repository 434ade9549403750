from __future__ import annotations

from random import Random

import pytest

from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ProtocolError
from barnabas.wire.metadata_records import decode_metadata_record, encode_metadata_record
from barnabas.wire.record_rows import METADATA
from barnabas.wire.records.end_txn_marker import EndTxnMarker
from barnabas.wire.records.topic_record import TopicRecord
from tests.wire.instances import Maker

TOPIC = TopicRecord(name="orders", topic_id=Uuid(bytes(range(16))))


def test_the_frame_is_version_type_version() -> None:
    data = encode_metadata_record(TOPIC, 0)
    assert data == b"\x01\x02\x00\x07orders" + bytes(range(16)) + b"\0"
    assert decode_metadata_record(memoryview(data)) == (TOPIC, 0)


@pytest.mark.parametrize("cls", METADATA.values(), ids=lambda c: c.NAME)
def test_every_record_survives(cls: type[TopicRecord]) -> None:
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        record = Maker(version, Random(version)).make(cls)
        assert decode_metadata_record(encode_metadata_record(record, version)) == (record, version)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "shorter than its frame"),
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x01\x7f\x00", "unknown type 127"),
        (b"\x01\x02\x09", "versions 0 to 0"),
        (b"\x01\x02\x00\x07ord", "too early"),
        (encode_metadata_record(TOPIC, 0) + b"\0", "do not belong"),
    ],
)
def test_what_cannot_be_read_stops_the_reader(data: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        decode_metadata_record(data)


def test_other_messages_are_no_metadata() -> None:
    with pytest.raises(ProtocolError, match="no metadata record"):
        encode_metadata_record(EndTxnMarker(), 0)
