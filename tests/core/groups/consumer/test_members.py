"""Members of the consumer protocol join, share, revoke, come back and are given up, as with Kafka 4.3."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.config import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    ConsumerGroupConfig,
    GroupConfig,
)
from barnabas.core.groups.consumer.group import ConsumerGroupState
from barnabas.core.groups.consumer.member import MemberState
from barnabas.core.groups.shard import GroupShard
from barnabas.wire.coordinator_records import (
    CoordinatorRecord,
    decode_group_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.records.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from barnabas.wire.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from barnabas.wire.records.consumer_group_current_member_assignment_value import (
    TopicPartitions as CurrentPartitions,
)
from barnabas.wire.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from barnabas.wire.records.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from barnabas.wire.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.wire.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.wire.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.wire.records.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from barnabas.wire.records.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from barnabas.wire.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from barnabas.wire.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.wire.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tests.core.groups.consumer.driving import Consumer, ConsumerDriver

E = ErrorCode
NOW = ConsumerGroupConfig()


def driver(**consumer: Any) -> ConsumerDriver:
    d = ConsumerDriver(GroupConfig(consumer=ConsumerGroupConfig(**consumer)))
    d.cluster.create("t", 6)
    return d


def names(d: ConsumerDriver) -> list[str]:
    return [type(r.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") for r in d.records]


def test_the_first_member_gets_everything_and_the_log_tells_it_in_kafkas_order() -> None:
    d = driver()
    a = Consumer("a", names=["t"])
    response = d.beat(a)
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert len(a.held) == 6
    order = ["MemberMetadata", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata"]
    assert names(d) == [*order, "CurrentMemberAssignment"]
    assert {r.value_version for r in d.records} == {0}
    assert d.group().state is ConsumerGroupState.STABLE
    before = d.shard.image
    quiet = d.beat(a)
    assert quiet.assignment is None
    assert len(d.records) == 5
    assert d.shard.image is before
    assert d.beat(a, full=True).assignment is not None


def test_partitions_change_hands_only_after_they_were_given_up() -> None:
    d = driver()
    a, b = Consumer("a", names=["t"]), Consumer("b", names=["t"])
    d.beat(a)
    d.advance(1_000)
    d.beat(b)
    assert (b.epoch, b.held) == (3, set())
    assert d.group().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert d.group().state is ConsumerGroupState.RECONCILING
    before = a.request()
    a.take(told := d.send(before))
    assert told.member_epoch == 2
    assert len(a.held) == 3
    assert d.group().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    again = d.send(before)  # it has not given up yet: nothing happens
    assert again.assignment is None
    d.beat(b)
    assert not b.held
    d.beat(a)
    assert a.epoch == 3
    d.beat(b)
    assert len(b.held) == 3
    assert not a.held & b.held
    assert d.group().state is ConsumerGroupState.STABLE


def test_a_member_that_never_gives_up_is_fenced_after_its_rebalance_timeout() -> None:
    d = driver(session_timeout_ms=NOW.session_timeout_ms)
    a, b = Consumer("a", names=["t"], rebalance_ms=20_000), Consumer("b", names=["t"])
    d.beat(a)
    d.advance(1_000)
    d.beat(b)
    stuck = a.request()
    for _ in range(4):
        d.send(stuck)
        d.advance(4_900)
        d.beat(b)
    assert "a" in d.group().members
    d.advance(500)
    assert "a" not in d.group().members
    with pytest.raises(ApiError) as e:
        d.send(stuck)
    assert e.value.code is E.UNKNOWN_MEMBER_ID
    d.settle_all(b)
    assert len(b.held) == 6


def test_a_silent_member_is_given_up_after_its_session() -> None:
    d = driver()
    a = Consumer("a", names=["t"])
    d.beat(a)
    d.advance(44_999)
    assert "a" in d.group().members
    d.advance(1)
    assert d.group().is_empty
    assert d.group().epoch == 3
    assert not d.group().partition_epochs


def test_a_lost_answer_is_forgiven_once() -> None:
    d = driver()
    a, b = Consumer("a", names=["t"]), Consumer("b", names=["t"])
    d.beat(a)
    d.settle_all(a, b)
    d.away(b)
    d.advance(1_000)
    lost = a.request()
    d.send(lost)
    assert d.send(lost).member_epoch == d.group().members["a"].epoch > a.epoch
    lost.topic_partitions = None
    with pytest.raises(ApiError) as e:
        d.send(lost)
    assert e.value.code is E.FENCED_MEMBER_EPOCH
    a.epoch += 10
    with pytest.raises(ApiError) as e:
        d.beat(a)
    assert e.value.code is E.FENCED_MEMBER_EPOCH


def test_a_static_member_comes_back_to_what_it_had() -> None:
    d = driver()
    a, b = Consumer("a", names=["t"], instance="i"), Consumer("b", names=["t"])
    d.settle_all(a, b)
    had, epoch = set(a.held), d.group().epoch
    with pytest.raises(ApiError) as e:
        d.beat(Consumer("a2", names=["t"], instance="i"))
    assert e.value.code is E.UNRELEASED_INSTANCE_ID
    assert d.away(a, -2).member_epoch == -2
    d.beat(b)
    assert not b.held & had
    a2 = Consumer("a2", names=["t"], instance="i")
    d.beat(a2)
    assert (a2.held, d.group().epoch) == (had, epoch)
    assert set(d.group().members) == {"a2", "b"}
    a.epoch = epoch
    with pytest.raises(ApiError) as e:
        d.beat(a)
    assert e.value.code is E.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_given_up() -> None:
    d = driver()
    a, b = Consumer("a", names=["t"], instance="i"), Consumer("b", names=["t"])
    d.settle_all(a, b)
    d.away(a, -2)
    for _ in range(10):
        d.advance(5_000)
        d.beat(b)
    assert len(b.held) == 6
    assert not d.group().static_members


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"member_id": ""}, 1, E.INVALID_REQUEST),
        ({"group_id": ""}, 1, E.INVALID_REQUEST),
        ({"instance_id": " "}, 1, E.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, 1, E.INVALID_REQUEST),
        ({"topic_partitions": None}, 1, E.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, 1, E.INVALID_REQUEST),
        ({"member_epoch": -3}, 1, E.INVALID_REQUEST),
        ({"member_epoch": -2}, 1, E.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, 1, E.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 1}, 1, E.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, 1, E.GROUP_ID_NOT_FOUND),
        ({"subscribed_topic_regex": "("}, 1, E.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_what_is_refused(fields: dict[str, Any], version: int, code: ErrorCode) -> None:
    d = driver()
    request = Consumer("a", names=["t"]).request()
    for name, value in fields.items():
        setattr(request, name, value)
    with pytest.raises(ApiError) as e:
        d.send(request, version)
    assert e.value.code is code
    assert not d.records


def test_version_0_gets_an_id() -> None:
    d = driver()
    request = Consumer("", names=["t"]).request()
    assert d.send(request, 0).member_id in d.group().members


def test_the_group_has_room_for_so_many() -> None:
    d = driver(max_size=1)
    a = Consumer("a", names=["t"])
    d.beat(a)
    with pytest.raises(ApiError) as e:
        d.beat(Consumer("b", names=["t"]))
    assert e.value.code is E.GROUP_MAX_SIZE_REACHED
    d.beat(a)


def test_topics_that_grow_come_and_go_begin_a_new_epoch() -> None:
    d = driver()
    a = Consumer("a", names=["t", "later"])
    d.settle_all(a)
    d.cluster.grow("t", 9)
    d.settle_all(a)
    assert len(a.held) == 9
    d.cluster.create("later", 2)
    d.settle_all(a)
    assert len(a.held) == 11
    d.cluster.delete("t")
    d.settle_all(a)
    assert len(a.held) == 2
    written = len(d.records)
    d.cluster.create("unrelated", 2)
    d.settle_all(a)
    assert len(d.records) == written


def test_a_regular_expression_finds_what_its_principal_may_see() -> None:
    d = driver()
    d.cluster.denied = frozenset({"t-secret"})
    d.cluster.create("t-secret", 1)
    a, b = Consumer("a", regex="t.*"), Consumer("b", regex="t.*")
    d.settle_all(a, b)
    assert len(a.held | b.held) == 6
    d.cluster.create("t2", 4)
    d.settle_all(a, b, rounds=20)
    assert len(a.held | b.held) == 10
    assert set(d.group().resolved) == {"t.*"}
    d.away(a)
    b.regex, b.names = "", ["t"]
    d.beat(b, full=True)
    assert not d.group().resolved
    d.settle_all(b)
    assert len(b.held) == 6


def test_a_target_stands_for_the_assignment_interval() -> None:
    d = driver()
    a, b = Consumer("a", names=["t"]), Consumer("b", names=["t"])
    d.beat(a)
    d.advance(999)
    d.beat(b)
    assert d.group().state is ConsumerGroupState.ASSIGNING
    d.advance(1)
    d.beat(b)
    assert d.group().state is ConsumerGroupState.RECONCILING


def test_members_vote_for_the_assignor() -> None:
    d = driver()
    a, b = Consumer("a", names=["t"], assignor="range"), Consumer("b", names=["t"], assignor="range")
    d.settle_all(a, b)
    assert d.group().preferred_assignor("uniform") == "range"
    assert {p for _, p in a.held} == {0, 1, 2}


def test_a_group_sets_its_own_durations_within_the_brokers_bounds() -> None:
    mine = {CONSUMER_SESSION_TIMEOUT_MS: 50_000, CONSUMER_HEARTBEAT_INTERVAL_MS: 99_000}
    d = driver(overrides=lambda group_id: mine if group_id == "g" else {})
    assert d.beat(Consumer("a", names=["t"])).heartbeat_interval_ms == 15_000
    assert d.beat(Consumer("b", group="h", names=["t"])).heartbeat_interval_ms == 5_000
    d.advance(49_999)
    assert not d.group().is_empty
    assert d.group("h").is_empty
    d.advance(1)
    assert d.group().is_empty


def test_records_that_were_refused_leave_the_group_and_its_deadlines_as_they_were() -> None:
    d = driver()
    a = Consumer("a", names=["t"])
    d.beat(a)
    d.advance(44_999)
    d.now_ms += 1
    step = d.shard.tick(d.now)
    assert step is not None
    assert step.records  # never get into the log
    assert "a" in d.group().members
    d.advance(45_000)
    assert d.group().is_empty


def test_replay_gives_the_live_group_and_any_prefix_can_be_loaded() -> None:
    d = driver()
    d.cluster.create("u", 3)
    a, b = Consumer("a", names=["t"], instance="i"), Consumer("b", regex="u|t")
    d.settle_all(a, b)
    d.away(a, -2)
    d.settle_all(a, b)
    d.away(b)
    shard = GroupShard(d.config, d.new_uuid)
    for offset, (record, live) in enumerate(d.log):
        key = encode_coordinator_key(record.key)
        value = None if record.value is None else encode_coordinator_value(record.value, record.value_version)
        read = decode_group_record(key, value)
        assert isinstance(read, CoordinatorRecord)
        assert shard.replay(read, At(offset))
        assert shard.image == live
    assert shard.image == d.shard.image


def test_a_tombstone_for_what_is_not_there_changes_nothing() -> None:
    d = driver()
    a = Consumer("a", regex="t")
    d.beat(a)
    d.away(a)
    d.carry(d.shard.delete_groups(["g"]))
    shard = GroupShard(d.config, d.new_uuid)
    before = shard.image
    for record in d.records:
        if record.value is None:
            shard.replay(record, At(0))
    assert shard.image == before
    assert "g" not in d.shard.image.consumers


def test_the_request_is_for_whom_it_says() -> None:
    d = driver()
    d.beat(Consumer("a", names=["t"]))
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="b", member_epoch=1)
    with pytest.raises(ApiError) as e:
        d.send(request)
    assert e.value.code is E.UNKNOWN_MEMBER_ID


def test_what_older_coordinators_wrote_is_read_and_tidied_up() -> None:
    """Kafka 4.0: topics in a record of their own, no epochs of partitions, no hash, no time of the assignment."""
    d = driver()
    topic_id = d.cluster.topics["t"].topic_id
    who: dict[str, Any] = {"group_id": "g", "member_id": "a"}
    partitions = list(range(6))
    old = [
        (
            ConsumerGroupMemberMetadataKey(**who),
            ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="client",
                client_host="/1.2.3.4",
                subscribed_topic_names=["t"],
                subscribed_topic_regex="",
                rebalance_timeout_ms=30_000,
                server_assignor=None,
                classic_member_metadata=None,
            ),
        ),
        (
            ConsumerGroupPartitionMetadataKey(group_id="g"),
            ConsumerGroupPartitionMetadataValue(topics=[TopicMetadata(topic_id=topic_id, topic_name="t")]),
        ),
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=7)),
        (
            ConsumerGroupTargetAssignmentMemberKey(**who),
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[TopicPartition(topic_id=topic_id, partitions=partitions)]
            ),
        ),
        (
            ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7),
        ),
        (
            ConsumerGroupCurrentMemberAssignmentKey(**who),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=7,
                previous_member_epoch=6,
                state=0,
                assigned_partitions=[CurrentPartitions(topic_id=topic_id, partitions=partitions)],
            ),
        ),
    ]
    for key, value in old:
        assert d.shard.replay(CoordinatorRecord(key, value, 0), At(0))
    everything = {(topic_id, p) for p in partitions}
    a = Consumer("a", names=["t"], epoch=7, held=everything, wanted=everything)
    assert set(d.group().members["a"].assigned[topic_id].values()) == {7}
    d.beat(a)
    assert a.epoch == 8  # the hash is new
    assert len(a.held) == 6
    assert not d.group().has_topics_record
    assert "PartitionMetadata" in names(d)
    written = len(d.records)
    d.beat(a)
    assert len(d.records) == written


def test_an_administrator_removes_members_by_id_or_instance() -> None:
    d = driver()
    a, b = Consumer("a", names=["t"], instance="i"), Consumer("b", regex="t")
    c = Consumer("c", names=["t"])
    d.settle_all(a, b, c)
    epoch = d.group().epoch
    answer = d.leave(
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="b"),
        MemberIdentity(member_id="x"),
        MemberIdentity(member_id="c", group_instance_id="j"),
    )
    codes = [m.error_code for m in answer.members]
    assert codes == [E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    assert set(d.group().members) == {"c"}
    assert d.group().epoch == epoch + 1
    assert not d.group().resolved
    d.settle_all(c)
    assert len(c.held) == 6
