"""The compiled codec: round trips, parity with the plain one, and what it does with bytes that are wrong."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import Message, decode, decode_from, encode, encode_into
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
)
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.primitives import Records

from . import plain
from .instances import MESSAGES, VERSIONS, Maker

SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda c: c.NAME)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=SEEDS, wide=st.integers(0, 4))
def test_every_version_of_a_message_survives_encoding(cls: type[Message], seed: int, wide: int) -> None:
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        msg = Maker(version, Random(seed), wide).make(cls)
        data = encode(msg, version)
        assert data == plain.encode(msg, version)
        assert decode(cls, version, data) == msg
        assert decode_from(cls, version, b"before" + data + b"after", 6) == (msg, 6 + len(data))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_any_buffer_can_be_decoded(kind: type[bytes]) -> None:
    for cls, version in VERSIONS[::17]:
        msg = Maker(version, Random(7)).make(cls)
        assert decode(cls, version, kind(encode(msg, version))) == msg


@settings(max_examples=150, deadline=None, database=None)
@given(st.sampled_from(VERSIONS), SEEDS)
def test_a_truncated_message_is_refused_at_every_point(which: tuple[type[Message], int], seed: int) -> None:
    cls, version = which
    data = encode(Maker(version, Random(seed), 2).make(cls), version)
    for end in range(0, len(data), max(1, len(data) // 60)):
        with pytest.raises(ProtocolError):
            decode(cls, version, data[:end])


@settings(max_examples=60, deadline=None, database=None)
@given(st.sampled_from(VERSIONS), SEEDS)
def test_bytes_after_the_message_are_refused(which: tuple[type[Message], int], seed: int) -> None:
    cls, version = which
    data = encode(Maker(version, Random(seed)).make(cls), version)
    with pytest.raises(ProtocolError, match="do not belong"):
        decode(cls, version, data + b"\0")


@settings(max_examples=400, deadline=None, database=None)
@given(st.sampled_from(VERSIONS), SEEDS, st.data())
def test_damaged_bytes_give_a_message_or_a_protocol_error(
    which: tuple[type[Message], int], seed: int, data: st.DataObject
) -> None:
    cls, version = which
    good = bytearray(encode(Maker(version, Random(seed)).make(cls), version))
    for _ in range(data.draw(st.integers(1, 4))):
        if good:
            good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
    try:
        decode(cls, version, bytes(good))
    except ProtocolError:
        pass


@settings(max_examples=300, deadline=None, database=None)
@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_random_bytes_give_a_message_or_a_protocol_error(which: tuple[type[Message], int], data: bytes) -> None:
    try:
        decode(which[0], which[1], data)
    except ProtocolError:
        pass


HOSTILE_LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08")


def test_hostile_lengths_take_no_memory() -> None:
    for cls, version in VERSIONS:  # compile first: that is not what is measured
        for hostile in HOSTILE_LENGTHS:
            for offset in range(0, 24, 4):
                with_zeros = bytes(offset) + hostile * 8
                try:
                    decode(cls, version, with_zeros)
                except ProtocolError:
                    pass
    tracemalloc.start()
    try:
        for cls, version in VERSIONS[::3]:
            for hostile in HOSTILE_LENGTHS:
                for offset in (0, 2, 4, 8, 12):
                    try:
                        decode(cls, version, bytes(offset) + hostile * 8)
                    except ProtocolError:
                        pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000


def test_a_count_is_held_against_the_bytes_that_are_left() -> None:
    body = b"\0\0\0\x64" + bytes(99)  # a hundred topics, each needs two bytes at least
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 0, body)


def test_an_unknown_tagged_field_is_skipped() -> None:
    data = bytearray(encode(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4))
    assert data[-1] == 0
    data[-1:] = b"\x02\x05\x01x\xe8\x07\x02yz"  # tags 5 and 1000
    made = decode(ApiVersionsRequest, 4, bytes(data))
    assert (made.client_software_name, made.client_software_version) == ("a", "1")


def test_a_tagged_field_must_have_the_size_it_says() -> None:
    msg = ApiVersionsResponse(finalized_features_epoch=7)
    data = encode(msg, 3)
    assert decode(ApiVersionsResponse, 3, data) == msg
    at = data.index(b"\x01\x08" + bytes(7) + b"\x07")
    with pytest.raises(ProtocolError, match="finalized_features_epoch"):
        decode(ApiVersionsResponse, 3, data[: at + 1] + b"\x07" + data[at + 2 :])


def test_what_a_version_lacks_is_refused_or_dropped() -> None:
    assert encode(FetchRequest(rack_id="r1", max_wait_ms=1), 4) == encode(FetchRequest(max_wait_ms=1), 4)
    with pytest.raises(ProtocolError, match=r"FetchRequest v4 .*forgotten_topics_data"):
        encode(FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="a")]), 4)


@pytest.mark.parametrize(
    "msg",
    [
        CreateTopicsRequest(timeout_ms=2**31),
        CreateTopicsRequest(timeout_ms="soon"),  # type: ignore[arg-type]
        JoinGroupRequest(group_id=None),  # type: ignore[arg-type]
        JoinGroupRequest(group_id="x" * 32768),
        JoinGroupRequest(group_id="\ud800"),
    ],
)
@pytest.mark.parametrize("version", [4, 6])
def test_values_that_do_not_fit_are_refused(msg: Message, version: int) -> None:
    with pytest.raises(ProtocolError, match=msg.NAME):
        encode(msg, version)


def test_a_version_we_do_not_have_is_refused() -> None:
    with pytest.raises(ProtocolError, match="versions 3 to 13"):
        encode(ProduceRequest(), 2)
    with pytest.raises(ProtocolError, match="versions 3 to 13"):
        decode(ProduceRequest, 14, b"")


def test_records_travel_uncopied() -> None:
    batch = memoryview(bytearray(b"batch" * 1000))
    msg = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=batch)])])
    parts: list[Records] = []
    encode_into(msg, 13, parts)
    assert any(part is batch for part in parts)

    frame = bytearray(encode(msg, 13))
    records = decode(ProduceRequest, 13, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert records == batch


class InFile:
    """Bytes that the codec must not look into, only count."""

    def __len__(self) -> int:
        return 300

    def read(self) -> bytes:
        return b"r" * 300


def test_records_may_be_a_region_of_a_file() -> None:
    region = InFile()
    topic = FetchableTopicResponse(topic_id=Uuid(bytes(range(16))), partitions=[PartitionData(records=region)])
    msg = FetchResponse(responses=[topic])
    parts: list[Records] = []
    encode_into(msg, 13, parts)
    assert any(part is region for part in parts)
    decoded = decode(FetchResponse, 13, encode(msg, 13))
    assert decoded.responses[0].partitions[0].records == b"r" * 300


def test_secrets_are_not_printed() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"))


def test_malformed_text_is_read_as_java_reads_it() -> None:
    data = bytearray(encode(MetadataResponse(cluster_id="abcd"), 2))
    at = data.index(b"abcd")
    data[at : at + 2] = b"\xff\xfe"
    assert decode(MetadataResponse, 2, bytes(data)).cluster_id == "\ufffd\ufffdcd"
