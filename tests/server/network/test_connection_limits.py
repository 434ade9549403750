"""Who may connect, how many, how fast."""

from __future__ import annotations

import pytest

from barnabas.model.config import ConfigError
from barnabas.server.config import NodeConfig
from barnabas.server.network.connection_limits import REFUSED, Admission, ConnectionLimits, Verdict, parse_overrides

BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "A://127.0.0.1:9092,B://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "A",
    "log.dirs": "data",
}


def limits(**settings: object) -> ConnectionLimits:
    return ConnectionLimits(config(**settings))


def config(**settings: object) -> NodeConfig:
    return NodeConfig.parse(
        {**BASE, **{key.replace("__", "-").replace("_", "."): str(v) for key, v in settings.items()}}
    )


def test_without_limits_everybody_is_let_in() -> None:
    counts = limits()
    assert [counts.opened("B", "10.0.0.1", 0) for _ in range(1000)] == [0] * 1000
    assert (counts.count(), counts.count("B"), counts.count("A")) == (1000, 1000, 0)


def test_an_address_has_its_own_limit() -> None:
    counts = limits(max_connections_per_ip=2, max_connections_per_ip_overrides="127.0.0.9:0,10.0.0.9:3")
    assert [counts.opened("B", "10.0.0.1", 0) for _ in range(3)] == [0, 0, REFUSED]
    assert counts.opened("A", "10.0.0.1", 0) == REFUSED
    assert counts.opened("B", "10.0.0.2", 0) == 0
    assert counts.admit("B", "127.0.0.9", 0) == Admission(Verdict.TOO_MANY_FROM_IP)
    assert [counts.opened("B", "10.0.0.9", 0) for _ in range(4)] == [0, 0, 0, REFUSED]
    counts.closed("B", "10.0.0.1")
    assert counts.opened("A", "10.0.0.1", 0) == 0
    assert counts.count() == 6


def test_the_nodes_number_binds_all_listeners_but_the_one_between_brokers() -> None:
    counts = limits(max_connections=2)
    assert [counts.opened("B", "h", 0) for _ in range(2)] == [0, 0]
    assert counts.admit("B", "h", 0).verdict is Verdict.NO_SLOT
    assert not counts.excess("B")
    assert counts.opened("A", "h", 0) == 0
    assert counts.excess("B")
    assert not counts.excess("A")
    counts.closed("B", "h")
    assert not counts.excess("B")
    assert not counts.has_slot("B")
    counts.closed("B", "h")
    assert counts.has_slot("B")


def test_a_listener_has_its_own_number() -> None:
    counts = limits(listener_name_b_max_connections=1)
    assert [counts.opened("B", "h", 0) for _ in range(2)] == [0, REFUSED]
    assert [counts.opened("A", "h", 0) for _ in range(2)] == [0, 0]
    counts.closed("B", "h")
    assert counts.opened("B", "h", 0) == 0


def test_connections_beyond_the_rate_wait_their_turn() -> None:
    counts = limits(listener_name_b_max_connection_creation_rate=1)
    waits = [counts.opened("B", "h", 0) for _ in range(13)]
    assert waits[:10] == [0] * 10
    assert 0 < waits[10] <= 1000
    assert waits[10] < waits[11] < waits[12]
    assert counts.opened("A", "h", 0) == 0


def test_the_nodes_rate_does_not_hold_up_brokers() -> None:
    counts = limits(max_connection_creation_rate=1)
    waits = [counts.opened("CONTROLLER", "h", 0) for _ in range(12)]
    assert waits[-1] > 0
    # The plain key is every listener's own limit too, so listener A waits only for its own connections.
    assert [counts.opened("A", "h", 0) for _ in range(10)] == [0] * 10


def test_an_address_that_comes_too_fast_is_refused_and_counts_nowhere() -> None:
    counts = limits()
    counts.set_ip_rates({"::1": 1})
    host = "0:0:0:0:0:0:0:1"
    verdicts = [counts.admit("B", host, 0).verdict for _ in range(12)]
    assert verdicts == [Verdict.ADMITTED] * 10 + [Verdict.TOO_FAST_FROM_IP] * 2
    assert counts.count() == 10
    assert counts.admit("B", host, 20_000).counted
    counts.set_ip_rates({})
    assert all(counts.admit("B", host, 20_000).counted for _ in range(20))
    counts.set_ip_rates({}, default=0)
    refused = counts.admit("B", "10.0.0.7", 20_000)
    assert refused.verdict is Verdict.TOO_FAST_FROM_IP
    assert refused.wait_ms > 0


def test_new_limits_are_taken_up_and_counts_stay() -> None:
    counts = limits()
    for _ in range(3):
        counts.opened("B", "h", 0)
    counts.configure(config(max_connections_per_ip=3))
    assert counts.opened("B", "h", 0) == REFUSED
    counts.configure(config(max_connections_per_ip=4))
    assert counts.opened("B", "h", 0) == 0


def test_overrides() -> None:
    assert parse_overrides(" 10.0.0.1:5, [::1]:7 ,,") == {"10.0.0.1": 5, "0:0:0:0:0:0:0:1": 7}
    for text in ("10.0.0.1", "10.0.0.1:x", ":", "10.0.0.1:-1"):
        with pytest.raises(ConfigError, match="host:number"):
            parse_overrides(text)
