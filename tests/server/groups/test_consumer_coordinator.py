"""Groups of the consumer protocol (KIP-848) in a coordinator: on its log, with configs and topics that change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from barnabas.core.groups.config import ConsumerGroupConfig, GroupConfig
from barnabas.core.groups.consumer.group import ConsumerGroupState
from barnabas.core.metadata.image import MetadataImage
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.topics import GroupTopics
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.core.metadata.clusters import a_cluster, a_partition, with_topic
from tests.core.metadata.metadata_records import a_uuid
from tests.server.groups.test_coordinator import World, refusal
from tests.server.groups.test_transactional_offsets import error_of, in_transaction

E = ErrorCode
IDS = {"t": a_uuid(900)}
FIRST, SECOND = 2, 3
"""The epochs of a group when its first and its second member join; an empty one is in epoch 1."""


def everything(names: Iterable[str]) -> set[str]:
    return set(names)


class Metadata:
    """The metadata, which a test may replace."""

    def __init__(self) -> None:
        self.image: MetadataImage = with_topic(a_cluster(1), "t", a_partition([1]), a_partition([1]))


def at_once(settings: Mapping[str, int]) -> GroupConfig:
    """Give a configuration in which assignments wait for nothing. settings: of every group, as they are when asked."""
    return GroupConfig(
        consumer=ConsumerGroupConfig(overrides=lambda _: {"consumer.assignment.interval.ms": 0, **settings})
    )


async def started(metadata: Metadata, settings: Mapping[str, int] | None = None) -> tuple[World, GroupCoordinator]:
    world = World(config=at_once({} if settings is None else settings))
    groups = await world.start()
    groups.topics = GroupTopics(lambda: metadata.image)
    return world, groups


async def beat(
    groups: GroupCoordinator, member: str = "a", epoch: int = 0, owned: Iterable[int] | None = None
) -> ConsumerGroupHeartbeatResponse:
    joins = epoch == 0
    partitions = None if owned is None else [TopicPartitions(topic_id=IDS["t"], partitions=list(owned))]
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=10_000 if joins else -1,
        subscribed_topic_names=["t"] if joins else None,
        topic_partitions=[] if joins else partitions,
    )
    return await groups.consumer_heartbeat(request, 1, "client", "127.0.0.1", everything)


def given(response: ConsumerGroupHeartbeatResponse) -> list[int]:
    assert response.assignment is not None
    return [p for topic in response.assignment.topic_partitions for p in topic.partitions]


async def test_a_group_goes_on_after_a_restart_where_it_was() -> None:
    metadata = Metadata()
    world, groups = await started(metadata)
    assert given(await beat(groups)) == [0, 1]
    assert groups.consumer_group_count() == groups.consumer_group_count(ConsumerGroupState.STABLE) == 1
    assert (groups.group_count(), groups.tally.consumer_rebalances) == (0, 1)
    await groups.close()
    world.groups = world.restarted()
    again = await world.start()
    again.topics = GroupTopics(lambda: metadata.image)
    answer = await beat(again, epoch=FIRST, owned=[0, 1])
    assert (answer.member_epoch, answer.assignment) == (FIRST, None)
    [described] = again.describe_consumers(["g"])
    assert (described.group_state, described.group_epoch, described.members[0].client_host) == (
        "Stable",
        FIRST,
        "/127.0.0.1",
    )
    assert [t.topic_name for t in described.members[0].assignment.topic_partitions] == ["t"]
    assert [g.error_code for g in again.describe_consumers(["", "absent"])] == [
        E.INVALID_GROUP_ID,
        E.GROUP_ID_NOT_FOUND,
    ]
    await again.close()


async def test_members_get_the_partitions_that_a_topic_gains() -> None:
    metadata = Metadata()
    _, groups = await started(metadata)
    await beat(groups)
    metadata.image = with_topic(a_cluster(1), "t", *[a_partition([1])] * 3).at(1001, 1)
    groups.topics = GroupTopics(lambda: metadata.image)
    answer = await beat(groups, epoch=FIRST)
    assert (answer.member_epoch, given(answer)) == (SECOND, [0, 1, 2])
    await groups.close()


async def test_what_is_set_for_a_group_counts_from_the_next_heartbeat_on() -> None:
    settings: dict[str, int] = {}
    _, groups = await started(Metadata(), settings)
    assert (await beat(groups)).heartbeat_interval_ms == 5_000
    settings["consumer.heartbeat.interval.ms"] = 7_000
    assert (await beat(groups, epoch=FIRST)).heartbeat_interval_ms == 7_000
    await groups.close()


async def test_members_commit_in_transactions_what_they_have_had_since_their_epoch() -> None:
    _, groups = await started(Metadata())
    await beat(groups)
    await beat(groups, "b")
    await beat(groups, epoch=FIRST)
    assert (await beat(groups, epoch=FIRST, owned=[0])).member_epoch == SECOND
    await beat(groups, "b", SECOND)

    async def answer(epoch: int, member: str = "a") -> ErrorCode:
        return await refusal(groups.commit_in_transaction(in_transaction(9, generation=epoch, member=member), 4))

    for epoch in (SECOND, FIRST):
        request = in_transaction(9, generation=epoch, member="a")
        assert error_of(await groups.commit_in_transaction(request, 4)) == E.NONE
    assert await answer(FIRST - 1) is E.ILLEGAL_GENERATION, "it did not have the partition then"
    assert await answer(SECOND + 1) is E.ILLEGAL_GENERATION
    assert await answer(FIRST, "b") is E.ILLEGAL_GENERATION, "it is another's"
    assert await answer(SECOND, "who") is E.UNKNOWN_MEMBER_ID
    assert error_of(await groups.commit_in_transaction(in_transaction(9), 4)) == E.NONE, "it names nobody"
    groups.topics = GroupTopics(lambda: MetadataImage.EMPTY)
    assert await answer(FIRST) is E.ILLEGAL_GENERATION, "the topic has gone"
    await groups.close()


@pytest.mark.parametrize(("member", "epoch", "code"), [("a", 5, E.FENCED_MEMBER_EPOCH), ("b", 1, E.UNKNOWN_MEMBER_ID)])
async def test_who_is_not_where_the_group_is_is_told_so(member: str, epoch: int, code: ErrorCode) -> None:
    _, groups = await started(Metadata())
    await beat(groups)
    assert await refusal(beat(groups, member, epoch)) is code
    await groups.close()
