"""The group APIs in each of their versions, as bytes through the router: shapes, rights, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.groups.config import GroupConfig
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.uuid import ZERO_UUID
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.server.transactions.transaction_coordinator import TRANSACTION_TOPIC
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import encode
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.server.handlers.group_world import World, allow, topic_id, world

E = ErrorCode
Op, Kind = AclOperation, ResourceType
SUBSCRIPTION = b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=["t"]), 1)


async def join(w: World, version: int = 9, member_id: str = "", group: str = "g", **fields: Any) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000 if version else -1,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        **fields,
    )
    response = await w.ask(request, JoinGroupResponse, version)
    if response.error_code == E.MEMBER_ID_REQUIRED:
        return await join(w, version, response.member_id, group, **fields)
    return response


async def sync(w: World, joined: JoinGroupResponse, version: int = 5, **fields: Any) -> SyncGroupResponse:
    if version >= 5:
        fields = {"protocol_type": "consumer", "protocol_name": "range"} | fields
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        **fields,
    )
    return await w.ask(request, SyncGroupResponse, version)


def commit(version: int, offset: int, topic: str = "t", partitions: int = 1, **fields: Any) -> OffsetCommitRequest:
    named = {"topic_id": topic_id(topic)} if version >= 10 else {"name": topic}
    wanted = [OffsetCommitRequestPartition(partition_index=i, committed_offset=offset) for i in range(partitions)]
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequestTopic(partitions=wanted, **named)],
        **fields,
    )


async def committed(w: World, version: int, offset: int, **fields: Any) -> list[int]:
    response = await w.ask(commit(version, offset, **fields), OffsetCommitResponse, version)
    return [p.error_code for t in response.topics for p in t.partitions]


# whole conversations in each version


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins_syncs_and_leaves_in_each_version(version: int) -> None:
    async with world(t=1) as w:
        joined = await join(w, version)
        assert joined.error_code == E.NONE
        assert joined.leader == joined.member_id
        assert [m.metadata for m in joined.members] == [SUBSCRIPTION]
        assert joined.protocol_name == "range"
        synced = await sync(w, joined, min(version, 5))
        assert (synced.error_code, synced.assignment) == (E.NONE, b"mine")
        beat = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=joined.generation_id)
        assert (await w.ask(beat, HeartbeatResponse, min(version, 4))).error_code == E.NONE
        leave_version = min(version, 5)
        who: dict[str, Any] = {"member_id": joined.member_id}
        if leave_version >= 3:
            who = {"members": [MemberIdentity(member_id=joined.member_id)]}
        left = await w.ask(LeaveGroupRequest(group_id="g", **who), LeaveGroupResponse, leave_version)
        assert left.error_code == E.NONE
        gone = await w.ask(beat, HeartbeatResponse, min(version, 4))
        assert gone.error_code == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_says_no_protocol_as_its_version_does(version: int) -> None:
    async with world() as w:
        refused = await join(w, version, "ghost")
        assert (refused.error_code, refused.member_id) == (E.UNKNOWN_MEMBER_ID, "ghost")
        assert refused.protocol_name == (None if version >= 7 else "")


async def test_version_0_has_no_rebalance_timeout_of_its_own() -> None:
    async with world() as w:
        joined = await join(w, 0)
        member = w.node.groups.shards.at(0).shard.image.groups["g"].members[joined.member_id]
        assert (member.rebalance_timeout_ms, member.client_host) == (10_000, "/10.0.0.9")


async def test_sync_must_name_the_protocol_from_version_5() -> None:
    async with world() as w:
        joined = await join(w)
        unnamed = await sync(w, joined, 5, protocol_type=None, protocol_name=None)
        assert unnamed.error_code == E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(3))
async def test_old_leave_says_a_members_error_at_the_top(version: int) -> None:
    async with world() as w:
        request = LeaveGroupRequest(group_id="none", member_id="ghost")
        assert (await w.ask(request, LeaveGroupResponse, version)).error_code == E.UNKNOWN_MEMBER_ID


# offsets


@pytest.mark.parametrize("version", range(2, 11))
async def test_offsets_are_committed_in_each_version(version: int) -> None:
    async with world(t=2) as w:
        assert await committed(w, version, 5, partitions=3) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE, E.NONE]
        unknown = E.UNKNOWN_TOPIC_ID if version >= 10 else E.UNKNOWN_TOPIC_OR_PARTITION
        assert await committed(w, version, 5, topic="none") == [unknown]
        expected = E.GROUP_ID_NOT_FOUND if version >= 9 else E.ILLEGAL_GENERATION
        request = commit(version, 5, generation_id_or_member_epoch=3)
        request.group_id = "none"
        response = await w.ask(request, OffsetCommitResponse, version)
        assert [p.error_code for t in response.topics for p in t.partitions] == [expected]


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_are_fetched_in_each_version(version: int) -> None:
    async with world(t=2) as w:
        await committed(w, 9, 5)
        request, everything = fetch_requests(version)
        response = await w.ask(request, OffsetFetchResponse, version)
        assert offsets(response, version) == [(0, 5, E.NONE), (1, -1, E.NONE)]
        if everything is not None:
            assert offsets(await w.ask(everything, OffsetFetchResponse, version), version) == [(0, 5, E.NONE)]


def fetch_requests(version: int, topic: str = "t") -> tuple[OffsetFetchRequest, OffsetFetchRequest | None]:
    if version < 8:
        some = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])])
        return some, OffsetFetchRequest(group_id="g", topics=None) if version >= 2 else None
    named: dict[str, Any] = {"topic_id": topic_id(topic)} if version >= 10 else {"name": topic}
    topics = [OffsetFetchRequestTopics(partition_indexes=[0, 1], **named)]
    return (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=True),
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
    )


def offsets(response: OffsetFetchResponse, version: int) -> list[tuple[int, int, int]]:
    topics: Any = response.topics if version < 8 else response.groups[0].topics
    return [(p.partition_index, p.committed_offset, p.error_code) for t in topics for p in t.partitions]


async def test_offsets_of_a_topic_id_that_nobody_has_are_refused_and_of_a_lost_topic_left_out() -> None:
    async with world(t=2, lost=1) as w:
        await committed(w, 9, 5)
        await committed(w, 9, 6, topic="lost")
        del w.node.topics["lost"]
        some, everything = fetch_requests(10, "lost")
        refused = await w.ask(some, OffsetFetchResponse, 10)
        assert offsets(refused, 10) == [(0, -1, E.UNKNOWN_TOPIC_ID), (1, -1, E.UNKNOWN_TOPIC_ID)]
        assert everything is not None
        found = await w.ask(everything, OffsetFetchResponse, 10)
        assert [t.topic_id for t in found.groups[0].topics] == [topic_id("t")]
        assert ZERO_UUID not in [t.topic_id for t in found.groups[0].topics]


async def test_many_groups_are_fetched_at_once_each_with_its_own_error() -> None:
    async with world(t=2) as w:
        await committed(w, 9, 5)
        w.acls = [
            allow("User:alice", Op.DESCRIBE, Kind.GROUP, "g"),
            allow("User:alice", Op.DESCRIBE, Kind.TOPIC, "t"),
        ]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "secret")]
        )
        response = await w.ask(request, OffsetFetchResponse, 9)
        assert [(g.group_id, g.error_code, len(g.topics)) for g in response.groups] == [
            ("g", E.NONE, 1),
            ("secret", E.GROUP_AUTHORIZATION_FAILED, 0),
        ]


async def test_offsets_are_deleted_unless_the_group_reads_the_topic() -> None:
    async with world(t=1, left=1) as w:
        await committed(w, 9, 5)
        await committed(w, 9, 6, topic="left")
        await sync(w, await join(w))
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in range(2)]
            )
            for name in ("t", "left", "none")
        ]
        response = await w.ask(OffsetDeleteRequest(group_id="g", topics=topics), OffsetDeleteResponse, 0)
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        assert {t.name: {p.partition_index: p.error_code for p in t.partitions} for t in response.topics} == {
            "t": {0: E.GROUP_SUBSCRIBED_TO_TOPIC, 1: unknown},
            "left": {0: E.NONE, 1: unknown},
            "none": {0: unknown, 1: unknown},
        }


# administration


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described_in_each_version(version: int) -> None:
    async with world(t=1) as w:
        await sync(w, await join(w))
        request = DescribeGroupsRequest(groups=["g", "none"], include_authorized_operations=version >= 3)
        response = await w.ask(request, DescribeGroupsResponse, version)
        g, none = response.groups
        assert (g.group_state, g.protocol_type, g.protocol_data) == ("Stable", "consumer", "range")
        assert [(m.member_metadata, m.member_assignment) for m in g.members] == [(SUBSCRIPTION, b"mine")]
        assert (none.group_state, none.error_code) == ("Dead", E.GROUP_ID_NOT_FOUND if version >= 6 else E.NONE)
        if version >= 3:
            want = sum(1 << op for op in (Op.READ, Op.DELETE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS))
            assert g.authorized_operations == want


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_in_each_version(version: int) -> None:
    async with world(t=1) as w:
        await join(w)
        await join(w, group="other")
        await committed(w, 9, 5)
        response = await w.ask(ListGroupsRequest(), ListGroupsResponse, version)
        assert [g.group_id for g in response.groups] == ["g", "other"]
        if version >= 4:
            empty = await w.ask(ListGroupsRequest(states_filter=["stable "]), ListGroupsResponse, version)
            assert empty.groups == []
        if version >= 5:
            classic = await w.ask(ListGroupsRequest(types_filter=["Classic"]), ListGroupsResponse, version)
            assert {g.group_type for g in classic.groups} == {"classic"}
            assert not (await w.ask(ListGroupsRequest(types_filter=["share"]), ListGroupsResponse, version)).groups


@pytest.mark.parametrize("version", range(3))
async def test_groups_are_deleted_in_each_version(version: int) -> None:
    async with world(t=1) as w:
        await committed(w, 9, 5)
        request = DeleteGroupsRequest(groups_names=["g", "g", "none"])
        response = await w.ask(request, DeleteGroupsResponse, version)
        assert {r.group_id: r.error_code for r in response.results} == {"g": E.NONE, "none": E.GROUP_ID_NOT_FOUND}


# finding the coordinator


@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_is_found_in_each_version(version: int) -> None:
    async with world() as w:
        request = FindCoordinatorRequest(key="g")
        if version >= 4:
            request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
        response = await w.ask(request, FindCoordinatorResponse, version)
        found: Any = response.coordinators if version >= 4 else [response]
        assert {(c.error_code, c.node_id, c.host, c.port) for c in found} == {(E.NONE, 1, "broker.example", 9092)}
        assert [c.key for c in response.coordinators] == (["g", "h"] if version >= 4 else [])


@pytest.mark.parametrize("version", [0, 3, 4, 6])
async def test_the_first_question_creates_the_offsets_topic(version: int) -> None:
    async with world() as w:
        del w.node.topics[OFFSETS_TOPIC]
        request = FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g"])
        response = await w.ask(request, FindCoordinatorResponse, version)
        found: Any = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id, found.port) == (E.COORDINATOR_NOT_AVAILABLE, -1, -1)
        assert w.node.created == [OFFSETS_TOPIC]


@pytest.mark.parametrize("version", [1, 3, 4, 6])
async def test_the_first_question_about_transactions_creates_their_log(version: int) -> None:
    async with world() as w:
        keys = {"key": "tx"} if version < 4 else {"coordinator_keys": ["tx"]}
        response = await w.ask(FindCoordinatorRequest(key_type=1, **keys), FindCoordinatorResponse, version)
        found: Any = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id, found.port) == (E.COORDINATOR_NOT_AVAILABLE, -1, -1)
        assert w.node.created == [TRANSACTION_TOPIC]


async def test_a_coordinator_without_a_leader_is_not_available() -> None:
    async with world() as w:
        w.node.leader = -1
        response = await w.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 6)
        assert response.coordinators[0].error_code == E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", [1, 6])
async def test_the_coordinator_of_a_transactional_id_is_found(version: int) -> None:
    async with world() as w:
        w.node.topics[TRANSACTION_TOPIC] = 1
        keys = {"key": "tx"} if version < 4 else {"coordinator_keys": ["tx"]}
        response = await w.ask(FindCoordinatorRequest(key_type=1, **keys), FindCoordinatorResponse, version)
        found: Any = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id, found.port) == (E.NONE, 1, 9092)


async def test_a_coordinator_that_is_not_offered_says_so() -> None:
    async with world() as w:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=["a:b:0"])
        (found,) = (await w.ask(request, FindCoordinatorResponse, 6)).coordinators
        assert found.error_code == E.UNSUPPORTED_VERSION
        assert "not offered" in (found.error_message or "")


# rights


async def test_nothing_is_done_for_who_may_not() -> None:
    async with world(t=1) as w:
        await committed(w, 9, 5)
        w.acls = []
        assert (await join(w)).error_code == E.GROUP_AUTHORIZATION_FAILED
        assert await committed(w, 9, 6) == [E.GROUP_AUTHORIZATION_FAILED]
        for version in (1, 7, 9):
            request, _ = fetch_requests(version)
            response = await w.ask(request, OffsetFetchResponse, version)
            codes = [c for _, _, c in offsets(response, version)]
            top = response.groups[0].error_code if version >= 8 else response.error_code
            denied = E.GROUP_AUTHORIZATION_FAILED
            assert (codes, top) == (([denied] * 2, E.NONE) if version == 1 else ([], denied))
        deleted = await w.ask(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse, 2)
        assert [r.error_code for r in deleted.results] == [E.GROUP_AUTHORIZATION_FAILED]
        described = await w.ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse, 6)
        assert [g.error_code for g in described.groups] == [E.GROUP_AUTHORIZATION_FAILED]
        assert (await w.ask(ListGroupsRequest(), ListGroupsResponse, 5)).groups == []
        found = await w.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 6)
        assert [c.error_code for c in found.coordinators] == [E.GROUP_AUTHORIZATION_FAILED]
        refused = await w.ask(OffsetDeleteRequest(group_id="g"), OffsetDeleteResponse, 0)
        assert refused.error_code == E.GROUP_AUTHORIZATION_FAILED
        for request_, response_, version in (
            (HeartbeatRequest(group_id="g"), HeartbeatResponse, 4),
            (LeaveGroupRequest(group_id="g"), LeaveGroupResponse, 5),
        ):
            answer: Any = await w.ask(request_, response_, version)
            assert answer.error_code == E.GROUP_AUTHORIZATION_FAILED


async def test_topics_that_one_may_not_read_are_refused_one_by_one() -> None:
    async with world(t=1, secret=1) as w:
        w.acls = [
            allow("User:alice", Op.READ, Kind.GROUP, "g"),
            allow("User:alice", Op.READ, Kind.TOPIC, "t"),
            allow("User:alice", Op.DELETE, Kind.GROUP, "g"),
        ]
        request = commit(9, 5)
        request.topics += commit(9, 6, topic="secret").topics
        response = await w.ask(request, OffsetCommitResponse, 9)
        assert {t.name: t.partitions[0].error_code for t in response.topics} == {
            "t": E.NONE,
            "secret": E.TOPIC_AUTHORIZATION_FAILED,
        }
        fetched = await w.ask(fetch_requests(9, "secret")[0], OffsetFetchResponse, 9)
        assert [c for _, _, c in offsets(fetched, 9)] == [E.TOPIC_AUTHORIZATION_FAILED] * 2
        topics = [OffsetDeleteRequestTopic(name="secret", partitions=[OffsetDeleteRequestPartition()])]
        deleted = await w.ask(OffsetDeleteRequest(group_id="g", topics=topics), OffsetDeleteResponse, 0)
        assert deleted.topics[0].partitions[0].error_code == E.TOPIC_AUTHORIZATION_FAILED


async def test_who_may_describe_the_cluster_sees_all_groups_and_others_their_own() -> None:
    async with world(t=1) as w:
        await join(w)
        await join(w, group="other")
        w.acls = [
            allow("User:admin", Op.DESCRIBE, Kind.CLUSTER, CLUSTER_NAME),
            allow("User:alice", Op.DESCRIBE, Kind.GROUP, "other"),
        ]
        mine = await w.ask(ListGroupsRequest(), ListGroupsResponse, 5)
        everything = await w.ask(ListGroupsRequest(), ListGroupsResponse, 5, user="admin")
        assert ([g.group_id for g in mine.groups], len(everything.groups)) == (["other"], 2)


# a coordinator that is elsewhere or not ready


async def test_a_group_of_another_coordinator_is_sent_there() -> None:
    async with world(GroupConfig(), t=1) as w:
        w.node.groups.resigned(0)
        assert (await join(w)).error_code == E.NOT_COORDINATOR
        assert await committed(w, 9, 5) == [E.NOT_COORDINATOR]
        beat = HeartbeatRequest(group_id="g", member_id="m")
        assert (await w.ask(beat, HeartbeatResponse, 4)).error_code == E.NOT_COORDINATOR
        fetched = await w.ask(fetch_requests(9)[0], OffsetFetchResponse, 9)
        assert fetched.groups[0].error_code == E.NOT_COORDINATOR
        described = await w.ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse, 6)
        assert described.groups[0].error_code == E.NOT_COORDINATOR
        deleted = await w.ask(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse, 2)
        assert deleted.results[0].error_code == E.NOT_COORDINATOR
