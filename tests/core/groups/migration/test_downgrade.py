"""The last member of the consumer protocol goes: a group of classic members is downgraded, as with Kafka 4.3."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.classic import ClassicGroupState
from barnabas.core.groups.config import ConsumerGroupConfig, GroupConfig, MigrationPolicy
from barnabas.core.groups.embedded import read_assignment
from barnabas.core.groups.shard import GroupShard
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.records.group_metadata_value import GroupMetadataValue
from tests.core.groups.consumer.driving import Consumer
from tests.core.groups.migration.driving import Classic, MigrationDriver, subscription
from tests.core.groups.migration.test_upgrade import kinds

E = ErrorCode
BOTH = MigrationPolicy.BIDIRECTIONAL


class Mixed(MigrationDriver):
    """A consumer group of one member of each protocol, settled, over four partitions."""

    def __init__(self, policy: MigrationPolicy = BOTH, *, instance: str | None = None, **how: Any) -> None:
        super().__init__(GroupConfig(consumer=ConsumerGroupConfig(migration_policy=policy), **how))
        self.cluster.create("t", 4)
        self.new = Consumer("new", names=["t"], instance=instance)
        self.old = Classic()
        self.beat(self.new)
        self.rest(self.new, self.old)
        assert len(self.new.held) == len(self.old.held) == 2

    def rest(self, *clients: Any) -> None:
        for _ in range(12):
            self.advance(1_000)
            for one in clients:
                self.move(one) if isinstance(one, Classic) else self.beat(one)


def test_the_records_of_a_downgrade_are_kafkas() -> None:
    d = Mixed()
    since, epoch = len(d.records), d.group().epoch
    d.away(d.new)
    assert kinds(d, since) == [
        *["CurrentMemberAssignment-"] * 2,
        *["TargetAssignmentMember-"] * 2,
        "TargetAssignmentMetadata-",
        *["MemberMetadata-"] * 2,
        "PartitionMetadata-",
        "Metadata-",
        "GroupMetadata",
    ]
    value = d.records[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol_type, value.protocol) == (epoch, "consumer", "range")
    assert value.leader == d.old.member_id
    (member,) = value.members
    assert (member.session_timeout, member.rebalance_timeout) == (d.old.session_ms, d.old.rebalance_ms)
    assert member.subscription == subscription(["t"])
    assert {(t, p) for t, ps in read_assignment(member.assignment).partitions.items() for p in ps} == d.old.held


def leaves(d: Mixed) -> None:
    d.away(d.new)


def is_removed(d: Mixed) -> None:
    answer = d.leave(MemberIdentity(member_id=d.new.member_id))
    assert answer.members[0].error_code == E.NONE


def expires(d: Mixed) -> None:
    for _ in range(50):
        d.advance(1_000)
        d.move(d.old)


@pytest.mark.parametrize("goes", [leaves, is_removed, expires])
def test_when_the_last_of_the_consumer_protocol_goes(goes: Any) -> None:
    d = Mixed()
    epoch = d.group().epoch
    goes(d)
    assert not d.is_consumer_group()
    for _ in range(6):
        d.advance(1_000)
        d.move(d.old)
    assert d.classic_group().state is ClassicGroupState.STABLE
    assert d.classic_group().generation == epoch + 1
    assert len(d.old.held) == 4


def test_the_members_left_are_told_to_join_again() -> None:
    d = Mixed()
    d.away(d.new)
    assert d.classic_group().state is ClassicGroupState.PREPARING_REBALANCE
    assert d.heartbeat(d.old.member_id, d.old.generation).error_code == E.REBALANCE_IN_PROGRESS
    d.advance(d.old.rebalance_ms + d.old.session_ms)
    assert not d.classic_group().members


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE, MigrationPolicy.DOWNGRADE])
def test_the_policy_decides(policy: MigrationPolicy) -> None:
    d = Mixed(policy)
    d.away(d.new)
    assert d.is_consumer_group() is (policy is MigrationPolicy.UPGRADE)
    d.rest(d.old)
    assert len(d.old.held) == 4


def test_a_group_that_is_too_large_for_the_classic_protocol_stays() -> None:
    d = Mixed(max_size=1)
    third = Classic()
    d.rest(d.new, d.old, third)
    d.away(d.new)
    assert d.is_consumer_group()
    d.away_as(third)  # now it fits
    assert not d.is_consumer_group()


def test_nobody_left_is_an_empty_consumer_group() -> None:
    d = Mixed()
    d.leave(MemberIdentity(member_id=d.new.member_id), MemberIdentity(member_id=d.old.member_id))
    assert d.group().is_empty


def test_a_static_member_that_is_away_for_a_while_still_counts() -> None:
    d = Mixed(instance="i")
    d.away(d.new, -2)
    assert d.is_consumer_group()


def test_a_static_member_that_comes_back_as_a_classic_one_downgrades_without_a_rebalance() -> None:
    d = Mixed(instance="i")
    epoch, had = d.group().epoch, d.places(d.new.held)
    since = len(d.records)
    again = Classic(instance="i")
    d.move(again)
    assert kinds(d, since) == [
        *["CurrentMemberAssignment-", "TargetAssignmentMember-", "MemberMetadata-"],
        *["MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment"],
        *["MemberMetadata", "CurrentMemberAssignment"],
        *["CurrentMemberAssignment-"] * 2,
        *["TargetAssignmentMember-"] * 2,
        "TargetAssignmentMetadata-",
        *["MemberMetadata-"] * 2,
        "PartitionMetadata-",
        "Metadata-",
        "GroupMetadata",
    ]
    assert d.classic_group().state is ClassicGroupState.STABLE
    assert d.classic_group().generation == epoch
    d.move(again)
    d.move(again)
    assert (again.generation, again.held) == (epoch, had)
    d.move(d.old)
    assert d.old.settled


def test_one_that_comes_back_with_other_topics_downgrades_with_a_rebalance() -> None:
    d = Mixed(instance="i")
    d.cluster.create("u", 2)
    again = Classic(instance="i", topics=["u"])
    d.move(again)
    assert d.classic_group().state is ClassicGroupState.PREPARING_REBALANCE
    d.rest(again, d.old)
    assert (len(again.held), len(d.old.held)) == (2, 4)


def test_a_downgrade_that_is_not_stored_leaves_the_consumer_group() -> None:
    d = Mixed()
    third = Classic()
    d.rest(d.new, d.old, third)
    before, epoch, held = d.shard.image, d.new.epoch, set(d.new.held)
    d.hold = True
    d.away(d.new)
    joining = d.join(
        d.old.member_id, protocol_type="consumer", protocols=d.old.protocols, rebalance_ms=d.old.rebalance_ms
    )
    d.shard.image = before  # its records did not get into the log
    d.settle(E.NOT_COORDINATOR)
    assert joining.error is E.NOT_COORDINATOR
    d.hold = False
    assert d.is_consumer_group()
    d.new.epoch, d.new.held, d.new.wanted = epoch, held, held
    d.rest(d.new, d.old, third)
    assert len(d.new.held) + len(d.old.held) + len(third.held) == 4


def silent(d: Mixed) -> None:
    """Let the consumer be silent for so long that the group is downgraded, which is not stored."""
    d.hold, before = True, d.shard.image
    while d.is_consumer_group():
        d.beat_as(d.old)
        d.advance(1_000)
    d.shard.image = before


def test_whose_time_is_over_goes_without_a_downgrade_that_the_log_never_takes() -> None:
    d = Mixed()
    silent(d)
    d.settle(E.UNKNOWN_SERVER_ERROR)
    assert list(d.group().members) == [d.old.member_id]
    d.hold = False
    d.rest(d.old)
    d.rest(d.old)
    assert d.is_consumer_group()
    assert len(d.old.held) == 4


def test_whose_time_is_over_stays_when_the_log_takes_nothing_for_now_and_is_given_up_later() -> None:
    d = Mixed()
    silent(d)
    d.settle(E.COORDINATOR_NOT_AVAILABLE)
    assert d.new.member_id in d.group().members
    d.hold = False
    while d.is_consumer_group():
        d.beat_as(d.old)
        d.advance(1_000)
    assert list(d.classic_group().members) == [d.old.member_id]


def test_replay_of_a_downgrade_gives_a_stable_group_of_the_same_members() -> None:
    d = Mixed()
    d.away(d.new)
    shard = GroupShard(d.config, d.new_uuid)
    for offset, (record, _) in enumerate(d.log):
        shard.replay(record, At(offset))
    assert not shard.image.consumers
    (group, live) = (shard.image.groups["g"], d.classic_group())
    assert group.state is ClassicGroupState.STABLE
    assert (group.generation, group.protocol, group.leader) == (live.generation, live.protocol, live.leader)
    assert {m: one.assignment for m, one in group.members.items()} == {
        m: one.assignment for m, one in live.members.items()
    }
    assert group.subscribed_topics == live.subscribed_topics == frozenset({"t"})


def test_what_a_member_still_holds_is_not_given_to_another_when_the_group_is_upgraded_again_at_once() -> None:
    d = Mixed()
    d.away(d.new)
    d.rest(d.old)
    assert len(d.old.held) == 4
    d.new = Consumer("second", names=["t"])
    d.beat(d.new)
    assert len(d.group().target[d.old.member_id]) == 1
    d.away(d.new)
    last = Consumer("third", names=["t"])
    d.beat(last)
    assert not last.held
    d.rest(last, d.old)
    d.rest(last, d.old)
    assert len(last.held) == len(d.old.held) == 2


def test_up_and_down_and_up_again() -> None:
    d = Mixed()
    for n in range(3):
        d.away(d.new)
        d.rest(d.old)
        assert len(d.old.held) == 4
        d.new = Consumer(f"new-{n}", names=["t"])
        d.rest(d.new, d.old)
        assert len(d.new.held) == len(d.old.held) == 2
        assert d.is_consumer_group()
