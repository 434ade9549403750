"""The classic group protocol and the offsets of groups."""

# ruff: noqa: E501 - tables of requests

from __future__ import annotations

from typing import Any, Final

import pytest

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import Uuid

from .requests import request
from .script import side_by_side
from .side import ADMIN, NOBODY, Side

pytestmark = pytest.mark.peer
RETRY: Final = (14, 15, 16)


def join(group: str, member: str = "", **fields: Any) -> Any:
    """Give a JoinGroup of a consumer."""
    return request(
        "JoinGroup",
        **{
            "group_id": group, "member_id": member, "session_timeout_ms": 300_000, "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"meta"}], **fields,
        },
    )  # fmt: skip


def sync(group: str, generation: int, member: str, **fields: Any) -> Any:
    """Give a SyncGroup that assigns to itself."""
    return request("SyncGroup", group_id=group, generation_id=generation, member_id=member, **fields)


def ready(s: Side, *groups: str) -> None:
    """Wait until this node coordinates the groups."""
    for group in groups:
        s.until(request("FindCoordinator", coordinator_keys=[group]), lambda a: a.coordinators[0].error_code == 0)
        asked = request("DescribeGroups", groups=[group])
        s.until(asked, lambda a: a.groups[0].error_code not in RETRY, 5)


@side_by_side
def test_find_coordinator(s: Side) -> None:
    ready(s, "found")
    for version in range(4):
        for kind in (0, 2, 3) if version else (0,):
            for key in ("found", ""):
                for user in (ADMIN, NOBODY):
                    s.call(request("FindCoordinator", key=key, key_type=kind), version, user, note=f"{key!r} {kind}")
    for version in range(4, 7):
        for kind in (0, 2, 3):
            for keys in ([], ["found"], ["found", "other", "found"], [""]):
                for user in (ADMIN, NOBODY):
                    s.call(
                        request("FindCoordinator", coordinator_keys=keys, key_type=kind),
                        version,
                        user,
                        note=f"{keys} {kind}",
                    )


@side_by_side
def test_join_and_leave(s: Side) -> None:
    ready(s, *[f"alone-{v}" for v in range(10)], "")
    for version in range(10):
        group = f"alone-{version}"
        s.call(join(group), version, NOBODY)
        answer = s.call(join(group), version, note="new")
        if answer.error_code == 79:
            s.call(join(group, "not-a-member"), version, note="a member id that nobody gave out")
            answer = s.call(join(group, answer.member_id), version, note="with its id")
        member, generation = answer.member_id, answer.generation_id
        for each in (3, 0) if version % 3 else (5, 1):
            assigned = [{"member_id": member, "assignment": b"mine"}]
            named = {"protocol_type": "consumer", "protocol_name": "range"} if each >= 5 else {}
            s.call(sync(group, generation, member, assignments=assigned, **named), each, note="leader")
            s.call(sync(group, generation + 1, member), min(each, 4), note="wrong generation")
            s.call(sync(group, generation, "other"), min(each, 4), note="wrong member")
        if version >= 5:
            wrong = {"protocol_type": "connect", "protocol_name": "range"}
            s.call(sync(group, generation, member, **wrong), 5, note="wrong type")
            s.call(sync(group, generation, member, protocol_type="consumer", protocol_name="x"), 5, note="wrong name")
        for beat in range(5):
            fields = {"group_id": group, "generation_id": generation, "member_id": member}
            s.call(request("Heartbeat", **fields), beat)
            s.call(request("Heartbeat", **fields), beat, NOBODY)
            s.call(request("Heartbeat", **{**fields, "generation_id": 99}), beat, note="wrong generation")
            s.call(request("Heartbeat", **{**fields, "member_id": "x"}), beat, note="wrong member")
            s.call(request("Heartbeat", **{**fields, "group_id": "nowhere"}), beat, note="no such group")
            s.call(request("Heartbeat", **{**fields, "group_id": ""}), beat, note="empty group")
        s.every_version(request("DescribeGroups", groups=[group, "nowhere"]), users=(ADMIN,))
        s.every_version(request("DescribeGroups", groups=[group], include_authorized_operations=True))
        s.call(join(group, member), version, note="again")
        leave = min(version, 5)
        if leave < 3:
            s.call(request("LeaveGroup", group_id=group, member_id="x"), leave, note="wrong member")
            s.call(request("LeaveGroup", group_id=group, member_id=member), leave, NOBODY)
            s.call(request("LeaveGroup", group_id=group, member_id=member), leave)
            s.call(request("LeaveGroup", group_id=group, member_id=member), leave, note="again")
        else:
            members = [{"member_id": "x"}, {"member_id": member}, {"member_id": "", "group_instance_id": "none"}]
            s.call(request("LeaveGroup", group_id=group, members=members), leave)
            s.call(request("LeaveGroup", group_id=group, members=[]), leave)
        s.call(request("DescribeGroups", groups=[group]))
        s.call(request("LeaveGroup", group_id="nowhere", member_id="x"), 1)
    for note, asked in {
        "session too short": join("odd", session_timeout_ms=5), "session too long": join("odd", session_timeout_ms=9_000_000),
        "no protocols": join("odd", protocols=[]), "no type": join("odd", protocol_type=""), "empty group": join(""),
        "unknown member": join("odd", "x"), "empty": join("odd", protocol_type="", protocols=[]),
    }.items():  # fmt: skip
        for version in (0, 3, 4, 5, 9):
            s.call(asked, version, note=note)
    s.every_version(request("SyncGroup", group_id="nowhere", generation_id=1, member_id="x"))
    s.every_version(request("SyncGroup", group_id="", generation_id=1, member_id="x"))


