"""Messages of the group: round trips, what is offered, and bad bytes."""

from __future__ import annotations

import pytest

from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.subprotocol import (
    Assignment,
    ExtendedAssignment,
    Subprotocol,
    WorkerState,
    decode_assignment,
    decode_extended,
    decode_worker_state,
    encode_assignment,
    encode_extended,
    encode_worker_state,
    metadata,
    offered,
)
from barnabas.wire.errors import ProtocolError

TASKS = (ConnectorTaskId("x", 0), ConnectorTaskId("y-1", 12))
HAS = ExtendedAssignment(2, 0, "m", "http://a/", 9, ("x",), TASKS, ("z",), (ConnectorTaskId("z", 1),), 300)


@pytest.mark.requirement("C-09")
@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("sessioned", ["sessioned", "compatible", "default"]),
        ("Compatible", ["compatible", "default"]),
        ("EAGER", ["default"]),
        ("default", ["default"]),
    ],
)
def test_what_a_worker_offers(setting: str, names: list[str]) -> None:
    state = WorkerState("http://a/", 1, HAS)
    assert [name for name, _ in metadata(state, offered(setting))] == names


def test_other_values_are_refused() -> None:
    with pytest.raises(ValueError):
        offered("classic")


@pytest.mark.requirement("C-08")
def test_sessioned_is_compatible_but_for_its_version_at_the_head_and_within() -> None:
    state = WorkerState("http://a/", 1, HAS)
    newer, older = (encode_worker_state(state, s) for s in (Subprotocol.SESSIONED, Subprotocol.COMPATIBLE))
    assert [n for n, (a, b) in enumerate(zip(newer, older, strict=True)) if a != b] == [1, 26]
    assert decode_worker_state(newer) == state


def test_messages_come_back_as_they_were() -> None:
    whole = Assignment(1, "m", "http://a/", 9, ("x",), TASKS)
    assert decode_assignment(encode_assignment(whole)) == whole
    assert decode_extended(encode_extended(HAS)) == HAS
    plain = WorkerState("http://ä/", 1 << 40)
    for subprotocol in Subprotocol:
        assert decode_worker_state(encode_worker_state(plain, subprotocol)) == plain


def test_a_later_version_is_read_as_far_as_it_is_known_and_what_is_missing_is_empty() -> None:
    later = b"\x00\x07" + encode_extended(HAS)[2:]
    assert decode_extended(later + b"more").connectors == HAS.connectors
    nothing = encode_assignment(Assignment(0, "m", "u", 1))[:-4]
    assert decode_extended(nothing) == ExtendedAssignment(0, 0, "m", "u", 1)


@pytest.mark.parametrize("data", [encode_extended(HAS), encode_assignment(Assignment(0, "m", "u", 1, ("x",), TASKS))])
def test_whatever_is_cut_or_changed_is_a_protocol_error_or_another_message(data: bytes) -> None:
    for decode in (decode_extended, decode_assignment, decode_worker_state):
        for end in range(len(data)):
            for bad in (data[:end], data[:end] + b"\xff" * 8 + data[end:]):
                try:
                    decode(bad)
                except ProtocolError:
                    continue
