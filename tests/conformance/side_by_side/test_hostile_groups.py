"""Groups with bad input: metadata of any size, requests of the other protocol, heartbeats that make no sense."""

# ruff: noqa: E501 - tables of requests

from __future__ import annotations

from typing import Any, Final

import pytest

from barnabas.model.uuid import Uuid

from .requests import request
from .script import side_by_side
from .side import ADMIN, Side
from .test_consumer_groups import FIRST, SECOND, STRANGER, THIRD, A, B, beats, describe, heartbeat, owning
from .test_groups import committed, fetched, join, ready, sync

pytestmark = pytest.mark.peer
TEXTS: Final = {
    "4096": "m" * 4096,
    "4097": "m" * 4097,
    "4096 of two bytes": "é" * 4096,
    "2048 of four bytes": "😀" * 2048,
    "2049 of four bytes": "😀" * 2049,
    "32767": "m" * 32_767,
}
"""offset.metadata.max.bytes is 4096, and Kafka counts Java's characters."""
ROOM: Final = 100_000
"""How much the topics of the coordinators take in one batch here."""
NUMBERS: Final = (-(2**31), -5, -1, 0, 1, 2**31 - 1)


@side_by_side
def test_metadata_of_offsets_of_any_size(s: Side) -> None:
    ready(s, "sized")
    ident = s.topic("sized", 40)
    for note, text in TEXTS.items():
        for version in (2, 8, 10):
            asked = committed(version, "sized", ("sized", ident, [0, 1]))
            asked.topics[0].partitions[0].committed_metadata = text
            s.call(asked, version, note=note)
        s.call(fetched(10, "sized", ("sized", ident, [0, 1])), 10, note=note)
    for version in (2, 8, 10):
        asked = committed(version, "sized", ("sized", ident, list(range(40))))
        for each in asked.topics[0].partitions:
            each.committed_metadata = TEXTS["4096"]
        s.call(asked, version, note="too much together")
        twice = committed(version, "sized", ("sized", ident, [2, 2]), ("sized", ident, [2]))
        twice.topics[0].partitions[1].committed_offset = 77
        s.call(twice, version, note="a partition twice")
        strange = committed(version, "sized", ("sized", ident, [-1, 2**31 - 1]))
        s.call(strange, version, note="no partitions of it")
    for version in (2, 6, 10):
        for offset in (-(2**63), -2, -1, 2**63 - 1):
            asked = committed(version, "sized", ("sized", ident, [3]))
            asked.topics[0].partitions[0].committed_offset = offset
            s.call(asked, version, note=f"offset {offset}")
        if version >= 6:
            for epoch in (-(2**31), -2, 2**31 - 1):
                asked = committed(version, "sized", ("sized", ident, [3]))
                asked.topics[0].partitions[0].committed_leader_epoch = epoch
                s.call(asked, version, note=f"leader epoch {epoch}")
    for retention in (-2, 0, 1, 2**63 - 1):
        s.call(committed(4, "sized", ("sized", ident, [4]), retention_time_ms=retention), 4, note=f"kept {retention}")
    s.call(fetched(10, "sized", ("sized", ident, list(range(40)))), 10)