@side_by_side
def test_two_members(s: Side) -> None:
    ready(s, "pair")
    a, b = s.connection(ADMIN, "a"), s.connection(ADMIN, "b")
    first = s.call(join("pair"), 3, on="a", note="a")
    other: dict[str, Any] = {"protocols": [{"name": "sticky", "metadata": b"s"}, {"name": "range", "metadata": b"b"}]}
    asked = join("pair", **other)
    b.send(asked, 3)
    beat = request("Heartbeat", group_id="pair", generation_id=first.generation_id, member_id=first.member_id)
    s.until(request("DescribeGroups", groups=["pair"]), lambda r: r.groups[0].group_state == "PreparingRebalance")
    s.call(beat, 4, note="rebalance")
    s.call(sync("pair", first.generation_id, first.member_id), 3, note="while members join")
    again = s.call(join("pair", first.member_id), 3, on="a", note="a again")
    second = b.receive(asked, 3)
    s.note(asked, 3, ADMIN, second, "b")
    s.call(request("DescribeGroups", groups=["pair"]), note="completing")
    mine = sync("pair", second.generation_id, second.member_id)
    b.send(mine, 3)
    shares = [
        {"member_id": again.member_id, "assignment": b"for a"},
        {"member_id": second.member_id, "assignment": b"for b"},
    ]
    s.call(sync("pair", again.generation_id, again.member_id, assignments=shares), 3, on="a")
    s.note(mine, 3, ADMIN, b.receive(mine, 3), "b")
    s.call(request("DescribeGroups", groups=["pair"]), note="stable")
    s.call(join("pair", protocols=[{"name": "unheard", "metadata": b""}]), 3, note="nothing in common")
    s.call(join("pair", protocol_type="connect"), 3, note="another type")
    s.call(join("pair", second.member_id, **other), 3, on="b", note="b, unchanged")
    s.call(request("DeleteGroups", groups_names=["pair"]), note="not empty")
    s.call(request("LeaveGroup", group_id="pair", members=[{"member_id": again.member_id}]), 4)
    s.call(request("Heartbeat", group_id="pair", generation_id=again.generation_id, member_id=second.member_id), 4)
    s.call(join("pair", second.member_id, **other), 3, on="b", note="b alone")
    s.call(request("LeaveGroup", group_id="pair", members=[{"member_id": second.member_id}]), 5)
    assert a is s.connection(ADMIN, "a")


