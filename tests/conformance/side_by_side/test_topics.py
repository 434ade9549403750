"""Metadata and the APIs that make, change and delete topics."""

from __future__ import annotations

from typing import Any, Final

import pytest

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import Uuid

from .requests import request
from .script import side_by_side
from .side import NOBODY, Side

pytestmark = pytest.mark.peer
NO_TOPIC: Final = Uuid(b"\1" * 16)


def _creation(*topics: dict[str, Any], **fields: Any) -> Any:
    full = [{"num_partitions": 1, "replication_factor": 1, **topic} for topic in topics]
    return request("CreateTopics", topics=full, timeout_ms=60_000, **fields)


@side_by_side
def test_metadata(s: Side) -> None:
    s.topic("metadata-a", 3)
    s.topic("metadata-b")
    names = [{"name": name} for name in ("metadata-a", "metadata-b", "metadata-none", "bad name!", "..", "x" * 250)]
    for auto in (False, None):
        fields = {} if auto is None else {"allow_auto_topic_creation": auto}
        s.every_version(request("Metadata", topics=names[:2], **fields))
    s.every_version(request("Metadata", topics=names[2:], allow_auto_topic_creation=False))
    s.every_version(request("Metadata", topics=[{"name": "metadata-a"}, {"name": "metadata-a"}]))
    s.every_version(request("Metadata", topics=[]))
    s.every_version(
        request("Metadata", topics=names[:3], allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    )
    s.every_version(request("Metadata", topics=[], include_cluster_authorized_operations=True))
    s.every_version(request("Metadata", topics=[{"name": ""}], allow_auto_topic_creation=False), note="empty name")


@side_by_side
def test_metadata_by_topic_id(s: Side) -> None:
    known = s.topic("metadata-by-id", 2)
    cases: list[list[dict[str, Any]]] = [
        [{"name": None, "topic_id": known}],
        [{"name": None, "topic_id": NO_TOPIC}],
        [{"name": None, "topic_id": known}, {"name": None, "topic_id": NO_TOPIC}],
        [{"name": "metadata-by-id", "topic_id": known}],
        [{"name": None}],
        [{"name": None, "topic_id": known}, {"name": "metadata-by-id"}],
    ]
    for topics in cases:
        for allow in (False, True):
            for operations in (False, True):
                asked = request(
                    "Metadata",
                    topics=topics,
                    allow_auto_topic_creation=allow,
                    include_topic_authorized_operations=operations,
                )
                for version in range(10, 14):
                    for user in ("admin", NOBODY):
                        if version < 12 and any(topic["name"] is None for topic in topics):
                            continue
                        s.call(asked, version, user, note=f"{len(topics)} topics")


@side_by_side
def test_metadata_as_somebody_with_some_rights(s: Side) -> None:
    known = s.topic("metadata-mine")
    s.topic("metadata-others")
    s.allow("alice", AclOperation.DESCRIBE, ResourceType.TOPIC, "metadata-mine")
    s.allow("alice", AclOperation.READ, ResourceType.TOPIC, "metadata-mine")
    s.allow("alice", AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    names = [{"name": "metadata-mine"}, {"name": "metadata-others"}, {"name": "metadata-none"}]
    s.every_version(request("Metadata", topics=names, allow_auto_topic_creation=False), users=("alice",))
    everything = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
    s.every_version(request("Metadata", topics=names, **everything), users=("alice",))
    s.every_version(request("Metadata", topics=None, **everything), users=("alice", NOBODY))
    s.call(request("Metadata", topics=[{"name": None, "topic_id": known}], **everything), user="alice")
    for version in range(8, 11):
        s.call(request("Metadata", topics=[], include_cluster_authorized_operations=True), version, "alice")
    for version in (0, 1, 4, 13):
        s.call(request("Metadata", topics=[{"name": "metadata-new"}]), version, "alice", note="may not create")
    s.every_version(request("DescribeCluster", include_cluster_authorized_operations=True), users=("alice",))


@side_by_side
def test_auto_creation(s: Side) -> None:
    for version in range(14):
        asked = request("Metadata", topics=[{"name": f"auto-{version}"}])
        s.call(asked, version, note="first")
        s.settle()
        s.until(asked, lambda answer: answer.topics[0].error_code == 0)
        s.call(asked, version, note="second")
    for name in ("bad name!", "auto.1", "auto_1", "__consumer_offsets.x"):
        asked = request("Metadata", topics=[{"name": name}])
        s.call(asked, note=name)
        s.settle()
    s.call(request("Metadata", topics=[{"name": "auto_1"}]), 4, note="collides")


@side_by_side
def test_create_topics(s: Side) -> None:
    for version in range(2, 8):
        made = _creation({"name": f"made-{version}", "num_partitions": 3})
        s.call(made, version, NOBODY)
        s.call(_creation({"name": f"made-{version}"}, validate_only=True), version, note="validated")
        s.call(made, version)
        s.settle()
        s.call(made, version, note="again")
        s.call(_creation({"name": f"made-{version}"}, validate_only=True), version, note="validated again")
        s.call(made, version, NOBODY, note="again")
        if version >= 4:
            defaults = {"name": f"defaults-{version}", "num_partitions": -1, "replication_factor": -1}
            s.call(_creation(defaults), version)
    configs = [{"name": "retention.ms", "value": "5000"}, {"name": "cleanup.policy", "value": "compact"}]
    s.every_version(lambda v: _creation({"name": f"configured-{v}", "configs": configs}), users=("admin",))
    s.call(request("Metadata", topics=[{"name": "made-7"}, {"name": "defaults-7"}]))


CREATIONS: Final[dict[str, list[dict[str, Any]]]] = {
    "names": [{"name": n} for n in ("", ".", "..", "a b", "x" * 250, "x" * 249, "ä", "a.b", "__consumer_offsets")],
    "twice": [{"name": "twice"}, {"name": "twice"}, {"name": "once"}],
    "collision": [{"name": "made.7"}, {"name": "made_7"}],
    "collision in one": [{"name": "both.x"}, {"name": "both_x"}],
    "counts": [
        {"name": "c1", "num_partitions": 0},
        {"name": "c2", "num_partitions": -2},
        {"name": "c3", "replication_factor": 0},
        {"name": "c4", "replication_factor": -2},
        {"name": "c5", "replication_factor": 2},
        {"name": "c6", "num_partitions": -1, "replication_factor": 3},
        {"name": "c7", "num_partitions": -2, "replication_factor": 3},
        {"name": "c8", "num_partitions": 10_001},
    ],
    "configs": [
        {"name": "g1", "configs": [{"name": "no.such.key", "value": "1"}]},
        {"name": "g2", "configs": [{"name": "retention.ms", "value": "x"}]},
        {"name": "g3", "configs": [{"name": "retention.ms", "value": None}]},
        {"name": "g4", "configs": [{"name": "cleanup.policy", "value": "shred"}]},
        {"name": "g5", "configs": [{"name": "min.insync.replicas", "value": "0"}]},
        {"name": "g6", "configs": [{"name": "", "value": "0"}]},
        {"name": "g7", "configs": [{"name": "segment.bytes", "value": "1"}, {"name": "segment.bytes", "value": "2"}]},
        {"name": "g8", "configs": [{"name": "compression.type", "value": "GZIP"}]},
        {"name": "g9", "configs": [{"name": "max.message.bytes", "value": ""}]},
        {"name": "g10", "configs": [{"name": "preallocate", "value": "yes"}]},
        {"name": "g11", "configs": [{"name": "unclean.leader.election.enable", "value": " TRUE "}]},
        {"name": "g12", "configs": [{"name": "retention.ms", "value": " 77 "}]},
        {"name": "g13", "configs": [{"name": "local.retention.ms", "value": "999999999999"}]},
        {"name": "g14", "configs": [{"name": "remote.storage.enable", "value": "true"}]},
        {"name": "g15", "configs": [{"name": "message.timestamp.type", "value": "Never"}]},
        {"name": "g16", "configs": [{"name": "cleanup.policy", "value": ""}]},
        {"name": "g17", "configs": [{"name": "cleanup.policy", "value": "delete,compact,delete"}]},
        {"name": "g18", "configs": [{"name": "min.compaction.lag.ms", "value": "5"},
                                    {"name": "max.compaction.lag.ms", "value": "4"}]},
        {"name": "g19", "configs": [{"name": "compression.gzip.level", "value": "0"}]},
        {"name": "g20", "configs": [{"name": "leader.replication.throttled.replicas", "value": "0:1,1:x"}]},
        {"name": "g21", "configs": [{"name": "segment.bytes", "value": "1000"}]},
        {"name": "g22", "configs": [{"name": "message.format.version", "value": "3.0"}]},
        {"name": "g23", "configs": [{"name": "message.downconversion.enable", "value": "true"}]},
        {"name": "g24", "configs": [{"name": "internal.segment.bytes", "value": "1000"}]},
        {"name": "g25", "configs": [{"name": "min.insync.replicas", "value": "2"}]},
    ],
}  # fmt: skip


def _assigned(name: str, *assignments: tuple[int, list[int]], **fields: Any) -> dict[str, Any]:
    listed = [{"partition_index": index, "broker_ids": ids} for index, ids in assignments]
    return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": listed, **fields}


ASSIGNED: Final = [
    _assigned("a1", (0, [1]), (1, [1])),
    _assigned("a2", (0, [1, 1])),
    _assigned("a3", (0, [2])),
    _assigned("a4", (1, [1])),
    _assigned("a5", (0, [])),
    _assigned("a6", (0, [1]), (0, [1])),
    _assigned("a7", (0, [1]), (1, [])),
    _assigned("a8", (0, [1]), num_partitions=1),
    _assigned("a9", (0, [1]), replication_factor=1),
    _assigned("a10", (0, [1]), (2, [1])),
    _assigned("a11", (-1, [1]), (0, [1])),
    _assigned("a12", (0, [-1])),
    _assigned("a13", (0, [1]), (1, [1, 2])),
    _assigned("a14", (0, [1]), num_partitions=1, replication_factor=1),
]


@side_by_side
def test_create_topics_that_cannot_be(s: Side) -> None:
    made = s.ask(request("Metadata", topics=[{"name": "made-7"}], allow_auto_topic_creation=False))
    if made.topics[0].error_code:
        s.topic("made-7")
    for note, topics in CREATIONS.items():
        for version in (2, 4, 5, 7):
            s.call(_creation(*topics, validate_only=True), version, note=note)
        s.call(_creation(*topics, validate_only=True), user=NOBODY, note=note)
    full = request("CreateTopics", topics=ASSIGNED, timeout_ms=60_000, validate_only=True)
    for version in (2, 5, 7):
        s.call(full, version, note="assignments")
    s.call(request("CreateTopics", topics=[{"name": "few", "num_partitions": -1}], validate_only=True), 3)
    s.call(request("CreateTopics", topics=[{"name": "few", "num_partitions": 1, "replication_factor": -1}]), 3)
    s.call(request("CreateTopics", topics=[]))


@side_by_side
def test_create_topics_with_some_rights(s: Side) -> None:
    s.allow("alice", AclOperation.CREATE, ResourceType.TOPIC, "alices-", pattern=4)
    topics = [{"name": "alices-1"}, {"name": "bobs-1"}]
    for version in (4, 5, 7):
        s.call(_creation(*topics, validate_only=True), version, "alice")
    s.allow("alice", AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "alices-", pattern=4)
    s.call(_creation(*topics), user="alice")
    s.settle()
    s.call(_creation(*topics), user="alice", note="again")
    s.every_version(lambda v: _deletion(v, "alices-1", "bobs-1", "alices-none"), users=("alice",))


def _deletion(version: int, *names: str) -> Any:
    if version < 6:
        return request("DeleteTopics", topic_names=list(names), timeout_ms=60_000)
    return request("DeleteTopics", topics=[{"name": name} for name in names], timeout_ms=60_000)


@side_by_side
def test_delete_topics(s: Side) -> None:
    for version in range(1, 7):
        s.topic(f"doomed-{version}", 2)
        s.call(_deletion(version, f"doomed-{version}", "doomed-none"), version, NOBODY)
        s.call(_deletion(version, f"doomed-{version}", f"doomed-{version}"), version, note="twice in one")
        again = request("CreateTopics", topics=[{"name": f"doomed-{version}", "num_partitions": 1,
                                                 "replication_factor": 1}])  # fmt: skip
        s.ask(again)
        s.settle()
        s.call(_deletion(version, f"doomed-{version}", "doomed-none", "bad name!", ""), version)
        s.call(_deletion(version, f"doomed-{version}"), version, note="again")
        s.call(_deletion(version), version, note="nothing")
    known = s.topic("doomed-by-id")
    for topics in (
        [{"name": None, "topic_id": known}, {"name": "doomed-by-id"}],
        [{"name": "doomed-by-id", "topic_id": known}],
        [{"name": None}],
        [{"name": None, "topic_id": NO_TOPIC}],
        [{"name": None, "topic_id": NO_TOPIC}, {"name": None, "topic_id": NO_TOPIC}],
        [{"name": None, "topic_id": known}, {"name": None, "topic_id": known}],
        [{"name": None, "topic_id": known}],
        [{"name": None, "topic_id": known}],
    ):
        s.call(request("DeleteTopics", topics=topics, timeout_ms=60_000), user=NOBODY)
        s.call(request("DeleteTopics", topics=topics, timeout_ms=60_000))
        s.settle()


@side_by_side
def test_create_partitions(s: Side) -> None:
    s.topic("grown", 2)
    s.topic("grown-too")

    def grow(name: str, count: int, assignments: list[list[int]] | None = None) -> dict[str, Any]:
        listed = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
        return {"name": name, "count": count, "assignments": listed}

    for topics in (
        [grow("grown", 2), grow("grown-too", 1)],
        [grow("grown", 1), grow("grown-too", 0)],
        [grow("grown", -1), grow("grown-none", 3), grow("", 3), grow("bad name!", 3)],
        [grow("grown", 3, [[1]]), grow("grown-too", 3, [[1]])],
        [grow("grown", 3, [[]])],
        [grow("grown", 3, [[2]])],
        [grow("grown", 3, [[1, 1]])],
        [grow("grown", 3, [[1, 2]])],
        [grow("grown", 3, [])],
        [grow("grown", 3), grow("grown", 4), grow("grown-too", 2)],
        [grow("grown", 20_000)],
        [],
    ):
        asked = request("CreatePartitions", topics=topics, timeout_ms=60_000, validate_only=True)
        s.every_version(asked, note=f"{topics}"[:60])
    for version in range(4):
        s.call(request("CreatePartitions", topics=[grow("grown", 3 + version)], timeout_ms=60_000), version)
    s.settle()
    s.call(request("Metadata", topics=[{"name": "grown"}]))


@side_by_side
def test_describe_topic_partitions(s: Side) -> None:
    for name, partitions in (("pages-a", 3), ("pages-b", 2), ("pages-c", 1)):
        s.topic(name, partitions)
    s.allow("alice", AclOperation.DESCRIBE, ResourceType.TOPIC, "pages-b")
    names = [{"name": name} for name in ("pages-c", "pages-a", "pages-none", "pages-b", "bad name!")]
    cursors = [
        None,
        {"topic_name": "pages-a", "partition_index": 1},
        {"topic_name": "pages-a", "partition_index": 3},
        {"topic_name": "pages-a", "partition_index": 9},
        {"topic_name": "pages-aa", "partition_index": 0},
        {"topic_name": "pages-b", "partition_index": 0},
        {"topic_name": "pages-none", "partition_index": 0},
        {"topic_name": "zzz", "partition_index": 0},
        {"topic_name": "", "partition_index": 0},
        {"topic_name": "pages-a", "partition_index": -1},
    ]
    for cursor in cursors:
        for limit in (2000, 1, 2, 3, 4):
            asked = request("DescribeTopicPartitions", topics=names, response_partition_limit=limit, cursor=cursor)
            for user in ("admin", "alice", NOBODY):
                s.call(asked, 0, user, note=f"{cursor} {limit}")
    for limit in (0, -1):
        s.call(request("DescribeTopicPartitions", topics=names, response_partition_limit=limit))
    s.call(request("DescribeTopicPartitions", topics=[{"name": "pages-a"}, {"name": "pages-a"}]))
