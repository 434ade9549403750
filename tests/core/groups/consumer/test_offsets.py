"""Offsets of consumer groups, and what administrators see and do of such groups, as with Kafka 4.3."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.groups import describing
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import describing as consumer_describing
from barnabas.core.groups.consumer.commits import check_transactional_commit
from barnabas.wire.errors import ApiError, ErrorCode
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
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup
from tests.core.groups.consumer.driving import Consumer, ConsumerDriver

E = ErrorCode
RETENTION_MS = 400_000


class Two(ConsumerDriver):
    """Two members that share a topic of four partitions, settled."""

    def __init__(self) -> None:
        super().__init__(GroupConfig(offsets_retention_ms=RETENTION_MS))
        self.topic_id = self.cluster.create("t", 4)
        self.a, self.b = Consumer("a", names=["t"]), Consumer("b", names=["t"])
        self.settle_all(self.a, self.b)
        self.mine = min(p for _, p in self.a.held)
        self.foreign = min(p for _, p in self.b.held)

    def commits(self, partition: int, member_id: str, epoch: int, version: int = 10) -> Any:
        request = OffsetCommitRequest(
            group_id="g",
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    topic_id=self.topic_id,
                    partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)],
                )
            ],
        )
        return self.carry(self.shard.commit_offsets(request, version, self.now))

    def fetches(self, member_id: str | None, epoch: int) -> Any:
        request = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        return self.carry(self.shard.fetch_stable_offsets(request))


def test_a_member_commits_in_its_epoch_and_later_what_it_has_had_since() -> None:
    d = Two()
    d.commits(d.mine, "a", d.a.epoch)
    old = d.a.epoch
    d.cluster.grow("t", 6)
    d.settle_all(d.a, d.b)
    assert d.a.epoch > old
    d.commits(d.mine, "a", old)
    for partition, epoch in ((d.foreign, old), (d.mine, d.a.epoch + 1), (d.mine, 0)):
        with pytest.raises(ApiError) as e:
            d.commits(partition, "a", epoch)
        assert e.value.code is E.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "code"),
    [
        ("x", 3, 10, E.UNKNOWN_MEMBER_ID),
        ("", -1, 10, E.UNKNOWN_MEMBER_ID),
        ("a", 3, 8, E.UNSUPPORTED_VERSION),
    ],
)
def test_who_may_not_commit(member_id: str, epoch: int, version: int, code: ErrorCode) -> None:
    d = Two()
    with pytest.raises(ApiError) as e:
        d.commits(d.mine, member_id, epoch, version)
    assert e.value.code is code


def test_anybody_commits_to_a_group_without_members() -> None:
    d = Two()
    d.away(d.a)
    d.away(d.b)
    d.commits(0, "", -1)
    assert d.fetches(None, -1).topics[0].partitions[0].committed_offset == 7
    assert "g" not in d.shard.image.groups


def test_commits_of_transactions() -> None:
    d = Two()
    group, place = d.group(), [(d.topic_id, d.mine)]
    check_transactional_commit(group, "", None, -1, [])
    check_transactional_commit(group, "a", None, d.a.epoch, place)
    for member_id, epoch, code in (("a", 99, E.ILLEGAL_GENERATION), ("x", 1, E.UNKNOWN_MEMBER_ID)):
        with pytest.raises(ApiError) as e:
            check_transactional_commit(group, member_id, None, epoch, place)
        assert e.value.code is code


def test_a_member_fetches_in_its_epoch() -> None:
    d = Two()
    d.commits(d.mine, "a", d.a.epoch)
    assert d.fetches("a", d.a.epoch).topics[0].partitions[0].committed_offset == 7
    assert d.fetches(None, -1).topics
    for member_id, epoch, code in (("a", 1, E.STALE_MEMBER_EPOCH), ("x", 1, E.UNKNOWN_MEMBER_ID)):
        with pytest.raises(ApiError) as e:
            d.fetches(member_id, epoch)
        assert e.value.code is code


def test_offsets_expire_but_not_of_topics_that_are_read() -> None:
    d = Two()
    d.commits(d.mine, "a", d.a.epoch)
    for _ in range(RETENTION_MS // 40_000 + 20):
        d.advance(40_000)
        d.beat(d.a)
    assert d.fetches(None, -1).topics
    d.away(d.a)
    d.advance(700_000)
    assert "g" not in d.shard.image.consumers
    assert not d.shard.image.offsets.by_group


def test_offsets_of_topics_that_are_read_stay() -> None:
    d = Two()
    d.commits(d.mine, "a", d.a.epoch)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=d.mine)])
    request = OffsetDeleteRequest(group_id="g", topics=[topic])

    def deleted() -> int:
        answer = d.carry(d.shard.delete_offsets(request))
        return int(answer.topics[0].partitions[0].error_code)

    assert deleted() == E.GROUP_SUBSCRIBED_TO_TOPIC
    d.away(d.a)
    d.away(d.b)
    assert deleted() == E.NONE
    assert not d.shard.image.offsets.by_group


def test_a_group_is_deleted_when_nobody_is_left() -> None:
    d = Two()
    d.commits(d.mine, "a", d.a.epoch)
    assert d.carry(d.shard.delete_groups(["g"]))[0].error_code == E.NON_EMPTY_GROUP
    d.away(d.a)
    d.away(d.b)
    assert d.carry(d.shard.delete_groups(["g"]))[0].error_code == E.NONE
    assert d.carry(d.shard.delete_groups(["g"]))[0].error_code == E.GROUP_ID_NOT_FOUND


def test_it_is_listed_and_described() -> None:
    d = Two()
    d.commit({("t", 0): 1}, group="only-offsets")
    image = d.shard.image
    found = [(g.group_id, g.group_type, g.group_state, g.protocol_type) for g in describing.listed(image, [], [])]
    assert found == [("g", "consumer", "Stable", "consumer"), ("only-offsets", "classic", "Empty", "")]
    assert [g.group_id for g in describing.listed(image, ["STABLE"], ["Consumer"])] == ["g"]
    assert not describing.listed(image, ["assigning"], [])
    (dead,) = describing.describe(image, ["g"], 6)
    assert (dead.group_state, dead.error_code) == ("Dead", E.GROUP_ID_NOT_FOUND)
    assert describing.describe(image, ["g"], 5)[0].error_code == E.NONE

    g, simple, absent = consumer_describing.describe(image, ["g", "only-offsets", "x"], d.cluster.world(), "uniform")
    assert (g.group_state, g.group_epoch, g.assignment_epoch, g.assignor_name) == ("Stable", 3, 3, "uniform")
    assert [(m.member_id, m.member_epoch, m.member_type, m.client_host) for m in g.members] == [
        ("a", 3, 1, "/1.2.3.4"),
        ("b", 3, 1, "/1.2.3.4"),
    ]
    for member, consumer in zip(g.members, (d.a, d.b), strict=True):
        assert member.assignment == member.target_assignment
        (topic,) = member.assignment.topic_partitions
        assert {(topic.topic_id, p) for p in topic.partitions} == consumer.held
        assert topic.topic_name == "t"
    assert (simple.error_code, absent.error_code) == (E.GROUP_ID_NOT_FOUND, E.GROUP_ID_NOT_FOUND)


def test_an_empty_group_changes_its_protocol_and_keeps_its_offsets() -> None:
    d = ConsumerDriver()
    d.cluster.create("t", 2)
    d.commit({("t", 0): 5})
    a = Consumer("a", names=["t"])
    d.beat(a)
    assert "g" not in d.shard.image.groups
    refused = d.join()
    assert refused.error is E.INCONSISTENT_GROUP_PROTOCOL
    d.away(a)
    joined = d.join_new()
    assert "g" not in d.shard.image.consumers
    with pytest.raises(ApiError) as e:
        d.beat(a)
    assert e.value.code is E.GROUP_ID_NOT_FOUND
    d.advance(3_000)
    assert joined.error is E.NONE
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert d.carry(d.shard.fetch_stable_offsets(request)).topics[0].partitions[0].committed_offset == 5


def test_topic_ids_keep_offsets_of_another_topic_apart() -> None:
    d = Two()
    d.commits(d.mine, "a", d.a.epoch)
    d.cluster.delete("t")
    d.cluster.create("t", 4)
    d.settle_all(d.a, d.b)
    with pytest.raises(ApiError) as e:
        d.commits(d.mine, "a", d.a.epoch - 1)
    assert e.value.code is E.STALE_MEMBER_EPOCH
