"""Committed offsets: who may commit, what is fetched, deleted and expired, and the bytes in the log."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.groups import offset_requests
from barnabas.core.groups.config import GroupConfig
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.coordinator_records import CoordinatorRecord, encode_coordinator_key, encode_coordinator_value
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import encode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.records.offset_commit_key import OffsetCommitKey
from barnabas.wire.records.offset_commit_value import OffsetCommitValue
from tests.core.groups.driving import Driver

E = ErrorCode
DAY_MS = 24 * 60 * 60_000
SHORT = GroupConfig(offsets_retention_ms=100_000, offsets_retention_check_interval_ms=1_000)
TOPIC_ID, OTHER_ID = Uuid(b"t" * 16), Uuid(b"u" * 16)


def fetched(d: Driver, group: str = "g") -> dict[tuple[str, int], int]:
    request = OffsetFetchRequestGroup(group_id=group, topics=None)
    response = offset_requests.fetch(d.shard.image, request, require_stable=False)
    return {(t.name, p.partition_index): p.committed_offset for t in response.topics for p in t.partitions}


def fetch_one(d: Driver, topic_id: Uuid = ZERO_UUID, **how: Any) -> Any:
    topics = [OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0])]
    request = OffsetFetchRequestGroup(group_id="g", topics=topics)
    how.setdefault("require_stable", False)
    return offset_requests.fetch(d.shard.image, request, **how).topics[0].partitions[0]


def error_of(call: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.code


def subscribed_to(*topics: str) -> list[tuple[str, bytes]]:
    return [("range", b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=list(topics)), 1))]


def delete(d: Driver, *topics: str, group: str = "g") -> dict[str, ErrorCode]:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition()]) for t in topics],
    )
    response = d.carry(d.shard.delete_offsets(request))
    return {t.name: ErrorCode(t.partitions[0].error_code) for t in response.topics}


# committing


def test_a_consumer_without_a_group_commits_and_a_simple_group_comes_to_be() -> None:
    d = Driver()
    response = d.commit({("t", 0): 5, ("t", 1): 6})
    assert [p.error_code for t in response.topics for p in t.partitions] == [E.NONE, E.NONE]
    assert fetched(d) == {("t", 0): 5, ("t", 1): 6}
    group = d.shard.image.groups["g"]
    assert (group.protocol_type, group.members, group.generation) == (None, {}, 0)


def test_members_commit_with_their_generation_only() -> None:
    d = Driver()
    (member,) = d.stable_group(instances=["i"])
    who: dict[str, Any] = {"member_id": member.member_id, "generation": 1}
    d.commit({("t", 0): 1}, **who)
    assert fetched(d) == {("t", 0): 1}
    assert error_of(lambda: d.commit({("t", 0): 2}, member_id=member.member_id, generation=2)) is E.ILLEGAL_GENERATION
    assert error_of(lambda: d.commit({("t", 0): 2}, member_id="ghost", generation=1)) is E.UNKNOWN_MEMBER_ID
    assert error_of(lambda: d.commit({("t", 0): 2})) is E.UNKNOWN_MEMBER_ID
    fenced = error_of(lambda: d.commit({("t", 0): 2}, member_id="ghost", generation=1, instance="i"))
    assert fenced is E.FENCED_INSTANCE_ID


@pytest.mark.parametrize(("version", "want"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_no_group_is_refused(version: int, want: ErrorCode) -> None:
    assert error_of(lambda: Driver().commit({("t", 0): 1}, generation=3, version=version)) is want


def test_nobody_commits_while_the_leader_assigns_but_all_may_before_that() -> None:
    d = Driver()
    (member,) = d.stable_group()
    who: dict[str, Any] = {"member_id": member.member_id, "generation": 1}
    d.join_new()
    d.commit({("t", 0): 1}, **who)  # the join phase: the old generation may finish
    d.join(member.member_id)
    again: dict[str, Any] = {"member_id": member.member_id, "generation": 2}
    assert error_of(lambda: d.commit({("t", 0): 2}, **again)) is E.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    d = Driver()
    (member,) = d.stable_group(session_ms=10_000)
    for n in range(5):
        d.advance(9_000)
        d.commit({("t", 0): n}, member_id=member.member_id, generation=1)
    assert d.heartbeat(member.member_id, 1).error_code == E.NONE


def test_metadata_has_a_limit_counted_as_java_counts() -> None:
    d = Driver(GroupConfig(offset_metadata_max_bytes=4))

    def code(metadata: str) -> int:
        return int(d.commit({("t", 0): 1}, metadata=metadata).topics[0].partitions[0].error_code)

    assert (code("abcd"), code("äöüß")) == (E.NONE, E.NONE)
    assert (code("abcde"), code("\N{PARTY POPPER}" * 3)) == (E.OFFSET_METADATA_TOO_LARGE,) * 2


def test_the_record_is_byte_for_byte_what_kafka_writes() -> None:
    d = Driver()
    partition = OffsetCommitRequestPartition(
        partition_index=3, committed_offset=42, committed_leader_epoch=7, committed_metadata="note"
    )
    topic = OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])
    d.carry(d.shard.commit_offsets(OffsetCommitRequest(group_id="g", topics=[topic]), 10, d.now))
    record = d.records[-1]
    assert encode_coordinator_key(record.key).hex() == "000100016700017400000003"
    assert record.value is not None
    value = encode_coordinator_value(record.value, record.value_version).hex()
    commit_ms = f"{d.now.wall_ms:016x}"
    assert value == f"0004{42:016x}00000007056e6f7465{commit_ms}" + "010010" + TOPIC_ID.hex()
    d.commit({("t", 0): 1}, retention_ms=1_000)
    old = d.records[-1]
    assert old.value_version == 1
    assert isinstance(old.value, OffsetCommitValue)
    assert old.value.expire_timestamp == d.now.wall_ms + 1_000


# fetching


def test_offsets_of_an_earlier_topic_of_the_name_are_not_given() -> None:
    d = Driver()
    topic = OffsetCommitRequestTopic(
        name="t", topic_id=TOPIC_ID, partitions=[OffsetCommitRequestPartition(committed_offset=4)]
    )
    d.carry(d.shard.commit_offsets(OffsetCommitRequest(group_id="g", topics=[topic]), 10, d.now))
    assert fetch_one(d).committed_offset == 4
    assert fetch_one(d, TOPIC_ID).committed_offset == 4
    assert fetch_one(d, OTHER_ID).committed_offset == -1


def test_what_was_never_committed_is_minus_one_and_no_error() -> None:
    d = Driver()
    answer = fetch_one(d)
    assert (answer.committed_offset, answer.metadata, answer.error_code) == (-1, "", E.NONE)
    assert fetched(d) == {}


# transactions, which are only replayed


def pending(d: Driver, producer: int, offset: int, at: int, topic: str = "t") -> None:
    record = CoordinatorRecord(OffsetCommitKey(group="g", topic=topic), OffsetCommitValue(offset=offset), 3)
    assert d.shard.replay(record, At(at, producer, 0))


def test_a_pending_offset_counts_only_after_its_commit() -> None:
    d = Driver()
    d.commit({("t", 0): 1})
    pending(d, 7, 5, 10)
    pending(d, 8, 6, 11)
    assert fetch_one(d).committed_offset == 1
    assert fetch_one(d, require_stable=True).error_code == E.UNSTABLE_OFFSET_COMMIT
    d.shard.end_transaction(8, commit=True)
    assert fetch_one(d).committed_offset == 6
    assert fetch_one(d, require_stable=True).error_code == E.UNSTABLE_OFFSET_COMMIT
    d.shard.end_transaction(7, commit=True)  # committed later, but written earlier
    assert fetch_one(d, require_stable=True).committed_offset == 6
    d.shard.end_transaction(9, commit=True)


def test_an_aborted_offset_never_counts_and_a_tombstone_ends_pending_ones() -> None:
    d = Driver()
    pending(d, 7, 5, 10)
    d.shard.end_transaction(7, commit=False)
    assert fetched(d) == {}
    pending(d, 8, 5, 11)
    d.shard.replay(CoordinatorRecord(OffsetCommitKey(group="g", topic="t"), None), At(12))
    d.shard.end_transaction(8, commit=True)
    assert fetched(d) == {}
    assert not d.shard.image.offsets.open_producers


def test_offsets_in_open_transactions_do_not_expire_and_keep_their_group() -> None:
    d = Driver(SHORT)
    d.commit({("t", 0): 1})
    pending(d, 7, 5, 10)
    pending(d, 7, 5, 11, topic="only-pending")
    d.advance(DAY_MS)
    assert fetched(d) == {("t", 0): 1}
    d.shard.end_transaction(7, commit=False)
    d.advance(1_000)
    assert "g" not in d.shard.image.groups


# deleting


def test_offsets_are_deleted_where_the_group_does_not_read() -> None:
    d = Driver()
    d.commit({("read", 0): 1, ("left", 0): 2})
    d.stable_group(protocol_type="consumer", protocols=subscribed_to("read"))
    assert delete(d, "read", "left", "never") == {
        "read": E.GROUP_SUBSCRIBED_TO_TOPIC,
        "left": E.NONE,
        "never": E.NONE,
    }
    assert fetched(d) == {("read", 0): 1}
    assert [r.key for r in d.records if r.value is None] == [OffsetCommitKey(group="g", topic="left", partition=0)]


def test_offsets_of_a_group_that_speaks_another_protocol_stay_while_it_has_members() -> None:
    d = Driver()
    d.commit({("t", 0): 1})
    (member,) = d.stable_group(protocol_type="connect")
    assert error_of(lambda: delete(d, "t")) is E.NON_EMPTY_GROUP
    d.leave(member.member_id)
    assert delete(d, "t") == {"t": E.NONE}
    assert error_of(lambda: delete(d, "t", group="none")) is E.GROUP_ID_NOT_FOUND
    assert error_of(lambda: delete(d, "t", group="")) is E.INVALID_GROUP_ID


def test_a_subscription_that_cannot_be_read_keeps_all_offsets() -> None:
    d = Driver()
    d.commit({("t", 0): 1})
    d.stable_group(protocol_type="consumer", protocols=[("range", b"\xff\xff?")])
    assert d.shard.image.groups["g"].subscribed_topics is None
    assert delete(d, "t") == {"t": E.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_group_is_deleted_with_its_offsets_when_nobody_is_in_it() -> None:
    d = Driver()
    d.commit({("t", 0): 1, ("t", 1): 1})
    (member,) = d.stable_group()

    def deleted(*names: str) -> list[int]:
        return [r.error_code for r in d.carry(d.shard.delete_groups(names))]

    assert deleted("g", "none") == [E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND]
    d.leave(member.member_id)
    assert deleted("g") == [E.NONE]
    assert not d.shard.image.groups
    assert fetched(d) == {}


def test_offsets_of_deleted_topics_go_but_not_those_of_the_next_topic_of_the_name() -> None:
    d = Driver()
    d.commit({("t", 0): 1, ("other", 0): 2})
    assert not d.carry(d.shard.topics_deleted([("t", TOPIC_ID)]))
    assert fetched(d) == {("other", 0): 2}
    topic = OffsetCommitRequestTopic(
        name="t", topic_id=OTHER_ID, partitions=[OffsetCommitRequestPartition(committed_offset=4)]
    )
    d.carry(d.shard.commit_offsets(OffsetCommitRequest(group_id="g", topics=[topic]), 10, d.now))
    d.carry(d.shard.topics_deleted([("t", TOPIC_ID)]))
    assert fetched(d) == {("t", 0): 4, ("other", 0): 2}


# expiring


def test_offsets_of_a_simple_group_expire_each_by_its_own_age_and_then_the_group_goes() -> None:
    d = Driver(SHORT)
    d.commit({("t", 0): 1})
    d.advance(50_000)
    d.commit({("t", 1): 1})
    d.advance(51_000)
    assert fetched(d) == {("t", 1): 1}
    d.advance(50_000)
    assert fetched(d) == {}
    assert "g" not in d.shard.image.groups
    assert d.records[-1].value is None


def test_offsets_of_a_group_expire_a_while_after_its_last_member_left() -> None:
    d = Driver(SHORT)
    (member,) = d.stable_group(session_ms=1_000_000)
    d.commit({("t", 0): 1}, member_id=member.member_id, generation=1)
    d.advance(300_000)
    assert fetched(d) == {("t", 0): 1}
    d.leave(member.member_id)
    d.advance(99_000)
    assert fetched(d) == {("t", 0): 1}
    d.advance(2_000)
    assert fetched(d) == {}
    assert "g" not in d.shard.image.groups


def test_in_a_stable_consumer_group_only_topics_that_nobody_reads_expire() -> None:
    d = Driver(SHORT)
    (member,) = d.stable_group(protocol_type="consumer", protocols=subscribed_to("read"), session_ms=1_000_000)
    d.commit({("read", 0): 1, ("left", 0): 1}, member_id=member.member_id, generation=1)
    d.advance(150_000)
    assert fetched(d) == {("read", 0): 1}


def test_an_old_clients_own_expiry_time_decides() -> None:
    d = Driver()
    d.commit({("soon", 0): 1}, retention_ms=1_000_000)
    d.commit({("late", 0): 1})
    d.advance(1_300_000)
    assert fetched(d) == {("late", 0): 1}
