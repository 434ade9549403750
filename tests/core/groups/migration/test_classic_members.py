"""Members of the classic protocol inside of a consumer group, as with Kafka 4.3 (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.config import ConsumerGroupConfig, GroupConfig, MigrationPolicy
from barnabas.core.groups.consumer.member import MemberState
from barnabas.core.groups.embedded import read_assignment
from barnabas.core.groups.shard import GroupShard
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.core.groups.consumer.driving import Consumer
from tests.core.groups.driving import Parked
from tests.core.groups.migration.driving import Classic, MigrationDriver, subscription

E = ErrorCode


def driver(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **how: Any) -> tuple[MigrationDriver, Consumer]:
    """Give a shard with a consumer group of one member that has the four partitions of a topic."""
    d = MigrationDriver(GroupConfig(consumer=ConsumerGroupConfig(migration_policy=policy, **how)))
    d.cluster.create("t", 4)
    first = Consumer("first", names=["t"])
    d.beat(first)
    d.advance(1_000)
    return d, first


def joins(d: MigrationDriver, member_id: str = "", **how: Any) -> Parked:
    how.setdefault("protocols", [("range", subscription(["t"]))])
    return d.join(member_id, protocol_type="consumer", **how)


def joined(d: MigrationDriver, **how: Any) -> JoinGroupResponse:
    first = joins(d, **how)
    assert first.error is E.MEMBER_ID_REQUIRED
    again = joins(d, first.response.member_id, **how)
    assert again.error is E.NONE
    response: JoinGroupResponse = again.response
    return response


def error_of(call: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.code


def answered(parked: Parked) -> bool:
    return parked.response is not None


def partitions(assignment: bytes) -> list[int]:
    return sorted(p for mine in read_assignment(assignment).partitions.values() for p in mine)


def test_a_join_is_answered_at_once_with_the_epoch_as_generation() -> None:
    d, first = driver()
    answer = joined(d)
    assert (answer.generation_id, answer.protocol_type, answer.protocol_name) == (3, "consumer", "range")
    assert (answer.leader, answer.members, answer.skip_assignment) == ("", [], False)
    member = d.group().members[answer.member_id]
    assert (member.epoch, member.state) == (3, MemberState.UNRELEASED_PARTITIONS)
    synced = d.sync(answer, protocol_type="consumer", protocol_name="range")
    assert partitions(synced.response.assignment) == []
    assert (synced.response.protocol_type, synced.response.protocol_name) == ("consumer", "range")
    # the first member gives two up: they are free, and the classic one is told to come for them
    assert d.heartbeat(answer.member_id, 3).error_code == E.NONE
    d.beat(first)
    d.beat(first)
    assert d.heartbeat(answer.member_id, 3).error_code == E.REBALANCE_IN_PROGRESS
    again = joins(d, answer.member_id).response
    assert again.generation_id == 3
    assert partitions(d.sync(again).response.assignment) == [p for p in range(4) if p not in {p for _, p in first.held}]
    assert d.heartbeat(answer.member_id, 3).error_code == E.NONE


def test_a_static_member_needs_no_second_join() -> None:
    d, _ = driver()
    assert joins(d, instance="i").error is E.NONE
    assert joins(d, version=3).error is E.NONE


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": [("other", subscription(["t"]))]}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "i", "member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"instance": "s", "member_id": "ghost"}, E.FENCED_INSTANCE_ID),
        ({"instance": "i", "protocols": [("range", b"")]}, E.UNKNOWN_SERVER_ERROR),
        ({"session_ms": 1}, E.INVALID_SESSION_TIMEOUT),
        ({}, E.MEMBER_ID_REQUIRED),
    ],
    ids=str,
)
def test_who_may_join(how: dict[str, Any], want: ErrorCode) -> None:
    d, _ = driver()
    assert joins(d, instance="s").error is E.NONE
    said: dict[str, Any] = {"protocol_type": "consumer", "protocols": [("range", subscription(["t"]))], **how}
    before = len(d.records)
    assert d.join(**said).error is want
    assert len(d.records) == before


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_only_the_policy_disabled_keeps_classic_members_out(policy: MigrationPolicy) -> None:
    d, _ = driver(policy)
    want = E.INCONSISTENT_GROUP_PROTOCOL if policy is MigrationPolicy.DISABLED else E.NONE
    assert joins(d, instance="i").error is want


def test_a_full_group_takes_nobody() -> None:
    d, _ = driver(max_size=1)
    assert joins(d).error is E.GROUP_MAX_SIZE_REACHED


def test_syncs_and_heartbeats_of_others_are_refused() -> None:
    d, first = driver()
    static = joins(d, instance="i").response
    one = joined(d)
    for member_id, generation, instance, want in (
        ("ghost", 2, None, E.UNKNOWN_MEMBER_ID),
        (first.member_id, 3, None, E.UNKNOWN_MEMBER_ID),
        (one.member_id, one.generation_id + 1, None, E.ILLEGAL_GENERATION),
        (one.member_id, one.generation_id, "i", E.FENCED_INSTANCE_ID),
        (one.member_id, one.generation_id, "j", E.UNKNOWN_MEMBER_ID),
    ):
        assert error_of(lambda m=member_id, g=generation, i=instance: d.heartbeat(m, g, instance=i)) is want
        said = JoinGroupResponse(member_id=member_id, generation_id=generation)
        assert d.sync(said, instance=instance).error is want
    assert d.sync(static, instance="i", protocol_name="sticky").error is E.INCONSISTENT_GROUP_PROTOCOL
    assert d.sync(static, instance="i", protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_new_target_asks_for_a_join_in_time() -> None:
    d, first = driver()
    one = joined(d, rebalance_ms=5_000)
    d.sync(one)
    d.cluster.grow("t", 6)
    d.advance(1_000)
    d.beat(first)
    assert d.group().assignment_epoch == 4
    assert d.sync(one).error is E.REBALANCE_IN_PROGRESS
    d.advance(2_000)
    assert d.heartbeat(one.member_id, 3).error_code == E.REBALANCE_IN_PROGRESS  # the time runs from the first word
    d.advance(2_999)
    assert one.member_id in d.group().members
    d.advance(1)
    assert one.member_id not in d.group().members


def test_a_join_without_a_sync_is_given_up() -> None:
    d, first = driver()
    one = joined(d, rebalance_ms=5_000)
    d.advance(4_000)
    d.heartbeat(one.member_id, 3)
    d.advance(1_000)
    assert one.member_id not in d.group().members
    assert set(d.group().members) == {first.member_id}


def test_a_join_ends_the_wait_for_it_and_a_sync_the_next() -> None:
    d, first = driver()
    one = joined(d, rebalance_ms=5_000)
    d.sync(one)
    d.cluster.grow("t", 6)
    d.advance(1_000)
    d.beat(first)
    d.heartbeat(one.member_id, 3)
    d.advance(4_000)
    d.sync(joins(d, one.member_id, rebalance_ms=5_000).response)
    d.advance(9_999)
    assert one.member_id in d.group().members
    d.advance(1)  # its session
    assert one.member_id not in d.group().members


def test_a_cooperative_member_gives_up_what_it_says_that_it_owns() -> None:
    d, first = driver()
    a = Classic(cooperative=True)
    for _ in range(12):
        d.advance(1_000)
        d.beat(first)
        d.move(a)
    assert len(a.held) == 2
    others = [first, Consumer("second", names=["t"]), Consumer("third", names=["t"])]
    for _ in range(2):
        d.advance(1_000)
        for consumer in others:
            d.beat(consumer)
    d.move(a)  # is told to join
    d.move(a)  # joins, with what it owns
    member = d.group().members[a.member_id]
    taken = d.places({(t, p) for t, mine in member.pending_revocation.items() for p in mine})
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert len(taken) == 1
    assert taken < a.held
    d.move(a)
    d.move(a)  # fetches what is left to it
    assert a.held.isdisjoint(taken)
    assert a.owed
    for _ in range(12):
        d.advance(1_000)
        for consumer in others:
            d.beat(consumer)
        d.move(a)
    assert sorted(p for _, p in a.held | set().union(*(d.places(c.held) for c in others))) == [0, 1, 2, 3]


def test_a_static_member_comes_back_under_another_id() -> None:
    d, _ = driver()
    old = joins(d, instance="i").response
    d.sync(old, instance="i")
    new = joins(d, instance="i").response
    assert new.member_id != old.member_id
    assert set(d.group().members) == {"first", new.member_id}
    assert error_of(lambda: d.heartbeat(old.member_id, old.generation_id, instance="i")) is E.FENCED_INSTANCE_ID


def test_leaving_is_for_both_kinds() -> None:
    d, _ = driver()
    one, two = joined(d), joins(d, instance="i").response
    answer = d.leave(MemberIdentity(member_id=one.member_id), MemberIdentity(member_id="", group_instance_id="i"))
    assert [m.error_code for m in answer.members] == [E.NONE, E.NONE]
    assert two.member_id not in d.group().members
    assert set(d.group().members) == {"first"}


def test_answers_wait_until_the_records_are_committed() -> None:
    d, _ = driver()
    d.hold = True
    parked = joins(d, instance="i")
    assert not answered(parked)
    d.settle()
    syncing = d.sync(parked.response, instance="i")
    assert not answered(syncing)
    d.settle(E.NOT_COORDINATOR)
    assert syncing.error is E.NOT_COORDINATOR
    parked = joins(d, instance="j")
    d.settle(E.COORDINATOR_NOT_AVAILABLE)
    assert parked.error is E.COORDINATOR_NOT_AVAILABLE


def test_offsets_are_committed_in_the_generation() -> None:
    d, first = driver()
    d.beat(first)
    one = joined(d)
    d.beat(first)
    d.beat(first)
    d.sync(joins(d, one.member_id).response)
    mine = min(p for _, p in d_owned(d, one.member_id))

    def commits(generation: int, version: int) -> Any:
        place = OffsetCommitRequestPartition(partition_index=mine, committed_offset=7)
        topic = OffsetCommitRequestTopic(name="t", topic_id=d.cluster.topics["t"].topic_id, partitions=[place])
        request = OffsetCommitRequest(
            group_id="g", member_id=one.member_id, generation_id_or_member_epoch=generation, topics=[topic]
        )
        return d.carry(d.shard.commit_offsets(request, version, d.now))

    commits(3, 8)  # a classic member may use an old version
    assert error_of(lambda: commits(4, 8)) is E.ILLEGAL_GENERATION


def d_owned(d: MigrationDriver, member_id: str) -> set[tuple[Any, int]]:
    return {(t, p) for t, mine in d.group().members[member_id].assigned.items() for p in mine}


def test_a_group_of_classic_members_alone_sees_new_partitions() -> None:
    d, first = driver(MigrationPolicy.UPGRADE)
    a = Classic()
    d.settle_classic(a)
    d.away(first)
    d.settle_classic(a)
    assert len(a.held) == 4
    d.cluster.grow("t", 6)
    d.settle_classic(a)
    assert len(a.held) == 6
    assert d.is_consumer_group()


def test_before_anybody_told_of_topics_a_classic_member_waits() -> None:
    d, _ = driver()
    one = joined(d)
    d.sync(one)
    log = list(d.log)
    d.shard = GroupShard(d.config, d.new_uuid)  # another coordinator, that is told nothing
    for record, _ in log:
        d.shard.replay(record, At(0))
    d.carry(d.shard.loaded(d.now))
    assert joins(d, instance="i").error is E.COORDINATOR_LOAD_IN_PROGRESS
    assert d.sync(one).error is E.COORDINATOR_LOAD_IN_PROGRESS
    assert d.heartbeat(one.member_id, one.generation_id).error_code == E.NONE
    d.beat(Consumer("other", names=["t"]))
    assert joins(d, instance="i").error is E.NONE
