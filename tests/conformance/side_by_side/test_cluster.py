"""The cluster itself: brokers, the quorum, features, log directories, leaders and replicas."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import Uuid
from barnabas.wire.record_batch import Record, encode_batch

from .requests import request
from .script import side_by_side
from .side import NOBODY, Side

pytestmark = pytest.mark.peer


@side_by_side
def test_describe_cluster(s: Side) -> None:
    s.every_version(request("DescribeCluster"))
    s.every_version(request("DescribeCluster", include_cluster_authorized_operations=True))
    s.every_version(request("DescribeCluster", include_fenced_brokers=True))
    for kind in (0, 2, 3):
        s.every_version(request("DescribeCluster", endpoint_type=kind))


@side_by_side
def test_describe_quorum(s: Side) -> None:
    def of(*topics: tuple[str, list[int]]) -> Any:
        return request(
            "DescribeQuorum",
            topics=[{"topic_name": t, "partitions": [{"partition_index": p} for p in ps]} for t, ps in topics],
        )

    s.every_version(of(("__cluster_metadata", [0])))
    s.every_version(of(("__cluster_metadata", [1])))
    s.every_version(of(("other", [0])))
    s.every_version(of(("__cluster_metadata", [0, 1])))
    s.every_version(of())
    s.every_version(of(("__cluster_metadata", [0]), ("other", [0])))


@side_by_side
def test_update_features(s: Side) -> None:
    for name, level, kind in (
        ("metadata.version", 30, 1),
        ("metadata.version", 29, 1),
        ("metadata.version", 99, 1),
        ("metadata.version", 0, 1),
        ("metadata.version", 3, 2),
        ("metadata.version", 25, 2),
        ("metadata.version", 25, 3),
        ("metadata.version", 30, 0),
        ("metadata.version", 30, 4),
        ("no.such.feature", 1, 1),
        ("", 1, 1),
        ("kraft.version", 1, 1),
        ("kraft.version", 0, 2),
        ("kraft.version", 7, 1),
        ("group.version", -1, 1),
        ("group.version", 0, 2),
        ("eligible.leader.replicas.version", 1, 1),
        ("eligible.leader.replicas.version", 0, 2),
        ("eligible.leader.replicas.version", 2, 1),
    ):
        update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for user in ("admin", NOBODY):
            for version in (1, 2):
                asked = request("UpdateFeatures", feature_updates=[update], validate_only=True)
                s.call(asked, version, user, note=f"{update}")
    twice = [{"feature": "metadata.version", "max_version_level": 30}] * 2
    s.every_version(request("UpdateFeatures", feature_updates=twice))
    s.every_version(request("UpdateFeatures", feature_updates=[]))
    one = {"feature": "metadata.version", "max_version_level": 30}
    s.call(request("UpdateFeatures", feature_updates=[one]), 0)
    s.call(request("UpdateFeatures", feature_updates=[{**one, "allow_downgrade": True}]), 0)
    mixed = [one, {"feature": "no.such.feature", "max_version_level": 1}]
    s.every_version(request("UpdateFeatures", feature_updates=mixed))


@side_by_side
def test_describe_log_dirs(s: Side) -> None:
    s.topic("dirs", 2)
    s.topic("dirs-other")
    for size in (1, 100):
        records = encode_batch([Record(0, 1_700_000_000_000, b"k", b"v" * size)])
        data = [{"name": "dirs", "partition_data": [{"index": 0, "records": records}]}]
        s.call(request("Produce", acks=-1, timeout_ms=60_000, topic_data=data), 9)
    for topics in (
        [{"topic": "dirs", "partitions": [0, 1]}],
        [{"topic": "dirs", "partitions": [0, 7]}, {"topic": "dirs-none", "partitions": [0]}],
        [{"topic": "dirs", "partitions": []}],
        [],
    ):
        s.every_version(request("DescribeLogDirs", topics=topics), note=f"{topics}")
    s.every_version(request("DescribeLogDirs", topics=None), users=(NOBODY,))
    s.allow("alice", AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    s.every_version(request("DescribeLogDirs", topics=[{"topic": "dirs", "partitions": [0]}]), users=("alice",))


@side_by_side
def test_elect_leaders(s: Side) -> None:
    s.topic("elected", 2)
    for topics in (
        [{"topic": "elected", "partitions": [0, 1]}],
        [{"topic": "elected", "partitions": [0, 9]}, {"topic": "elected-none", "partitions": [0]}],
        [{"topic": "elected", "partitions": []}],
        [{"topic": "elected", "partitions": [0, 0]}],
        [],
        None,
    ):
        for kind in (0, 1):
            asked = request("ElectLeaders", topic_partitions=topics, election_type=kind)
            s.every_version(asked, note=f"{topics} {kind}")
    s.call(request("ElectLeaders", topic_partitions=[], election_type=2), note="type 2")


@side_by_side
def test_reassignments(s: Side) -> None:
    s.topic("moved", 2)

    def move(name: str, index: int, replicas: list[int] | None) -> dict[str, Any]:
        return {"name": name, "partitions": [{"partition_index": index, "replicas": replicas}]}

    for topics in (
        [move("moved", 0, [1])],
        [move("moved", 0, [2])],
        [move("moved", 0, [1, 1])],
        [move("moved", 0, [])],
        [move("moved", 0, [-1])],
        [move("moved", 0, None)],
        [move("moved", 7, [1])],
        [move("moved", 7, None)],
        [move("moved-none", 0, [1])],
        [move("moved-none", 0, None)],
        [move("moved", 0, [1]), move("moved", 1, [5])],
        [],
    ):
        for change in (True, False):
            asked = request("AlterPartitionReassignments", topics=topics, allow_replication_factor_change=change)
            s.every_version(asked, note=f"{topics}")
    for listed in (
        None,
        [],
        [{"name": "moved", "partition_indexes": [0, 9]}],
        [{"name": "no", "partition_indexes": [0]}],
    ):
        s.every_version(request("ListPartitionReassignments", topics=listed), note=f"{listed}")


@side_by_side
def test_voters_of_another_cluster(s: Side) -> None:
    for cluster in ("of-another-cluster", ""):
        who = {"cluster_id": cluster, "voter_id": 99, "voter_directory_id": Uuid(b"of another voter")}
        listener = {"name": "CONTROLLER", "host": "localhost", "port": 9}
        s.every_version(request("AddRaftVoter", **who, timeout_ms=1000, listeners=[listener]), note=repr(cluster))
        s.every_version(request("RemoveRaftVoter", **who), note=repr(cluster))


@side_by_side
def test_unregister_broker(s: Side) -> None:
    for broker in (99, -1):
        s.every_version(request("UnregisterBroker", broker_id=broker), note=f"{broker}")


@side_by_side
def test_list_config_resources(s: Side) -> None:
    for types in ([], [2], [4], [8], [16], [32], [99], [2, 4]):
        s.every_version(request("ListConfigResources", resource_types=types), users=(NOBODY,), note=f"{types}")


@side_by_side
def test_directories_that_are_not_there(s: Side) -> None:
    s.topic("lies-somewhere")
    for path in ("/nowhere", "relative", ""):
        topics = [{"name": "lies-somewhere", "partitions": [0, 7]}, {"name": "lies-nowhere", "partitions": [0]}]
        s.every_version(request("AlterReplicaLogDirs", dirs=[{"path": path, "topics": topics}]), note=repr(path))
    s.every_version(request("AlterReplicaLogDirs", dirs=[]))
