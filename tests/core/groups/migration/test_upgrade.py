"""A member of the consumer protocol joins a classic group: the group is upgraded, as with Kafka 4.3 (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.classic import ClassicGroupState
from barnabas.core.groups.config import ConsumerGroupConfig, GroupConfig, MigrationPolicy
from barnabas.core.groups.consumer.member import MemberState
from barnabas.core.groups.shard import GroupShard
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import encode
from barnabas.wire.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from tests.core.groups.consumer.driving import Consumer
from tests.core.groups.driving import WALL_START_MS
from tests.core.groups.migration.driving import Classic, MigrationDriver, subscription

E = ErrorCode


def config(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **how: Any) -> GroupConfig:
    return GroupConfig(consumer=ConsumerGroupConfig(migration_policy=policy, **how))


def stable(*clients: Classic, policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **how: Any) -> MigrationDriver:
    """Give a shard with a topic of four partitions and a stable classic group of these."""
    d = MigrationDriver(config(policy, **how))
    d.cluster.create("t", 4)
    d.settle_classic(*clients)
    assert d.classic_group().state is ClassicGroupState.STABLE
    assert sorted(p for c in clients for _, p in c.held) == [0, 1, 2, 3]
    return d


def kinds(d: MigrationDriver, since: int) -> list[str]:
    return [
        type(r.key).__name__.removesuffix("Key").removeprefix("ConsumerGroup") + ("" if r.value is not None else "-")
        for r in d.records[since:]
    ]


def refused(d: MigrationDriver, consumer: Consumer) -> ErrorCode:
    with pytest.raises(ApiError) as e:
        d.beat(consumer)
    return e.value.code


def test_the_records_of_an_upgrade_are_kafkas() -> None:
    a, b = Classic(), Classic(instance="i")
    d = stable(a, b)
    since, generation = len(d.records), d.classic_group().generation
    new = Consumer("new", names=["t"])
    d.beat(new)
    assert kinds(d, since) == [
        "GroupMetadata-",
        *["MemberMetadata"] * 2,
        "Metadata",
        *["TargetAssignmentMember"] * 2,
        "TargetAssignmentMetadata",
        *["CurrentMemberAssignment"] * 2,
        # and what a heartbeat of a new member writes
        "MemberMetadata",
        "Metadata",
        *["TargetAssignmentMember"] * 2,
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    upgraded: Any = d.records[since + 3].value
    assert upgraded.epoch == generation
    first_target: Any = d.records[since + 6].value
    assert (first_target.assignment_epoch, first_target.assignment_timestamp) == (generation, 0)
    group = d.group()
    assert (group.epoch, group.assignment_epoch, group.asked.classic_members) == (generation + 1, generation + 1, 2)
    assert group.assignment_ms == WALL_START_MS + d.now_ms
    assert d.shard.image.groups.get("g") is None


def test_members_keep_what_they_had_and_said() -> None:
    a, b = Classic(rebalance_ms=20_000), Classic(instance="i")
    d = stable(a, b)
    generation = d.classic_group().generation
    d.beat(Consumer("new", names=["t"]))
    for client in (a, b):
        member = d.group().members[client.member_id]
        assert (member.epoch, member.previous_epoch, member.state) == (generation, generation, MemberState.STABLE)
        assert d.places({(t, p) for t, mine in member.assigned.items() for p in mine}) == client.held
        assert {since for mine in member.assigned.values() for since in mine.values()} == {generation}
        assert (member.names, member.regex, member.rebalance_timeout_ms) == (frozenset({"t"}), "", client.rebalance_ms)
        assert (member.client_id, member.client_host) == ("c", "/1.2.3.4")
        assert member.classic is not None
        assert member.classic.session_timeout_ms == client.session_ms
        assert [name for name, _ in member.classic.protocols] == ["range", "roundrobin"]
    assert dict(d.group().static_members) == {"i": b.member_id}


@pytest.mark.parametrize(
    ("policy", "opens"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True),
        (MigrationPolicy.UPGRADE, True),
        (MigrationPolicy.DOWNGRADE, False),
        (MigrationPolicy.DISABLED, False),
    ],
)
def test_the_policy_decides(policy: MigrationPolicy, opens: bool) -> None:
    a = Classic()
    d = stable(a, policy=policy)
    new = Consumer("new", names=["t"])
    if opens:
        d.beat(new)
    else:
        assert refused(d, new) is E.GROUP_ID_NOT_FOUND
    assert d.is_consumer_group() is opens


def test_groups_that_are_not_of_consumers_or_too_large_stay() -> None:
    d = stable(Classic(), Classic(), max_size=1)
    assert refused(d, Consumer("new", names=["t"])) is E.GROUP_ID_NOT_FOUND
    d.join_new(group="connect", protocol_type="connect")
    d.advance(3_000)
    assert refused(d, Consumer("new", group="connect", names=["t"])) is E.GROUP_ID_NOT_FOUND


def test_only_one_who_joins_upgrades() -> None:
    d = stable(Classic())
    assert refused(d, Consumer("new", names=["t"], epoch=3)) is E.GROUP_ID_NOT_FOUND
    assert not d.is_consumer_group()


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x01\x00\x00\x00\x05"], ids=str)
def test_members_that_cannot_be_read_keep_the_group_as_it_is(metadata: bytes) -> None:
    d = MigrationDriver(config())
    d.cluster.create("t", 1)
    joined = d.stable_group(protocol_type="consumer", protocols=[("range", metadata)])
    assert refused(d, Consumer("new", names=["t"])) is E.GROUP_ID_NOT_FOUND
    assert d.heartbeat(joined[0].member_id, joined[0].generation_id).error_code == E.NONE


def assignment_with(user_data: bytes) -> bytes:
    return b"\x00\x01" + encode(ConsumerProtocolAssignment(user_data=user_data), 1)


@pytest.mark.parametrize(("user_data", "opens"), [(b"mine", False), (b"", True)])
def test_an_assignor_that_keeps_data_of_its_own_keeps_the_group_as_it_is(user_data: bytes, opens: bool) -> None:
    d = MigrationDriver(config())
    d.cluster.create("t", 1)
    how: dict[str, Any] = {"protocol_type": "consumer", "protocols": [("mine", subscription(["t"]))]}
    parked = d.join_new(**how)
    d.advance(3_000)
    d.sync(parked.response, {parked.response.member_id: assignment_with(user_data)})
    new = Consumer("new", names=["t"])
    if opens:
        d.beat(new)
    else:
        assert refused(d, new) is E.GROUP_ID_NOT_FOUND


def test_who_waits_in_the_join_phase_is_told_to_join_again() -> None:
    a, b = Classic(), Classic()
    d = stable(a, b)
    third = Classic()
    for _ in range(3):
        d.move(third)
    assert third.joining is not None
    assert third.joining.response is None
    new = Consumer("new", names=["t"])
    d.beat(new)
    assert third.joining.error is E.REBALANCE_IN_PROGRESS
    for _ in range(12):
        d.advance(1_000)
        d.beat(new)
        for one in (a, b, third):
            d.move(one)
    held = [c.held for c in (a, b, third)] + [d.places(new.held)]
    assert sorted(p for one in held for _, p in one) == [0, 1, 2, 3]
    assert all(held)


def test_who_waits_for_an_assignment_is_told_to_join_again() -> None:
    d = MigrationDriver(config())
    d.cluster.create("t", 2)
    how: dict[str, Any] = {"protocol_type": "consumer", "protocols": [("range", subscription(["t"]))]}
    parked = [d.join_new(**how), d.join_new(**how)]
    d.advance(6_000)
    follower = next(p.response for p in parked if p.response.leader != p.response.member_id)
    syncing = d.sync(follower)
    assert syncing.response is None
    d.beat(Consumer("new", names=["t"]))
    assert syncing.error is E.REBALANCE_IN_PROGRESS


def test_a_group_in_its_first_join_phase_is_upgraded_too() -> None:
    """Kafka fails in a way that it did not expect (UNKNOWN_SERVER_ERROR), and the consumer with it."""
    d = MigrationDriver(config())
    d.cluster.create("t", 2)
    a = Classic()
    for _ in range(3):
        d.move(a)
    new = Consumer("new", names=["t"])
    d.beat(new)
    for _ in range(8):
        d.advance(1_000)
        d.beat(new)
        d.move(a)
    assert sorted(p for _, p in a.held | d.places(new.held)) == [0, 1]
    assert d.group().members[a.member_id].epoch == d.group().epoch == 1


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    a, b = Classic(), Classic(instance="i")
    d = stable(a, b)
    had = set(b.held)
    new = Consumer("new", names=["t"], instance="i")
    d.beat(new)
    assert set(d.group().members) == {a.member_id, "new"}
    assert d.places(new.held) == had
    d.beat(new)
    d.move(a)
    assert a.settled
    answer = d.heartbeat  # the old process is fenced
    with pytest.raises(ApiError) as e:
        answer(b.member_id, b.generation, instance="i")
    assert e.value.code is E.FENCED_INSTANCE_ID


def test_what_the_last_leader_left_out_is_assigned_whoever_upgrades() -> None:
    a, b = Classic(), Classic(instance="i")
    d = stable(a, b)
    d.cluster.grow("t", 6)
    new = Consumer("new", names=["t"], instance="i")
    for _ in range(12):
        d.advance(1_000)
        d.beat(new)
        d.move(a)
    assert sorted(p for _, p in a.held | d.places(new.held)) == [0, 1, 2, 3, 4, 5]


def test_an_upgrade_that_is_not_stored_leaves_the_classic_group_to_live_on() -> None:
    a = Classic()
    d = stable(a)
    before = d.shard.image
    new = Consumer("new", names=["t"])
    step = d.shard.consumer_heartbeat(new.request(), 1, "client", "/1.2.3.4", d.now, d.cluster.world())
    assert step.records  # never get into the log
    assert d.shard.image is before
    for _ in range(30):
        d.advance(1_000)
        d.move(a)
    assert a.settled
    d.advance(a.session_ms)
    assert d.classic_group().state is not ClassicGroupState.STABLE


def test_replay_of_an_upgrade_gives_the_live_group() -> None:
    a, b = Classic(), Classic(instance="i")
    d = stable(a, b)
    since = len(d.log)
    d.beat(Consumer("new", names=["t"]))
    shard = GroupShard(d.config, d.new_uuid)
    for offset, (record, live) in enumerate(d.log):
        shard.replay(record, At(offset))
        if offset >= since:
            assert shard.image.consumers == live.consumers
    assert shard.image.consumers == d.shard.image.consumers
    assert "g" not in shard.image.groups


def test_members_are_expected_as_long_as_they_said() -> None:
    a, b = Classic(session_ms=7_000), Classic(session_ms=20_000)
    d = stable(a, b)
    new = Consumer("new", names=["t"])
    d.beat(new)
    d.advance(6_999)
    assert set(d.group().members) == {a.member_id, b.member_id, "new"}
    d.advance(1)
    assert set(d.group().members) == {b.member_id, "new"}
    d.advance(13_000)
    assert set(d.group().members) == {"new"}
