"""The consumer group protocol (KIP-848): what its heartbeats are told, well-behaved ones and hostile ones."""

from __future__ import annotations

from typing import Any, Final

import pytest

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import ZERO_UUID, Uuid

from .requests import request
from .script import side_by_side
from .side import ADMIN, NOBODY, Side
from .test_groups import ready

pytestmark = pytest.mark.peer
A, B, C = "member-a", "member-b", "member-c"
FIRST, SECOND, THIRD = 2, 3, 4
"""The epochs of a group as members join: each join is another. An empty group is in epoch 1."""
STRANGER: Final = Uuid(b"no such topic id")


def heartbeat(group: str, member: str = A, epoch: int = 0, **fields: Any) -> Any:
    """Give a ConsumerGroupHeartbeat: of one that joins when the epoch is 0, of one that has no news otherwise."""
    joins: dict[str, Any] = {}
    if epoch == 0:
        joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["beats"], "topic_partitions": []}
    asked = {"group_id": group, "member_id": member, "member_epoch": epoch, **joins, **fields}
    return request("ConsumerGroupHeartbeat", **asked)


def beats(s: Side) -> Uuid:
    """Give the topic that all of them read, which the first script makes; it has four partitions."""
    known = s.ask(request("Metadata", topics=[{"name": "beats"}], allow_auto_topic_creation=False)).topics[0]
    return s.topic("beats", 4) if known.error_code else known.topic_id


def owning(topic_id: Uuid, *partitions: int) -> dict[str, Any]:
    """Give the field of a heartbeat that says what the member has."""
    return {"topic_partitions": [{"topic_id": topic_id, "partitions": list(partitions)}]}


def describe(s: Side, *groups: str, user: str = ADMIN) -> None:
    """Describe groups every way there is."""
    for version in (0, 1):
        for told in (False, True):
            asked = request("ConsumerGroupDescribe", group_ids=list(groups), include_authorized_operations=told)
            s.call(asked, version, user)
    for version in (5, 6):
        s.call(request("DescribeGroups", groups=list(groups)), version, user)


@side_by_side
def test_heartbeats_that_mean_nothing(s: Side) -> None:
    beats(s)
    ready(s, "hostile", "", " ")
    wrong: Final[list[dict[str, Any]]] = [
        {"group": ""},
        {"group": " "},
        {"member": ""},
        {"member": " "},
        {"instance_id": ""},
        {"instance_id": "  "},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        owning(STRANGER, 0),
        {"subscribed_topic_names": None},
        {"server_assignor": "no-such-assignor"},
        {"server_assignor": ""},
        {"server_assignor": "UNIFORM"},
    ]
    for fields in wrong:
        for version in (0, 1):
            if not fields.get("member", A).strip() and version == 0:
                continue  # the member gets an id
            said: dict[str, Any] = {"group": "hostile", **fields}
            s.call(heartbeat(**said), version, note=f"{fields}")
    for epoch in (-3, -2, -1, 1, 7, 2**31 - 1, -(2**31)):
        for member in (A, ""):
            for instance in (None, "i"):
                for version in (0, 1):
                    asked = heartbeat("hostile", member, epoch, instance_id=instance)
                    s.call(asked, version, note=f"{member!r} {epoch} {instance}")
    describe(s, "hostile", "", "hostile")


@side_by_side
def test_regular_expressions_that_are_none(s: Side) -> None:
    beats(s)
    for regex in ("[", "(", ")", "*", "a**", "(?=beats)", r"(.)\1", "a{1001}", "[z-a]", "(?P<n", "\\", r"\p{Nope}"):
        ready(s, f"regex {regex}")
        fields: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": regex}
        s.call(heartbeat(f"regex {regex}", **fields), note=regex)
        s.call(request("ConsumerGroupDescribe", group_ids=[f"regex {regex}"]), note=regex)
    ready(s, "changes")
    s.call(heartbeat("changes"))
    for regex in ("[", ""):
        s.call(heartbeat("changes", epoch=FIRST, subscribed_topic_regex=regex), note=repr(regex))
    s.call(heartbeat("changes", epoch=-1))


@side_by_side
def test_odd_subscriptions(s: Side) -> None:
    topic_id = beats(s)
    for number, names in enumerate(([], ["no-such-topic"], ["beats", "beats"], [""], ["not a name!"], ["__x"] * 50)):
        group = f"odd-{number}"
        ready(s, group)
        for version in (0, 1):
            s.call(heartbeat(group, f"{A}{version}", subscribed_topic_names=names), version, note=f"{names}")
        describe(s, group)
        s.call(heartbeat(group, f"{A}0", FIRST, subscribed_topic_names=["beats"]), note="changes its mind")
        s.call(heartbeat(group, f"{A}0", THIRD, **owning(STRANGER, 5)), note="owns what there is not")
        s.call(heartbeat(group, f"{A}0", THIRD, **owning(topic_id, 0, 0, 9)), note="owns too much")
        for version in (0, 1):
            s.call(heartbeat(group, f"{A}{version}", -1))
    ready(s, "sizes")
    for fields in ({"rebalance_timeout_ms": 0}, {"rebalance_timeout_ms": -7}, {"rack_id": "r" * 1000}):
        s.call(heartbeat("sizes", "m" * 1000, **fields), note=f"{list(fields)}")
    describe(s, "sizes")


