"""Incremental assignment: little moves, nothing is lost, shares even out, and a group comes to rest."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from barnabas.core.connect.assignment.balance import place, plan
from barnabas.core.connect.assignment.incremental import backoff_ms
from barnabas.core.connect.assignment.work import Unit, connector_of, connectors_of, tasks_of
from barnabas.core.connect.ids import ConnectorTaskId
from tests.core.connect.group_simulation import MAX_DELAY_MS, Group, shake


def _everything_once(group: Group) -> None:
    held = [unit for units in group.members.values() for unit in units]
    assert sorted(map(str, held)) == sorted(map(str, group.work))


def _even(group: Group) -> None:
    _everything_once(group)
    for kind in (connectors_of, tasks_of):
        sizes = [len(kind(units)) for units in group.members.values()]
        assert max(sizes) - min(sizes) <= 1, group.members


def test_a_second_worker_takes_half_and_the_first_keeps_the_rest() -> None:
    group = Group(members={"a": ()}, connectors={"x": 4})
    group.rebalance()
    before = group.members["a"]
    group.members["b"] = ()
    group.rebalance()
    _even(group)
    assert set(group.members["a"]) < set(before)
    assert group.revoking_rounds == 1


def test_the_work_of_a_worker_that_left_waits_and_goes_to_the_one_that_came_for_it() -> None:
    group = Group(members={"a": (), "b": ()}, connectors={"x": 4, "y": 4})
    group.rebalance()
    lost, kept = group.members.pop("b"), group.members["a"]
    group.rebalance()
    assert group.members == {"a": kept}
    assert group.rejoin_ms == group.now_ms + MAX_DELAY_MS
    group.now_ms += 1_000
    group.members["b again"] = ()
    group.rebalance()
    assert group.rejoin_ms == group.now_ms + MAX_DELAY_MS - 1_000, "the delay goes on, and does not begin anew"
    group.now_ms = group.rejoin_ms
    group.rebalance()
    assert group.members == {"a": kept, "b again": lost}


def test_without_a_delay_the_work_of_a_worker_that_left_is_given_out_at_once() -> None:
    group = Group(max_delay_ms=0, members={"a": (), "b": ()}, connectors={"x": 4})
    group.rebalance()
    del group.members["b"]
    group.rebalance()
    _even(group)


def test_an_assignment_that_did_not_arrive_is_given_out_again() -> None:
    group = Group(members={"a": (), "b": ()}, connectors={"x": 4})
    group.rebalance(missing=["b"])
    _even(group)
    assert group.rejoin_ms == 0


def test_a_new_leader_revokes_what_was_deleted_under_the_old_one() -> None:
    group = Group(members={"a": (), "b": ()}, connectors={"x": 4, "y": 1})
    group.rebalance()
    group.new_leader()
    del group.connectors["x"]
    group.rebalance()
    _even(group)


def test_evening_out_backs_off_up_to_the_delay() -> None:
    assert [backoff_ms(n, MAX_DELAY_MS) for n in (1, 2, 3)] == [40, 1_600, 64_000]
    assert backoff_ms(4, MAX_DELAY_MS) in (MAX_DELAY_MS, MAX_DELAY_MS - 1)
    assert [backoff_ms(n, 0) for n in (1, 9)] == [0, 0]
    assert [backoff_ms(n, 1) for n in (1, 9)] == [1, 1]


def test_work_goes_to_those_who_can_do_it_and_shares_are_even_among_them() -> None:
    group = Group(
        capable=lambda member, connector: member[0] in connector,
        members={"a": (), "b": (), "c": ()},
        connectors={"ab": 6, "b": 1},
    )
    group.rebalance()
    sizes = {member: len(tasks_of(units)) for member, units in group.members.items()}
    assert sizes == {"a": 4, "b": 3, "c": 0} or sizes == {"a": 3, "b": 4, "c": 0}
    assert ConnectorTaskId("b", 0) in group.members["b"]
    assert group.rounds == 1


def test_what_nobody_can_do_is_given_to_somebody() -> None:
    group = Group(capable=lambda member, connector: connector == "x", members={"a": (), "b": ()}, connectors={"y": 3})
    group.rebalance()
    _even(group)


def test_work_moves_to_the_first_worker_that_can_do_it() -> None:
    group = Group(capable=lambda member, _: member == "new", members={"a": (), "b": ()}, connectors={"x": 3})
    group.rebalance()
    group.members["new"] = ()
    group.settle()
    assert group.members["a"] == group.members["b"] == ()
    _everything_once(group)


def test_the_work_of_a_lost_worker_waits_for_one_that_can_do_it() -> None:
    group = Group(capable=lambda member, _: member != "other", members={"a": (), "b": ()}, connectors={"x": 2})
    group.rebalance()
    del group.members["b"]
    group.rebalance()
    group.members["other"] = ()
    group.settle()
    assert group.members["other"] == ()
    _everything_once(group)


def test_a_chain_of_moves_makes_room_that_no_single_move_can() -> None:
    may = {"u": "ab", "v": "bc", "w": "a", "x": "a"}
    planned = plan(["x"], {"a": ["u", "w"], "b": ["v"], "c": []}, lambda unit: frozenset(may[unit]))
    assert planned.placed == {"x": "a"}
    assert planned.moved == {"a": ("u",), "b": ("v",)}
    planned = plan([], {"a": ["w"], "b": ["u", "v"], "c": ["x"]}, lambda unit: frozenset(may[unit]))
    assert planned.moved == {"b": ("v",), "c": ("x",)}, "what stands where it may not is moved as well"


@pytest.mark.parametrize("seed", range(20))
def test_placing_is_as_even_as_any_placing_can_be(seed: int) -> None:
    chance = Random(seed)
    members = ["a", "b", "c"]
    held = {member: chance.randrange(3) for member in members}
    may = {f"u{n}": frozenset(chance.sample(members, chance.randint(1, 3))) for n in range(5)}

    def squares(where: dict[str, str]) -> int:
        loads = dict(held)
        for member in where.values():
            loads[member] += 1
        return sum(load * load for load in loads.values())

    placed = place(may, held, may.__getitem__)
    assert all(member in may[unit] for unit, member in placed.items())
    best = min(
        squares(dict(zip(may, choice, strict=True))) for choice in product(*(sorted(ways) for ways in may.values()))
    )
    assert squares(placed) == best


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_is_as_even_as_any_sharing_can_be_and_leaves_alone_what_is_even(seed: int) -> None:
    chance = Random(seed)
    members = ["a", "b", "c"]
    may = {f"u{n}": frozenset(chance.sample(members, chance.randint(1, 3))) for n in range(6)}
    free, held = list(may)[:2], {"a": list(may)[2:5], "b": list(may)[5:], "c": list[str]()}
    planned = plan(free, held, may.__getitem__)
    moved = {unit for units in planned.moved.values() for unit in units}
    where = {unit: member for member, units in held.items() for unit in units if unit not in moved}
    where |= planned.placed
    sizes = {member: list(where.values()).count(member) for member in members}
    where |= place(sorted(moved), sizes, may.__getitem__)
    assert all(member in may[unit] for unit, member in where.items())
    best = min(
        sum(n * n for n in Counter(choice).values()) for choice in product(*(sorted(ways) for ways in may.values()))
    )
    assert sum(n * n for n in Counter(where.values()).values()) == best
    after = {member: [unit for unit, at in where.items() if at == member] for member in members}
    assert not plan([], after, may.__getitem__).moved


def _shaken(seed: int, capable_of: str = "") -> Group:
    """Give a group after twenty joins, leaves and changes. capable_of: connectors that not everybody can run."""
    chance = Random(seed)
    group = Group(members={"m0": ()}, connectors={"x": 3})
    if capable_of:
        group.capable = lambda member, connector: connector not in capable_of or member[-1] in "02468"
    for step in range(20):
        what = chance.choice(["join", "leave", "create", "delete", "tasks", "time", "leader"])
        if what == "leader":
            group.new_leader()
        else:
            shake(group, what, chance, f"m{step + 1}")
        group.rebalance(missing=[m for m in sorted(group.members) if chance.random() < 0.05])
    return group


@pytest.mark.requirement("H-31")
@pytest.mark.parametrize("seed", range(10))
def test_after_joins_and_leaves_shares_are_even_within_the_delay(seed: int) -> None:
    group = _shaken(seed)
    waited_ms = group.settle()
    _even(group)
    assert waited_ms <= MAX_DELAY_MS
    rounds = group.rounds
    group.rebalance()
    assert group.rounds == rounds + 1, "nothing more to do"
    assert group.rejoin_ms == 0


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.requirement("H-31")
@pytest.mark.parametrize("block", range(10))
def test_shares_even_out_whatever_happened(block: int) -> None:
    for seed in range(100 + 100 * block, 200 + 100 * block):
        group = _shaken(seed)
        group.settle()
        _even(group)


@pytest.mark.requirement("H-31")
@pytest.mark.parametrize("seed", range(10))
def test_a_group_that_cannot_all_do_everything_comes_to_rest_too(seed: int) -> None:
    group = _shaken(seed, "vwx")
    group.settle()
    _everything_once(group)
    assert group.capable is not None
    for member, units in group.members.items():
        for unit in units:
            able = [m for m in group.members if group.capable(m, connector_of(unit))]
            assert member in able or not able
    _no_better_place(group)


def _no_better_place(group: Group) -> None:
    assert group.capable is not None

    def size(member: str, unit: Unit) -> int:
        kind = connectors_of if isinstance(unit, str) else tasks_of
        return len(kind(group.members[member]))

    for member, units in group.members.items():
        for unit in units:
            able = [m for m in group.members if group.capable(m, connector_of(unit))] or list(group.members)
            assert all(size(member, unit) - size(other, unit) <= 1 for other in able)
