from __future__ import annotations

import pytest

from barnabas.core.raft.voters import (
    Endpoint,
    ReplicaKey,
    Voter,
    VoterSet,
    parse_dynamic_voters,
    parse_static_voters,
)
from barnabas.model.uuid import Uuid

A = Uuid.parse("JEXY6aqzQY-32P5TStzaFg")
B = Uuid.parse("MvDxzVmcRsaTz33bUuRU6A")


def test_dynamic_voters_are_parsed_and_ordered() -> None:
    voters = parse_dynamic_voters(f"2@[::1]:9093:{B},1@example.com:8082:{A}", "controller")
    assert voters.node_ids == (1, 2)
    assert voters.get(1) == Voter(ReplicaKey(1, A), (("CONTROLLER", Endpoint("example.com", 8082)),))
    two = voters.get(2)
    assert two is not None
    assert two.endpoints[0][1] == Endpoint("::1", 9093)


@pytest.mark.parametrize(
    "text",
    ["", "1", "@h:1:" + str(A), "x@h:1:" + str(A), "-1@h:1:" + str(A), "1@h:70000:" + str(A), "1@h:1", "1@h:1:short"],
)
def test_what_is_no_voter_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_dynamic_voters(text, "CONTROLLER")


def test_a_node_stands_once() -> None:
    with pytest.raises(ValueError, match="more than once"):
        parse_dynamic_voters(f"1@h:1:{A},1@h:2:{B}", "CONTROLLER")
    with pytest.raises(ValueError, match="more than once"):
        parse_static_voters(["1@h:1", "1@h:2"], "CONTROLLER")


def test_the_record_gives_the_set_back() -> None:
    voters = parse_dynamic_voters(f"1@h:1:{A},2@h:2:{B}", "CONTROLLER")
    assert VoterSet.from_record(voters.to_record()) == voters


def test_a_voter_with_a_directory_is_only_that_directory() -> None:
    voters = parse_dynamic_voters(f"1@h:1:{A}", "CONTROLLER")
    assert voters.is_only(ReplicaKey(1, A))
    assert not voters.is_only(ReplicaKey(1, B))
    assert not voters.has(ReplicaKey(2, A))


def test_a_static_voter_is_any_directory_of_its_node() -> None:
    voters = parse_static_voters(["1@h:1"], "CONTROLLER")
    assert voters.is_only(ReplicaKey(1, A))
    assert voters.is_only(ReplicaKey(1, B))
    assert voters.voters[0].versions == (0, 0)