@side_by_side
def test_the_life_of_a_group(s: Side) -> None:
    topic_id = beats(s)
    group = "life"
    ready(s, group)
    s.call(heartbeat(group, A))
    s.call(heartbeat(group, A), note="joins again")
    s.call(heartbeat(group, A, FIRST, **owning(topic_id, 0, 1, 2, 3)))
    describe(s, group)
    s.call(heartbeat(group, B, server_assignor="range"))
    s.call(heartbeat(group, B, SECOND, topic_partitions=[]), note="waits")
    describe(s, group)
    s.call(heartbeat(group, A, FIRST), note="is told to give up")
    s.call(heartbeat(group, A, FIRST, **owning(topic_id, 0, 1, 2, 3)), note="has not yet")
    describe(s, group)
    s.call(heartbeat(group, A, FIRST, **owning(topic_id, 0, 1)), note="gives up")
    s.call(heartbeat(group, B, SECOND, topic_partitions=[]), note="gets them")
    s.call(heartbeat(group, B, SECOND, **owning(topic_id, 2, 3)))
    describe(s, group)
    for epoch in (FIRST - 1, FIRST, THIRD, 99):
        for fields in ({}, owning(topic_id, 0), owning(topic_id, 3)):
            s.call(heartbeat(group, A, epoch, **fields), note=f"at {epoch} {len(fields)}")
    s.call(heartbeat(group, C, SECOND), note="nobody knows")
    _offsets(s, group, topic_id)
    for version in (4, 5):
        for states in ([], ["Stable"], ["empty"]):
            types = [["consumer"], ["classic"], ["Consumer", "share"]] if version == 5 else [[]]
            for wanted in types:
                fields = {"states_filter": states, **({"types_filter": wanted} if wanted else {})}
                listed = s.ask(request("ListGroups", **fields), version)
                listed.groups = [g for g in listed.groups if g.group_id == group]
                s.note(request("ListGroups", **fields), version, ADMIN, listed, f"{states} {wanted}")
    s.call(request("DeleteGroups", groups_names=[group]), note="with members")
    for name in ("beats", "other"):
        topics = [{"name": name, "partitions": [{"partition_index": 0}]}]
        s.call(request("OffsetDelete", group_id=group, topics=topics), note=name)
    s.call(heartbeat(group, B, -1))
    s.call(heartbeat(group, B, -1), note="again")
    s.call(heartbeat(group, A, SECOND))
    describe(s, group)
    s.call(heartbeat(group, A, -1))
    describe(s, group)
    s.call(request("DeleteGroups", groups_names=[group]))
    describe(s, group)


