"""The classic group protocol, member by member: each test is a conversation with one shard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.classic import ClassicGroupState
from barnabas.core.groups.config import GroupConfig
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.records.group_metadata_value import GroupMetadataValue
from tests.core.groups.driving import Driver, Parked

E = ErrorCode
NOW_OR_NEVER = GroupConfig(initial_rebalance_delay_ms=0)


def state(d: Driver, group: str = "g") -> ClassicGroupState:
    return d.shard.image.groups[group].state


def answered(parked: Parked) -> bool:
    return parked.response is not None


def error_of(call: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.code


def last_group_record(d: Driver) -> GroupMetadataValue:
    values = [r.value for r in d.records if isinstance(r.value, GroupMetadataValue)]
    return values[-1]


# joining


def test_a_dynamic_member_must_come_back_with_its_id() -> None:
    d = Driver()
    first = d.join(client_id="app")
    assert first.error is E.MEMBER_ID_REQUIRED
    assert first.response.member_id == "app-00000000-0000-0000-0000-000000000001"
    assert d.shard.image.groups["g"].pending_join == {first.response.member_id: None}
    second = d.join(first.response.member_id)
    d.advance(3_000)
    assert second.error is E.NONE
    assert second.response.leader == second.response.member_id == first.response.member_id
    assert second.response.generation_id == 1
    assert second.response.protocol_name == "range"


def test_versions_before_4_take_a_member_at_once() -> None:
    d = Driver()
    member = d.join(version=3)
    assert not answered(member)
    d.advance(3_000)
    assert member.error is E.NONE


def test_a_new_group_is_recorded_before_it_has_a_generation() -> None:
    d = Driver()
    d.join()
    value = last_group_record(d)
    assert (value.generation, value.protocol_type, value.protocol, value.members) == (0, "", None, [])
    assert value.current_state_timestamp == d.now.wall_ms


def test_a_pending_id_that_never_comes_back_is_dropped() -> None:
    d = Driver()
    member_id = d.join(session_ms=7_000).response.member_id
    d.advance(7_000)
    assert not d.shard.image.groups["g"].pending_join
    assert d.join(member_id).error is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_impossible_joins_are_refused(how: dict[str, Any], want: ErrorCode) -> None:
    assert Driver().join(**how).error is want


def test_the_join_phase_of_a_group_that_was_refused_does_not_end_that_of_the_next() -> None:
    d = Driver(hold=True)
    before = d.shard.image
    d.join(instance="i")
    d.shard.image = before  # its first record did not get into the log
    d.settle(E.NOT_COORDINATOR)
    d.hold = False
    assert d.join().error is E.MEMBER_ID_REQUIRED
    d.advance(3_000)
    assert state(d) is ClassicGroupState.EMPTY


def test_an_unknown_member_is_told_so_by_a_group_that_exists() -> None:
    d = Driver()
    d.stable_group()
    refused = d.join("ghost")
    assert (refused.error, refused.response.member_id) == (E.UNKNOWN_MEMBER_ID, "ghost")


def test_the_protocol_type_of_a_group_is_fixed_while_it_has_members() -> None:
    d = Driver()
    d.stable_group(protocol_type="connect")
    assert d.join(protocol_type="consumer").error is E.INCONSISTENT_GROUP_PROTOCOL
    assert d.join(protocol_type="connect", protocols=[("other", b"")]).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert d.join(protocol_type="connect").error is E.MEMBER_ID_REQUIRED


def test_the_protocol_with_most_votes_among_those_all_support_wins() -> None:
    d = Driver()
    votes = [
        [("range", b""), ("sticky", b"")],
        [("sticky", b""), ("range", b"")],
        [("odd", b""), ("sticky", b""), ("range", b"")],
    ]
    parked = [d.join_new(protocols=v) for v in votes]
    d.advance(60_000)
    assert {p.response.protocol_name for p in parked} == {"sticky"}


def test_only_the_leader_learns_the_members() -> None:
    d = Driver()
    leader, follower = d.join_new(protocols=[("range", b"one")]), d.join_new(protocols=[("range", b"two")])
    d.advance(10_000)
    assert [m.metadata for m in leader.response.members] == [b"one", b"two"]
    assert follower.response.members == []
    assert follower.response.leader == leader.response.member_id


# the first join phase


def test_a_new_group_waits_for_more_members_up_to_the_rebalance_timeout() -> None:
    d = Driver()
    members = [d.join_new(rebalance_ms=8_000)]
    for _ in range(2):
        d.advance(2_000)
        members.append(d.join_new(rebalance_ms=8_000))
    assert not any(map(answered, members))
    d.advance(4_000)  # at 8 s the wait is over, whoever comes
    assert all(map(answered, members))


def test_without_a_delay_the_group_starts_at_once() -> None:
    d = Driver(NOW_OR_NEVER)
    member = d.join_new()
    d.advance(0)
    assert member.error is E.NONE


# assignment


def test_each_member_gets_what_the_leader_assigned_and_the_group_is_recorded() -> None:
    d = Driver()
    leader, follower = d.stable_group(2)
    assert state(d) is ClassicGroupState.STABLE
    assert d.sync(follower).response.assignment == follower.member_id.encode()
    value = last_group_record(d)
    assert (value.generation, value.protocol, value.leader) == (1, "range", leader.member_id)
    assert {m.member_id: m.assignment for m in value.members} == {
        m.member_id: m.member_id.encode() for m in (leader, follower)
    }
    member = value.members[0]
    assert (member.client_id, member.client_host, member.session_timeout, member.rebalance_timeout) == (
        "c",
        "/1.2.3.4",
        10_000,
        60_000,
    )


def test_followers_wait_for_the_leader_and_for_the_record() -> None:
    d = Driver(hold=True)
    leader, follower = d.join_new(), d.join_new()
    d.settle()
    d.advance(10_000)
    waits = d.sync(follower.response)
    leads = d.sync(leader.response, {follower.response.member_id: b"f"})
    assert not answered(waits)
    assert not answered(leads)
    assert state(d) is ClassicGroupState.COMPLETING_REBALANCE
    d.settle()
    assert (waits.response.assignment, leads.response.assignment) == (b"f", b"")
    assert waits.response.protocol_name == "range"
    assert state(d) is ClassicGroupState.STABLE


def test_an_assignment_that_cannot_be_stored_starts_the_rebalance_again() -> None:
    d = Driver(NOW_OR_NEVER, hold=True)
    leader = d.join_new()
    d.settle()
    d.advance(0)
    synced = d.sync(leader.response, {leader.response.member_id: b"x"})
    d.settle(E.NOT_COORDINATOR)
    assert synced.error is E.NOT_COORDINATOR
    assert state(d) is ClassicGroupState.PREPARING_REBALANCE
    assert d.heartbeat(leader.response.member_id, 1).error_code == E.REBALANCE_IN_PROGRESS


def test_a_late_record_of_an_abandoned_generation_changes_nothing() -> None:
    d = Driver(NOW_OR_NEVER, hold=True)
    leader = d.join_new()
    d.settle()
    d.advance(0)
    synced = d.sync(leader.response, {leader.response.member_id: b"x"})
    other = d.join_new()
    assert synced.error is E.REBALANCE_IN_PROGRESS
    d.settle()
    assert state(d) is ClassicGroupState.PREPARING_REBALANCE
    assert not answered(other)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"protocol_type": "other", "protocol_name": "range"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "test", "protocol_name": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "test", "protocol_name": "range"}, E.NONE),
    ],
)
def test_sync_checks_the_protocol_that_the_member_believes_in(fields: dict[str, Any], want: ErrorCode) -> None:
    d = Driver()
    (leader,) = d.stable_group()
    assert d.sync(leader, **fields).error is want


def test_sync_of_another_generation_member_or_group_is_refused() -> None:
    d = Driver()
    (leader,) = d.stable_group()
    assert d.sync(replace(leader, generation_id=7)).error is E.ILLEGAL_GENERATION
    assert d.sync(replace(leader, member_id="ghost")).error is E.UNKNOWN_MEMBER_ID
    assert d.sync(leader, group="nowhere").error is E.UNKNOWN_MEMBER_ID
    assert d.sync(leader, group="").error is E.INVALID_GROUP_ID


def test_members_that_never_sync_are_dropped() -> None:
    d = Driver()
    leader, silent = (d.join_new(rebalance_ms=20_000, session_ms=1_000_000) for _ in range(2))
    d.advance(10_000)
    assert answered(silent)
    d.sync(leader.response, {})
    d.advance(20_000)
    assert state(d) is ClassicGroupState.PREPARING_REBALANCE
    assert list(d.shard.image.groups["g"].members) == [leader.response.member_id]


# rebalances


def test_a_new_member_makes_the_others_rejoin() -> None:
    d = Driver()
    (old,) = d.stable_group()
    new = d.join_new()
    assert d.heartbeat(old.member_id, 1).error_code == E.REBALANCE_IN_PROGRESS
    again = d.join(old.member_id)
    assert (again.response.generation_id, new.response.generation_id) == (2, 2)
    assert again.response.leader == old.member_id
    assert [s.assignment for s in d.sync_all([new.response, again.response])] == [
        new.response.member_id.encode(),
        old.member_id.encode(),
    ]


def test_a_member_that_does_not_rejoin_in_time_is_left_behind() -> None:
    d = Driver()
    leader, slow = d.stable_group(2, rebalance_ms=5_000, session_ms=100_000)
    again = d.join(leader.member_id, rebalance_ms=5_000)
    d.advance(4_999)
    assert not answered(again)
    d.advance(1)
    assert again.response.generation_id == 2
    assert error_of(lambda: d.heartbeat(slow.member_id, 1)) is E.UNKNOWN_MEMBER_ID


def test_a_leader_that_stays_away_is_replaced() -> None:
    d = Driver()
    leader, follower = d.stable_group(2, rebalance_ms=5_000, session_ms=100_000)
    again = d.join(follower.member_id, rebalance_ms=5_000, protocols=[("range", b"changed")])
    d.advance(5_000)
    assert again.response.leader == follower.member_id != leader.member_id
    assert [m.member_id for m in again.response.members] == [follower.member_id]


def test_a_follower_that_changed_nothing_gets_the_same_generation_again() -> None:
    d = Driver()
    leader, follower = d.stable_group(2)
    again = d.join(follower.member_id)
    assert (again.response.generation_id, again.response.members) == (1, [])
    assert state(d) is ClassicGroupState.STABLE
    assert not answered(d.join(leader.member_id))
    assert state(d) is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_that_missed_its_join_response_gets_it_again_while_the_leader_assigns() -> None:
    d = Driver()
    leader, follower = d.join_new(), d.join_new()
    d.advance(10_000)
    again = d.join(leader.response.member_id)
    assert len(again.response.members) == 2
    assert again.response.generation_id == follower.response.generation_id
    changed = d.join(follower.response.member_id, protocols=[("range", b"new")])
    assert not answered(changed)
    assert state(d) is ClassicGroupState.PREPARING_REBALANCE


def test_a_join_asked_again_frees_the_one_before() -> None:
    d = Driver()
    leader, _ = d.stable_group(2)
    first = d.join(leader.member_id)
    second = d.join(leader.member_id)
    assert first.error is E.REBALANCE_IN_PROGRESS
    assert not answered(second)


# sessions


def test_a_member_that_stops_sending_heartbeats_is_dropped() -> None:
    d = Driver()
    leader, silent = d.stable_group(2)
    for _ in range(3):
        d.advance(4_000)
        d.heartbeat(leader.member_id, 1)
    assert state(d) is ClassicGroupState.PREPARING_REBALANCE
    assert error_of(lambda: d.heartbeat(silent.member_id, 1)) is E.UNKNOWN_MEMBER_ID
    assert d.join(leader.member_id).response.generation_id == 2


def test_a_group_whose_last_member_is_gone_is_empty_and_that_is_recorded() -> None:
    d = Driver()
    d.stable_group()
    d.advance(10_000)
    assert state(d) is ClassicGroupState.EMPTY
    value = last_group_record(d)
    assert (value.generation, value.members, value.leader, value.protocol) == (2, [], None, None)
    assert value.protocol_type == "test"


def test_a_parked_join_is_a_sign_of_life_but_not_a_new_members_first() -> None:
    d = Driver()
    leader, slow = d.stable_group(2, rebalance_ms=600_000, session_ms=10_000)
    d.heartbeat(slow.member_id, 1)
    again = d.join(leader.member_id, rebalance_ms=600_000)
    new = d.join_new(rebalance_ms=600_000)
    for _ in range(40):
        d.advance(9_000)
        d.heartbeat(slow.member_id, 1)
    assert new.error is E.UNKNOWN_MEMBER_ID  # after 5 minutes: it may be gone, and should ask again
    assert not answered(again)


def test_heartbeats_of_strangers_and_of_the_past_are_refused() -> None:
    d = Driver()
    (leader,) = d.stable_group()
    assert d.heartbeat(leader.member_id, 1).error_code == E.NONE
    assert error_of(lambda: d.heartbeat(leader.member_id, 0)) is E.ILLEGAL_GENERATION
    assert error_of(lambda: d.heartbeat("ghost", 1)) is E.UNKNOWN_MEMBER_ID
    assert error_of(lambda: d.heartbeat(leader.member_id, 1, group="nowhere")) is E.UNKNOWN_MEMBER_ID
    assert error_of(lambda: d.heartbeat(leader.member_id, 1, group="")) is E.INVALID_GROUP_ID


# leaving


def test_leaving_starts_a_rebalance_and_the_last_one_empties_the_group() -> None:
    d = Driver()
    leader, follower = d.stable_group(2)
    assert d.leave(follower.member_id, "ghost").members[1].error_code == E.UNKNOWN_MEMBER_ID
    assert d.heartbeat(leader.member_id, 1).error_code == E.REBALANCE_IN_PROGRESS
    d.leave(leader.member_id)
    assert state(d) is ClassicGroupState.EMPTY
    assert last_group_record(d).generation == 2


def test_leaving_frees_a_parked_join() -> None:
    d = Driver()
    leader, _ = d.stable_group(2)
    parked = d.join(leader.member_id)
    d.leave(leader.member_id)
    assert (parked.error, parked.response.member_id) == (E.UNKNOWN_MEMBER_ID, "")


def test_a_pending_id_can_leave() -> None:
    d = Driver()
    member_id = d.join().response.member_id
    assert d.leave(member_id).members[0].error_code == E.NONE
    assert d.join(member_id).error is E.UNKNOWN_MEMBER_ID


def test_leaving_a_group_that_is_not_there() -> None:
    d = Driver()
    response = d.leave("x", group="nowhere")
    assert [m.error_code for m in response.members] == [E.UNKNOWN_MEMBER_ID]
    assert error_of(lambda: d.leave("x", group="")) is E.INVALID_GROUP_ID


# size


def test_a_full_group_takes_nobody_more() -> None:
    d = Driver(GroupConfig(max_size=2))
    members = d.stable_group(2)
    refused = d.join()
    assert (refused.error, refused.response.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    again = [d.join(m.member_id, protocols=[("range", b"new")]) for m in members]
    assert [a.error for a in again] == [E.NONE, E.NONE]


def test_a_group_loaded_above_its_limit_drops_the_last_to_rejoin() -> None:
    d = Driver()
    members = d.stable_group(3)
    loaded = reloaded(d, GroupConfig(max_size=2))
    assert state(loaded) is ClassicGroupState.PREPARING_REBALANCE
    again = [loaded.join(m.member_id) for m in members]
    assert again[2].error is E.GROUP_MAX_SIZE_REACHED
    loaded.advance(60_000)
    assert [a.error for a in again[:2]] == [E.NONE, E.NONE]


def reloaded(d: Driver, config: GroupConfig | None = None) -> Driver:
    """Give another coordinator that read what the first one wrote."""
    other = Driver(config or d.config)
    other.now_ms = d.now_ms
    other._ids = 1_000
    for offset, record in enumerate(d.records):
        other.shard.replay(record, At(offset, now_ms=other.now.wall_ms))
    other.carry(other.shard.loaded(other.now))
    return other


# another coordinator


def test_a_loaded_group_goes_on_where_it_was() -> None:
    d = Driver()
    leader, follower = d.stable_group(2)
    other = reloaded(d)
    assert other.heartbeat(follower.member_id, 1).error_code == E.NONE
    assert other.sync(follower).response.assignment == follower.member_id.encode()
    other.advance(10_000)
    assert state(other) is ClassicGroupState.EMPTY
    assert error_of(lambda: other.heartbeat(leader.member_id, 1)) is E.UNKNOWN_MEMBER_ID


def test_unloading_sends_everybody_away() -> None:
    d = Driver(NOW_OR_NEVER)
    leader = d.join_new(group="syncing")
    follower = d.join_new(group="syncing")
    d.advance(0)
    syncing = d.sync(follower.response, group="syncing")
    joining = d.join_new(group="joining")
    d.carry(d.shard.unload(d.now))
    assert (syncing.error, joining.error) == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)
    assert leader.error is E.NONE
    assert d.shard.next_deadline_ms() is None


# static members


def test_a_static_member_that_comes_back_keeps_its_place() -> None:
    d = Driver()
    leader, follower = d.stable_group(instances=["a", "b"])
    again = d.join(instance="b")
    assert again.error is E.NONE
    assert again.response.generation_id == 1
    assert again.response.member_id != follower.member_id
    assert again.response.leader == leader.member_id
    assert state(d) is ClassicGroupState.STABLE
    assert d.sync(again.response, instance="b").response.assignment == follower.member_id.encode()
    assert again.response.member_id in [m.member_id for m in last_group_record(d).members]
    fenced = error_of(lambda: d.heartbeat(follower.member_id, 1, instance="b"))
    assert fenced is E.FENCED_INSTANCE_ID
    assert error_of(lambda: d.heartbeat(follower.member_id, 1)) is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_static_leader_that_comes_back_does_not_assign_again(version: int, skips: bool) -> None:
    d = Driver()
    leader, _ = d.stable_group(instances=["a", "b"])
    again = d.join(instance="a", version=version)
    response = again.response
    assert response.skip_assignment is skips
    assert response.leader == (response.member_id if skips else leader.member_id)
    assert len(response.members) == (2 if skips else 0)


def test_a_static_member_that_brings_another_protocol_makes_a_rebalance() -> None:
    d = Driver()
    d.stable_group(instances=["a"], protocols=[("range", b""), ("sticky", b"")])
    again = d.join(instance="a", protocols=[("sticky", b"")])
    assert (again.response.generation_id, again.response.protocol_name) == (2, "sticky")


def test_a_static_member_is_not_dropped_when_it_only_misses_a_rebalance() -> None:
    d = Driver()
    leader, static = d.stable_group(instances=[None, "b"], rebalance_ms=5_000, session_ms=100_000)
    again = d.join(leader.member_id, rebalance_ms=5_000)
    d.advance(5_000)
    assert [m.member_id for m in again.response.members] == [leader.member_id, static.member_id]


def test_two_with_one_instance_id_fence_each_other() -> None:
    d = Driver()
    first = d.join(instance="a")
    second = d.join(instance="a")
    assert first.error is E.FENCED_INSTANCE_ID
    d.advance(6_000)
    assert second.error is E.NONE
    assert d.join("ghost", instance="a").error is E.FENCED_INSTANCE_ID
    assert d.join("ghost", instance="z").error is E.UNKNOWN_MEMBER_ID
    third = d.sync(replace(second.response, member_id="ghost"), instance="a")
    assert third.error is E.FENCED_INSTANCE_ID


def test_a_static_member_that_comes_back_while_the_leader_assigns_starts_again() -> None:
    d = Driver()
    leader, follower = d.join(instance="a"), d.join(instance="b")
    d.advance(10_000)
    waiting = d.sync(follower.response, instance="b")
    again = d.join(instance="b")
    assert waiting.error is E.FENCED_INSTANCE_ID
    assert not answered(again)
    assert state(d) is ClassicGroupState.PREPARING_REBALANCE
    assert leader.error is E.NONE


def test_a_static_member_whose_new_id_cannot_be_stored_stays_under_the_old_one() -> None:
    d = Driver()
    (static,) = d.stable_group(instances=["a"])
    d.hold = True
    again = d.join(instance="a")
    d.settle(E.NOT_COORDINATOR)
    assert again.error is E.NOT_COORDINATOR
    assert d.heartbeat(static.member_id, 1, instance="a").error_code == E.NONE


def test_an_administrator_removes_static_members_by_instance() -> None:
    d = Driver()
    d.stable_group(instances=["a", "b"])
    response = d.leave(
        MemberIdentity(group_instance_id="b"),
        MemberIdentity(group_instance_id="z"),
        MemberIdentity(member_id="ghost", group_instance_id="a"),
    )
    assert [m.error_code for m in response.members] == [E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID]
    assert list(d.shard.image.groups["g"].static_members) == ["a"]
