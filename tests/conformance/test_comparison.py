"""What counts as a difference between two nodes' answers."""

from __future__ import annotations

from barnabas.model.uuid import Uuid
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.conformance.side_by_side.comparison import differences
from tests.conformance.side_by_side.side import ADMIN, Side


def told(*topics: tuple[str, int]) -> Side:
    """Give a node that was asked twice for its topics, which it tells of in this order, with such ids."""
    side = Side("a node", 0, {})
    listed = [MetadataResponseTopic(name=name, topic_id=Uuid(bytes([number]) * 16)) for name, number in topics]
    for each in (listed, listed[::-1]):
        side.note(MetadataRequest(), 12, ADMIN, MetadataResponse(topics=each))
    return side


def test_lists_may_come_in_any_order_whatever_ids_are_made_up() -> None:
    assert list(differences(told(("a", 1), ("b", 2), ("c", 3)), told(("c", 9), ("a", 8), ("b", 7)))) == []


def test_ids_that_are_made_up_stay_what_they_are() -> None:
    [found] = {d.path for d in differences(told(("a", 1), ("b", 2)), told(("b", 1), ("a", 1)))}
    assert found == ".topics[b].topic_id"