@side_by_side
def test_static_members(s: Side) -> None:
    ready(s, "static")
    first = s.call(join("static", group_instance_id="one"), 9)
    shares = [{"member_id": first.member_id, "assignment": b"all"}]
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    s.call(sync("static", 1, first.member_id, group_instance_id="one", assignments=shares, **named))
    s.call(join("static", "wrong", group_instance_id="one"), 9, note="fenced")
    s.call(join("static", "wrong", group_instance_id="two"), 9, note="unknown")
    beat = {"group_id": "static", "generation_id": 1}
    s.call(request("Heartbeat", **beat, member_id=first.member_id, group_instance_id="one"))
    s.call(request("Heartbeat", **beat, member_id="wrong", group_instance_id="one"))
    s.call(request("Heartbeat", **beat, member_id=first.member_id, group_instance_id="two"))
    second = s.call(join("static", group_instance_id="one"), 9, note="comes back")
    s.call(request("Heartbeat", **beat, member_id=first.member_id, group_instance_id="one"), note="its old self")
    s.call(sync("static", 1, second.member_id, group_instance_id="one", **named))
    s.every_version(request("DescribeGroups", groups=["static"]))
    members = [{"member_id": "", "group_instance_id": "one"}, {"member_id": "", "group_instance_id": "none"}]
    s.call(request("LeaveGroup", group_id="static", members=members))


@side_by_side
def test_lists_of_groups(s: Side) -> None:
    ready(s, "listed-a", "listed-b")
    s.topic("listed")
    s.call(join("listed-a"), 3)
    data = [{"name": "listed", "partitions": [{"partition_index": 0, "committed_offset": 3}]}]
    s.call(request("OffsetCommit", group_id="listed-b", topics=data), 8)

    def some(version: int, user: str = ADMIN, **fields: Any) -> None:
        answer = s.ask(request("ListGroups", **fields), version, user)
        answer.groups = [g for g in answer.groups if g.group_id.startswith("listed")]
        s.note(request("ListGroups"), version, user, answer, f"{fields}")

    for version in range(6):
        some(version)
        some(version, NOBODY)
    for states in (
        ["Stable"],
        ["empty"],
        ["CompletingRebalance"],
        ["Nonsense"],
        ["Empty", "Dead"],
        ["stable", "EMPTY"],
    ):
        some(4, states_filter=states)
        some(5, states_filter=states)
    for types in (["classic"], ["Classic"], ["consumer"], ["share"], ["streams"], ["nonsense"], ["unknown"]):
        some(5, types_filter=types)
    s.allow("alice", AclOperation.DESCRIBE, ResourceType.GROUP, "listed-b")
    some(5, "alice")
    for version in range(3):
        s.call(request("DeleteGroups", groups_names=["listed-a", "listed-b", "nowhere", ""]), version, NOBODY)
        s.call(request("DeleteGroups", groups_names=["listed-a", "listed-b", "nowhere", "listed-b", ""]), version)
    s.call(request("DeleteGroups", groups_names=[]))


def committed(version: int, group: str, *topics: tuple[str, Uuid, list[int]], **fields: Any) -> Any:
    """Give an OffsetCommit of offset 10 and up."""
    data: list[dict[str, Any]] = []
    for name, ident, partitions in topics:
        parts = [{"partition_index": p, "committed_offset": 10 + p, "committed_metadata": f"m{p}"} for p in partitions]
        data.append({**({"topic_id": ident} if version >= 10 else {"name": name}), "partitions": parts})
    return request("OffsetCommit", **{"group_id": group, "topics": data, **fields})


def fetched(version: int, group: str, *topics: tuple[str, Uuid, list[int]], everything: bool = False) -> Any:
    """Give an OffsetFetch in the form of its version."""
    if version < 8:
        listed = [{"name": name, "partition_indexes": partitions} for name, _, partitions in topics]
        return request("OffsetFetch", group_id=group, topics=None if everything else listed)
    newer: list[dict[str, Any]] = [
        {**({"topic_id": ident} if version >= 10 else {"name": name}), "partition_indexes": partitions}
        for name, ident, partitions in topics
    ]
    return request("OffsetFetch", groups=[{"group_id": group, "topics": None if everything else newer}])