@side_by_side
def test_members_with_too_much_to_say(s: Side) -> None:
    """Left out: junk for a subscription, after whose first length Kafka never answers the JoinGroup."""
    ready(s, "loud", "louder", "loudest")
    much: dict[str, Any] = {"protocols": [{"name": "range", "metadata": b"\0" * (2 * ROOM)}]}
    first = s.call(join("loud", **much), 3)
    shares = [{"member_id": first.member_id, "assignment": b"mine"}]
    s.call(sync("loud", first.generation_id, first.member_id, assignments=shares), 3)
    s.call(request("DescribeGroups", groups=["loud"]))
    second = s.call(join("louder"), 3)
    shares = [{"member_id": second.member_id, "assignment": b"x" * (2 * ROOM)}]
    s.call(sync("louder", second.generation_id, second.member_id, assignments=shares), 3)
    s.call(request("DescribeGroups", groups=["louder"]))
    names = [f"{number:04d}{'n' * 200}" for number in range(ROOM // 100)]
    s.call(heartbeat("loudest", subscribed_topic_names=names), note="many names")
    s.call(heartbeat("loudest", instance_id="i" * 32_767, rack_id="r" * 32_767), note="long names")
    s.call(request("ConsumerGroupDescribe", group_ids=["loudest"]))
    s.call(request("LeaveGroup", group_id="loud", members=[{"member_id": first.member_id}]))
    s.call(request("LeaveGroup", group_id="louder", members=[{"member_id": second.member_id}]))


@side_by_side
def test_joins_that_make_no_sense(s: Side) -> None:
    ready(s, "senseless")
    for version in (0, 1, 5, 9):
        for timeout in (-(2**31), -1, 0, 2**31 - 1):
            s.call(join("senseless", session_timeout_ms=timeout), version, note=f"session {timeout}")
    for kind, names in (
        ("consumer", ["", "range"]),
        ("consumer", ["n" * 32_767]),
        (" ", ["range"]),
        ("unheard-of", ["range"]),
    ):
        protocols = [{"name": name, "metadata": b""} for name in names]
        answer = s.call(join("senseless", protocol_type=kind, protocols=protocols), 3, note=f"{kind} {names}"[:40])
        s.call(request("DescribeGroups", groups=["senseless"]), note=f"{kind} {names}"[:40])
        s.call(request("LeaveGroup", group_id="senseless", members=[{"member_id": answer.member_id}]))
    first = s.call(join("senseless"), 3)
    for generation in NUMBERS:
        beat = {"group_id": "senseless", "generation_id": generation, "member_id": first.member_id}
        s.call(request("Heartbeat", **beat), note=f"{generation}")
        s.call(
            sync("senseless", generation + 7 if generation == 1 else generation, first.member_id),
            3,
            note=f"{generation}",
        )
        s.call(request("Heartbeat", **beat, group_instance_id="none"), note=f"{generation}, an instance")
    other = [{"member_id": "nobody", "assignment": b"x"}, {"member_id": first.member_id, "assignment": b"y"}]
    s.call(
        sync("senseless", first.generation_id, first.member_id, assignments=other * 2), 3, note="twice, and nobody's"
    )
    for reason in ("", "r" * 300, "é" * 255):
        who = {"member_id": "nobody", "reason": reason}
        s.call(request("LeaveGroup", group_id="senseless", members=[who, who]), 5, note=f"{len(reason)}")
    members = [{"member_id": first.member_id}, {"member_id": first.member_id}]
    s.call(request("LeaveGroup", group_id="senseless", members=members), note="twice")


@side_by_side
def test_classic_requests_to_a_consumer_group(s: Side) -> None:
    topic_id = beats(s)
    group = "of-consumers"
    ready(s, group)
    s.call(heartbeat(group))
    s.call(heartbeat(group, epoch=FIRST, **owning(topic_id, 0, 1, 2, 3)))
    for member in (A, "x", ""):
        for generation in (FIRST, 1, -1):
            for version in (0, 4):
                beat = {"group_id": group, "generation_id": generation, "member_id": member}
                s.call(request("Heartbeat", **beat), version, note=f"{member!r} {generation}")
                s.call(sync(group, generation, member), version, note=f"{member!r} {generation}")
        for version in (0, 9):
            s.call(join(group, member, protocol_type="other"), version, note=f"{member!r}, another type")
            s.call(join(group, member, protocols=[{"name": "range", "metadata": b"junk"}]), version, note=f"{member!r}")
        for version in range(2, 10):
            fields = {"member_id": member, "generation_id_or_member_epoch": FIRST}
            s.call(committed(version, group, ("beats", topic_id, [0]), **fields), version, note=f"{member!r}")
    s.call(request("LeaveGroup", group_id=group, member_id="x"), 2)
    describe(s, group)
    s.call(request("LeaveGroup", group_id=group, member_id=A), 2)
    describe(s, group)
    s.call(heartbeat(group, epoch=FIRST))


@side_by_side
def test_heartbeats_that_make_no_sense(s: Side) -> None:
    topic_id = beats(s)
    group = "nonsense"
    ready(s, group)
    s.call(heartbeat(group, instance_id="one"))
    s.call(heartbeat(group, B))
    s.call(heartbeat(group, epoch=FIRST, instance_id="one", **owning(topic_id, 0, 1, 2, 3)))
    for epoch in NUMBERS[:2] + NUMBERS[4:] + (FIRST - 1, THIRD):
        for instance in ("one", "two", None):
            for owned in ({}, owning(topic_id, 0, 1)):
                s.call(
                    heartbeat(group, A, epoch, instance_id=instance, **owned), note=f"{epoch} {instance} {len(owned)}"
                )
        s.call(heartbeat(group, B, epoch), note=f"b {epoch}")
    for timeout in (-(2**31), -2, -1, 0, 1):
        s.call(heartbeat(group, B, SECOND, rebalance_timeout_ms=timeout), note=f"timeout {timeout}")
        s.call(heartbeat(group, "new", rebalance_timeout_ms=timeout), note=f"new, timeout {timeout}")
    describe(s, group)
    twice = [{"topic_id": topic_id, "partitions": [0]}, {"topic_id": topic_id, "partitions": [0, 1, 1]}]
    odd: dict[str, Any] = {
        "twice": twice,
        "negative": owning(topic_id, -1)["topic_partitions"],
        "too many": owning(topic_id, *range(3000))["topic_partitions"],
        "of nothing": owning(Uuid(bytes(16)), 0)["topic_partitions"],
        "of no partition": owning(topic_id)["topic_partitions"],
        "of a stranger": owning(STRANGER, 0)["topic_partitions"],
    }
    for note, owned in odd.items():
        s.call(heartbeat(group, B, SECOND, topic_partitions=owned), note=note)
        s.call(heartbeat(group, "new", topic_partitions=owned), note=f"new, {note}")
    news: list[dict[str, Any]] = [
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None, "subscribed_topic_regex": None},
        {"subscribed_topic_names": [""]},
        {"subscribed_topic_regex": "("},
        {"subscribed_topic_regex": "a" * 32_000},
        {"server_assignor": "nobody's"},
        {"server_assignor": ""},
        {"rack_id": ""},
        {"rack_id": " "},
        {"instance_id": ""},
        {"instance_id": "one"},
        {"instance_id": "three"},
    ]
    for fields in news:
        s.call(heartbeat(group, B, THIRD, **fields), note=f"{fields}"[:60])
    describe(s, group)
    for member, epoch, instance in (
        (B, -2, None),
        (B, -2, "one"),
        (A, -1, "two"),
        (A, -1, None),
        (B, -1, None),
        ("new", -1, "x"),
    ):
        s.call(heartbeat(group, member, epoch, instance_id=instance), note=f"{member} leaves {epoch} {instance}")
    describe(s, group)


REFUSED_OR_NONE: Final = (
    "b{1001}", r"\C+", r"beat\C", "beats++", "(?<n>x", r"\Abeats\Z", "(?>beats)", r"\8", r"\u0062eats", r"\h", "[", "*", "a**", "(?=beats)", "a??", "\0", "é",
    "(" * 1100 + ")" * 1100, "a{", "]", "a|*", "|", "beat", "eats", "BEATS",
)  # fmt: skip
"""Regular expressions that Kafka, which asks RE2/J, refuses, or that match no topic."""
MATCHING: Final = (
    r"bea\pL+", r"bea[[:alpha:]]+", r"\Qbeats\E", "(?P<n>beats)", "(?<n>beats)", r"\Abeats\z", "(?U)be.*", r"\x62eats", "[a-b]eats", r"\bbeats\b",
    "^beats$", "(?i)BEATS", "beat.", "beats|x", "(?s)be.ts", "beats??", r"\Qbeats\E|\Q\C", r"\\C|beats",
)  # fmt: skip
"""Regular expressions that it takes, and that match the topic alone."""


@side_by_side
def test_odd_regular_expressions(s: Side) -> None:
    beats(s)
    regexes = [*REFUSED_OR_NONE, *MATCHING]
    groups = {regex: f"odd-regex-{number}" for number, regex in enumerate(regexes)}
    ready(s, *groups.values())
    for regex, group in groups.items():
        note = repr(regex)[:40]
        answer = s.ask(heartbeat(group, subscribed_topic_names=None, subscribed_topic_regex=regex))
        if answer.error_code:
            s.note(heartbeat(group), 1, ADMIN, answer, note)  # else Kafka resolves it a little later than we do
        if regex in MATCHING and not answer.error_code:
            _until_assigned(s, group, answer.member_epoch)
        s.call(request("ConsumerGroupDescribe", group_ids=[group]), note=note)
        s.call(heartbeat(group, epoch=-1), note=note)


def _until_assigned(s: Side, group: str, epoch: int) -> None:
    """Wait until the expression is resolved, which happens beside, and the topics that match are the member's."""
    at = epoch

    def has_all(answer: Any) -> bool:
        nonlocal at
        at = s.ask(heartbeat(group, epoch=at)).member_epoch
        member = answer.groups[0].members[0]
        return bool(member.target_assignment.topic_partitions and member.assignment.topic_partitions)

    s.until(request("ConsumerGroupDescribe", group_ids=[group]), has_all)


@side_by_side
def test_lists_by_odd_kinds(s: Side) -> None:
    ready(s, "kinds")
    s.call(join("kinds"), 3)

    def some(**fields: Any) -> None:
        answer = s.ask(request("ListGroups", **fields))
        answer.groups = [g for g in answer.groups if g.group_id == "kinds"]
        s.note(request("ListGroups"), 5, ADMIN, answer, f"{fields}"[:60])

    for kinds in (
        [""],
        [" classic"],
        ["CLASSIC", "classic"],
        ["classic", "nobody's"],
        ["streams", "share"],
        ["é" * 999],
    ):
        some(types_filter=kinds)
        some(types_filter=kinds, states_filter=["CompletingRebalance"])
    for states in ([""], [" Stable"], ["completingrebalance"], ["completing_rebalance"], ["Assigning"], ["NotReady"]):
        some(states_filter=states)
        some(types_filter=["consumer"], states_filter=states)
    for kind in (-128, -1, 3, 127):
        for version in (1, 4, 6):
            keys = {"key": "kinds"} if version < 4 else {"coordinator_keys": ["kinds"]}
            s.call(request("FindCoordinator", key_type=kind, **keys), version, note=f"{kind}")
