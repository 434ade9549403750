from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire.errors import ProtocolError
from barnabas.wire.frame import FrameParser, encode_frame
from barnabas.wire.primitives import Records


def framed(*bodies: bytes) -> bytes:
    """Give a stream of frames."""
    return b"".join(bytes(part) for body in bodies for part in encode_frame([body]) if isinstance(part, bytes))


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 50), min_size=1))
def test_frames_come_out_whole_however_they_came_in(bodies: list[bytes], steps: list[int]) -> None:
    stream = framed(*bodies)
    parser = FrameParser(100)
    out: list[bytes] = []
    pos = turn = 0
    while pos < len(stream):
        step = steps[turn % len(steps)]
        out += parser.feed(stream[pos : pos + step])
        pos, turn = pos + step, turn + 1
    assert out == bodies
    assert parser.unfinished == 0


def test_byte_by_byte() -> None:
    parser = FrameParser(100)
    out = [frame for byte in framed(b"one", b"", b"three") for frame in parser.feed(bytes([byte]))]
    assert out == [b"one", b"", b"three"]


def test_a_frame_above_the_bound_is_refused_before_it_is_held() -> None:
    parser = FrameParser(10)
    with pytest.raises(ProtocolError, match="11 bytes is larger than the 10"):
        list(parser.feed(b"\0\0\0\x0b"))
    assert parser.unfinished <= 4


def test_a_negative_length_is_refused_after_the_frames_before_it() -> None:
    seen: list[bytes] = []

    def read_all() -> None:
        for frame in FrameParser(10).feed(framed(b"good") + b"\xff\xff\xff\xff"):
            seen.append(frame)  # noqa: PERF402 - what came before the error must be kept

    with pytest.raises(ProtocolError, match="-1 bytes"):
        read_all()
    assert seen == [b"good"]


def test_the_bound_may_change_between_frames() -> None:
    parser = FrameParser(2)
    assert list(parser.feed(framed(b"ok"))) == [b"ok"]
    parser.max_size = 5
    assert list(parser.feed(framed(b"more!"))) == [b"more!"]


def test_parts_are_framed_together() -> None:
    parts: list[Records] = [b"ab", memoryview(b"cde")]
    assert encode_frame(parts) == [b"\0\0\0\5", *parts]
