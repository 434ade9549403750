"""Which replica a consumer is sent to, and which replicas a quota is for."""

from __future__ import annotations

import pytest

from barnabas.core.replication.read_replica import ReplicaView, leader_selector, rack_aware_selector
from barnabas.core.replication.throttled import throttled_on

LEADER = ReplicaView(1, "a", 100, 0)
FOLLOWERS = [
    ReplicaView(2, "b", 90, 5),
    ReplicaView(3, "b", 95, 9),
    ReplicaView(4, "b", 95, 2),
    ReplicaView(5, "c", 9, 0),
]


@pytest.mark.parametrize(("rack", "broker"), [("", 1), ("a", 1), ("b", 4), ("c", 5), ("d", 1)])
def test_the_nearest_then_the_one_that_is_ahead(rack: str, broker: int) -> None:
    assert rack_aware_selector(rack, LEADER, FOLLOWERS) == broker
    assert leader_selector(rack, LEADER, FOLLOWERS) == 1


def test_replicas_are_throttled_as_listed() -> None:
    listed = throttled_on(7, "0:7, 1:8,3:7")
    assert [n for n in range(4) if n in listed] == [0, 3]
    assert 99 in throttled_on(7, "*")
    assert not throttled_on(7, "")
    with pytest.raises(ValueError):
        throttled_on(7, "nonsense")
