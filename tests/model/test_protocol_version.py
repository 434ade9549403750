"""The levels of inter.broker.protocol.version."""

from __future__ import annotations

import pytest

from barnabas.model.protocol_version import LATEST_PROTOCOL_VERSION, ProtocolVersion


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("3.9-IV0", "3.9-IV0"),
        ("3.9", "3.9-IV0"),
        ("3.9.1", "3.9-IV0"),
        ("2.7", "2.7-IV2"),
        ("2.7-IV0", "2.7-IV0"),
        ("2.7.2", "2.7-IV2"),
        (" 3.0-IV1 ", "3.0-IV1"),
        ("1.0", "1.0-IV0"),
        ("0.10.1", "0.10.1-IV2"),
        ("0.10.0-IV0", "0.10.0-IV0"),
        ("0.9.0.1", "0.9.0"),
        ("0.8.2", "0.8.2"),
    ],
)
def test_each_spelling_of_kafkas_is_taken(text: str, meant: str) -> None:
    assert str(ProtocolVersion.parse(text)) == meant


@pytest.mark.parametrize("text", ["", "2", "2.7-IV3", "2.9", "0.10", "4.0", "4.0-IV0", "3.10", "latest"])
def test_others_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"want a release from 0\.8\.0 to 3\.9"):
        ProtocolVersion.parse(text)


def test_each_level_is_read_as_it_is_printed() -> None:
    assert [ProtocolVersion.parse(str(level)) for level in ProtocolVersion] == list(ProtocolVersion)
    assert str(LATEST_PROTOCOL_VERSION) == "3.9-IV0"


def test_what_a_broker_may_do_comes_with_its_level() -> None:
    def first(predicate: str) -> str:
        return next(str(level) for level in ProtocolVersion if getattr(level, predicate))

    assert {p: first(p) for p in ("topic_ids", "forwards")} == {"topic_ids": "2.8-IV0", "forwards": "3.0-IV0"}