@side_by_side
def test_offsets_of_groups(s: Side) -> None:
    ready(s, "keeps", "keeps-none")
    ident, gone = s.topic("kept", 2), Uuid(b"\2" * 16)
    known, unknown, odd = ("kept", ident, [0, 1]), ("kept-none", gone, [0]), ("kept", ident, [0, 7])
    for version in range(2, 11):
        s.call(committed(version, "keeps", known), version)
        s.call(committed(version, "keeps", known), version, NOBODY)
        s.call(committed(version, "keeps", known, unknown), version, note="unknown topic")
        s.call(committed(version, "keeps", odd), version, note="unknown partition")
        s.call(committed(version, "keeps"), version, note="nothing")
        s.call(committed(version, "", known), version, note="empty group")
        fields = {"generation_id_or_member_epoch": 3, "member_id": "x"}
        s.call(committed(version, "keeps", known, **fields), version, note="as a member")
        s.call(committed(version, "keeps-none", known, **fields), version, note="as a member of nothing")
        long = committed(version, "keeps", known)
        long.topics[0].partitions[0].committed_metadata = "x" * 5000
        s.call(long, version, note="much metadata")
        null = committed(version, "keeps", known)
        null.topics[0].partitions[0].committed_metadata = None
        s.call(null, version, note="no metadata")
        negative = committed(version, "keeps", known)
        negative.topics[0].partitions[0].committed_offset = -5
        s.call(negative, version, note="negative")
        s.call(committed(version, "keeps", known), version, note="at last")
    for version in range(1, 11):
        for user in (ADMIN, NOBODY):
            s.call(fetched(version, "keeps", known), version, user)
            s.call(fetched(version, "keeps", odd, unknown), version, user, note="unknown")
            s.call(fetched(version, "keeps-none", known), version, user, note="no such group")
            s.call(fetched(version, "", known), version, user, note="empty group")
            s.call(fetched(version, "keeps"), version, user, note="nothing")
            if version >= 2:
                s.call(fetched(version, "keeps", everything=True), version, user, note="everything")
                s.call(fetched(version, "keeps-none", everything=True), version, user, note="everything of nothing")
    several = [{"group_id": g, "topics": None} for g in ("keeps", "keeps-none", "", "keeps")]
    for version in (8, 9, 10):
        s.call(request("OffsetFetch", groups=several), version)
        s.call(request("OffsetFetch", groups=[]), version)
        member = [{"group_id": "keeps", "topics": None, "member_id": "x", "member_epoch": 4}]
        s.call(request("OffsetFetch", groups=member), version, note="as a member") if version >= 9 else None
    s.allow("alice", AclOperation.READ, ResourceType.GROUP, "keeps")
    for version in (2, 8, 9, 10):
        s.call(committed(version, "keeps", known, unknown), version, "alice", note="no right to the topic")
        s.call(fetched(version, "keeps", known, unknown), version, "alice", note="no right to the topic")
        s.call(fetched(version, "keeps", everything=True), version, "alice", note="no right to the topic")

    def deletion(group: str, topic: str, *partitions: int) -> Any:
        data = [{"name": topic, "partitions": [{"partition_index": p} for p in partitions]}]
        return request("OffsetDelete", group_id=group, topics=data)

    for asked in (
        deletion("keeps", "kept", 0), deletion("keeps", "kept", 0, 1, 9), deletion("keeps", "kept-none", 0),
        deletion("nowhere", "kept", 0), deletion("", "kept", 0), request("OffsetDelete", group_id="keeps", topics=[]),
    ):  # fmt: skip
        for user in (NOBODY, "alice", ADMIN):
            s.call(asked, 0, user)
    s.call(fetched(9, "keeps", known), 9)


@side_by_side
def test_offsets_of_members(s: Side) -> None:
    ready(s, "active")
    ident = s.topic("active-topic")
    known = ("active-topic", ident, [0])
    first = s.call(join("active"), 3)
    fields = {"generation_id_or_member_epoch": first.generation_id, "member_id": first.member_id}
    s.call(committed(8, "active", known, **fields), 8, note="before the sync")
    s.call(sync("active", first.generation_id, first.member_id, assignments=[]), 3)
    for version in (2, 6, 9, 10):
        s.call(committed(version, "active", known, **fields), version)
        s.call(committed(version, "active", known), version, note="as nobody of the group")
        s.call(committed(version, "active", known, **{**fields, "member_id": "x"}), version, note="wrong member")
        wrong = {**fields, "generation_id_or_member_epoch": 9}
        s.call(committed(version, "active", known, **wrong), version, note="wrong generation")
    deletion = [{"name": "active-topic", "partitions": [{"partition_index": 0}]}]
    s.call(request("OffsetDelete", group_id="active", topics=deletion))
    members = [{"member_id": first.member_id}]
    s.call(request("LeaveGroup", group_id="active", members=members), 4)