def _offsets(s: Side, group: str, topic_id: Uuid) -> None:
    """Commit and fetch as members do, and as others."""
    for version in (8, 9, 10):
        for member, epoch in (
            (A, SECOND),
            (A, FIRST),
            (A, 1),
            (A, 0),
            (A, THIRD),
            (A, -1),
            (C, SECOND),
            ("", -1),
            ("", SECOND),
        ):
            for partition in (0, 3):
                topic: dict[str, Any] = {"partitions": [{"partition_index": partition, "committed_offset": epoch + 9}]}
                topic |= {"topic_id": topic_id} if version >= 10 else {"name": "beats"}
                asked = request(
                    "OffsetCommit",
                    group_id=group,
                    member_id=member,
                    generation_id_or_member_epoch=epoch,
                    topics=[topic],
                )
                s.call(asked, version, note=f"{member!r} {epoch} {partition}")
    for version in (9, 10):
        for who, epoch in ((A, SECOND), (A, FIRST), (A, THIRD), (None, -1), (None, SECOND), (A, -1), (C, 3), ("", 3)):
            place = {"topic_id": topic_id} if version >= 10 else {"name": "beats"}
            for topics in ([{"partition_indexes": [0, 3], **place}], None):
                wanted = {"group_id": group, "member_id": who, "member_epoch": epoch, "topics": topics}
                s.call(request("OffsetFetch", groups=[wanted]), version, note=f"{who!r} {epoch}")
    _transactional_offsets(s, group)
    nowhere = [{"topic_id": ZERO_UUID, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    asked = request("OffsetCommit", group_id=group, member_id=A, generation_id_or_member_epoch=SECOND, topics=nowhere)
    s.call(asked, 10, note="no topic")


def _transactional_offsets(s: Side, group: str) -> None:
    """Commit in a transaction as members do, and as others."""
    s.until(request("FindCoordinator", key_type=1, coordinator_keys=["t"]), lambda a: a.coordinators[0].error_code == 0)
    begin = request("InitProducerId", transactional_id="t", transaction_timeout_ms=60_000)
    producer = s.until(begin, lambda a: a.error_code == 0)
    mine = {"transactional_id": "t", "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    s.until(request("AddOffsetsToTxn", **mine, group_id=group), lambda a: a.error_code == 0)
    topics = [{"name": "beats", "partitions": [{"partition_index": p, "committed_offset": 1} for p in (0, 3)]}]
    for version in (2, 3, 4):
        for member, epoch in (
            (A, SECOND),
            (A, FIRST),
            (A, 1),
            (A, 0),
            (A, THIRD),
            (A, -1),
            (C, SECOND),
            ("", -1),
            ("", SECOND),
        ):
            who = {"member_id": member, "generation_id": epoch} if version >= 3 else {}
            asked = request("TxnOffsetCommit", **mine, group_id=group, topics=topics, **who)
            s.call(asked, version, note=f"{member!r} {epoch}")
    s.until(request("EndTxn", **mine, committed=False), lambda a: a.error_code == 0, 4)


@side_by_side
def test_static_members(s: Side) -> None:
    topic_id = beats(s)
    group = "static"
    ready(s, group)
    s.call(heartbeat(group, A, instance_id="one"))
    s.call(heartbeat(group, B, instance_id="two"))
    s.call(heartbeat(group, C, instance_id="one"), note="the instance has not left")
    s.call(heartbeat(group, A, FIRST, instance_id="two"), note="of another")
    s.call(heartbeat(group, A, FIRST, instance_id="three"), note="of nobody")
    s.call(heartbeat(group, A, FIRST, instance_id="one", **owning(topic_id, 0, 1)))
    s.call(heartbeat(group, A, -2, instance_id="two"), note="leaves as another")
    s.call(heartbeat(group, A, -2, instance_id="one"), note="leaves for a while")
    describe(s, group)
    s.call(heartbeat(group, A, THIRD, instance_id="one"), note="after it left")
    s.call(heartbeat(group, C, instance_id="one"), note="comes back")
    s.call(heartbeat(group, A, THIRD, instance_id="one"), note="was replaced")
    describe(s, group)
    for who in (
        {"group_instance_id": "nobody"},
        {"member_id": "nobody"},
        {"member_id": A, "group_instance_id": "one"},
        {"group_instance_id": "one"},
        {"member_id": B},
    ):
        s.call(request("LeaveGroup", group_id=group, members=[who]), note=f"{who}")
    describe(s, group)


@side_by_side
def test_who_may(s: Side) -> None:
    topic_id = beats(s)
    s.topic("hidden", 1)
    for group in ("guarded", "guarded-2"):
        ready(s, group)
        for user in (NOBODY, "bob"):
            s.call(heartbeat(group, A), user=user, note=group)
            describe(s, group, user=user)
        s.allow("bob", AclOperation.READ, ResourceType.GROUP, group)
    s.call(heartbeat("guarded", A), user="bob", note="may not know of the topic")
    s.call(heartbeat("guarded", A, subscribed_topic_names=[]), user="bob", note="asks for no topic")
    s.allow("bob", AclOperation.DESCRIBE, ResourceType.TOPIC, "beats")
    s.call(heartbeat("guarded", A), user="bob")
    another = heartbeat("guarded", A, SECOND, subscribed_topic_names=["beats", "hidden"])
    s.call(another, user="bob", note="and another")
    s.call(heartbeat("guarded", A, SECOND, **owning(topic_id, 0, 1)), user="bob")
    s.call(heartbeat("guarded-2", A, subscribed_topic_names=["beats", "hidden"]))
    describe(s, "guarded", "guarded-2", user="bob")
    describe(s, "guarded", "guarded-2", user=NOBODY)
    describe(s, "guarded", "guarded-2")


@side_by_side
def test_a_group_of_the_other_protocol(s: Side) -> None:
    beats(s)
    group = "classic-first"
    ready(s, group)
    joins = {"protocol_type": "other", "protocols": [{"name": "range", "metadata": b"meta"}]}
    asked = request("JoinGroup", group_id=group, session_timeout_ms=300_000, rebalance_timeout_ms=60_000, **joins)
    answer = s.call(asked, 3)
    s.call(heartbeat(group), note="somebody else's")
    describe(s, group)
    members = [{"member_id": answer.member_id}]
    s.call(request("LeaveGroup", group_id=group, members=members))
    s.call(heartbeat(group), note="nobody's any more")
    describe(s, group)
    s.call(asked, 3, note="of another kind")
    s.call(heartbeat(group, epoch=-1))
