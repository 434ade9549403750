"""The leader's answers: in the group's subprotocol, for the newest configuration, with who has what."""

from __future__ import annotations

import pytest

from barnabas.core.connect.assignment.incremental import NO_MEMORY, Round
from barnabas.core.connect.assignment.leading import lead
from barnabas.core.connect.assignment.work import units
from barnabas.core.connect.config_records import connector_config_record, task_commit_record, task_config_records
from barnabas.core.connect.config_state import EMPTY_CONFIG, ClusterConfigState, replay_config
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.subprotocol import (
    CONFIG_MISMATCH,
    NO_ERROR,
    Assignment,
    ExtendedAssignment,
    Subprotocol,
    WorkerState,
    decode_assignment,
    decode_extended,
    encode_worker_state,
)

FIRST = Round(generation=1, last_generation=-1, now_ms=0, max_delay_ms=300_000)


def _config() -> ClusterConfigState:
    state = EMPTY_CONFIG
    records = [connector_config_record("x", {}), *task_config_records("x", [{}, {}]), task_commit_record("x", 2)]
    for offset, (key, value) in enumerate(records):
        state = replay_config(state, key, value, offset).state
    return state


def _metadata(subprotocol: Subprotocol, offset: int = 4) -> dict[str, bytes]:
    return {m: encode_worker_state(WorkerState(f"http://{m}/", offset), subprotocol) for m in ("a", "b")}


def _decode(subprotocol: Subprotocol, data: bytes) -> Assignment | ExtendedAssignment:
    return decode_assignment(data) if subprotocol is Subprotocol.DEFAULT else decode_extended(data)


@pytest.mark.parametrize("subprotocol", list(Subprotocol))
def test_everybody_is_told_in_the_groups_subprotocol(subprotocol: Subprotocol) -> None:
    led = lead(subprotocol, "b", _metadata(subprotocol), _config(), NO_MEMORY, FIRST)
    told = [_decode(subprotocol, led.messages[member]) for member in ("a", "b")]
    assert [(t.error, t.leader, t.leader_url, t.config_offset) for t in told] == [(NO_ERROR, "b", "http://b/", 4)] * 2
    assert [t.connectors for t in told] == [("x",), ()]
    assert sorted(task for t in told for task in t.tasks) == [ConnectorTaskId("x", 0), ConnectorTaskId("x", 1)]
    for member, part in zip(("a", "b"), told, strict=True):
        for unit in units(part.connectors, part.tasks):
            assert led.owner_url(unit) == f"http://{member}/"
    assert led.owner_url("y") is None
    assert not led.behind


@pytest.mark.parametrize("subprotocol", list(Subprotocol))
def test_a_leader_that_has_read_less_than_a_member_has_everybody_read_on(subprotocol: Subprotocol) -> None:
    led = lead(subprotocol, "b", _metadata(subprotocol, 5), _config(), NO_MEMORY, FIRST)
    told = [_decode(subprotocol, message) for message in led.messages.values()]
    assert [(t.error, t.config_offset, t.connectors, t.tasks) for t in told] == [(CONFIG_MISMATCH, 5, (), ())] * 2
    assert led.behind
    assert led.memory == NO_MEMORY


@pytest.mark.parametrize("subprotocol", list(Subprotocol))
def test_work_goes_to_those_who_can_do_it(subprotocol: Subprotocol) -> None:
    able = FIRST._replace(capable=lambda member, connector: member == "b")
    led = lead(subprotocol, "b", _metadata(subprotocol), _config(), NO_MEMORY, able)
    assert set(led.owners.values()) == {"b"}
