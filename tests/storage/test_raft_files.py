"""What the metadata log keeps beside its segments: identity, election, snapshots; Kafka's files, replaced whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import Uuid
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.storage.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    MetaVersion,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.storage.quorum_state import QuorumStateError, read_quorum_state, write_quorum_state
from barnabas.storage.snapshots import list_snapshots, remove_leftovers, snapshot_path, write_snapshot
from barnabas.wire.records.quorum_state_data import QuorumStateData, Voter

DIR = Path("/data/__cluster_metadata-0")
ID = Uuid(bytes(15) + b"\x88")


@pytest.fixture
def fs() -> MemoryFileSystem:
    made = MemoryFileSystem()
    made.make_dirs(DIR)
    return made


def put(fs: MemoryFileSystem, name: str, text: str) -> None:
    fs.write_durably(DIR / name, text.encode())


def test_meta_properties_read_back(fs: MemoryFileSystem) -> None:
    written = MetaProperties("4L6g3nShT-eMCtK--X86sw", 5, ID)
    write_meta_properties(DIR, written, fs)
    assert read_meta_properties(DIR, fs) == written
    assert b"version=1\n" in fs.read_bytes(DIR / "meta.properties")
    assert read_meta_properties(Path("/data"), fs) is None


def test_meta_properties_as_java_writes_them(fs: MemoryFileSystem) -> None:
    put(
        fs,
        "meta.properties",
        f"#\n#Sat Nov 21 10:00:00 UTC 2026\ncluster.id=abc\ndirectory.id={ID}\nnode.id=3\nversion=1\n",
    )
    assert read_meta_properties(DIR, fs) == MetaProperties("abc", 3, ID)


def test_meta_properties_of_zookeeper_mode_name_a_broker(fs: MemoryFileSystem) -> None:
    written = MetaProperties("4L6g3nShT-eMCtK--X86sw", 5, None, MetaVersion.ZOOKEEPER)
    write_meta_properties(DIR, written, fs)
    assert fs.read_bytes(DIR / "meta.properties") == b"#\nbroker.id=5\ncluster.id=4L6g3nShT-eMCtK--X86sw\nversion=0\n"
    assert read_meta_properties(DIR, fs, MetaVersion.ZOOKEEPER) == written
    put(fs, "meta.properties", f"broker.id=5\ncluster.id=abc\ndirectory.id={ID}\n")
    found = MetaProperties("abc", 5, ID, MetaVersion.ZOOKEEPER)
    assert read_meta_properties(DIR, fs, MetaVersion.ZOOKEEPER) == found
    assert read_meta_properties(DIR, fs, None) == found


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        ("version=1\ncluster.id=a\nnode.id=1\n", MetaVersion.ZOOKEEPER, "KRaft's; want 0, a directory of ZooKeeper"),
        ("version=0\ncluster.id=a\nbroker.id=1\n", MetaVersion.KRAFT, "ZooKeeper mode's; want 1, a directory of KRaft"),
        ("cluster.id=a\nbroker.id=1\n", MetaVersion.KRAFT, "is of version 0"),
        ("version=2\ncluster.id=a\nbroker.id=1\n", MetaVersion.ZOOKEEPER, "is of version 2; want 0"),
        ("version=2\ncluster.id=a\nbroker.id=1\n", None, "is of version 2; want 0 or 1"),
        ("version=0\ncluster.id=a\nnode.id=1\n", MetaVersion.ZOOKEEPER, "has no good broker.id"),
        ("version=0\nbroker.id=1\n", MetaVersion.ZOOKEEPER, "has no cluster.id"),
    ],
)
def test_meta_properties_of_the_other_kind_are_refused(
    fs: MemoryFileSystem, text: str, wanted: MetaVersion | None, said: str
) -> None:
    put(fs, "meta.properties", text)
    with pytest.raises(MetaPropertiesError, match=r"meta\.properties") as refused:
        read_meta_properties(DIR, fs, wanted)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "version=0\ncluster.id=a\nbroker.id=1\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=a\n",
        "version=1\ncluster.id=a\nnode.id=x\n",
        "version=1\ncluster.id=a\nnode.id=1\ndirectory.id=short\n",
        "version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n",
    ],
)
def test_bad_meta_properties_are_reported_with_the_path(fs: MemoryFileSystem, text: str) -> None:
    put(fs, "meta.properties", text)
    with pytest.raises(MetaPropertiesError, match=r"meta\.properties"):
        read_meta_properties(DIR, fs)


def test_quorum_state_in_both_versions(fs: MemoryFileSystem) -> None:
    assert read_quorum_state(DIR, fs) is None
    dynamic = QuorumStateData(leader_id=1, leader_epoch=7, voted_id=2, voted_directory_id=ID)
    write_quorum_state(DIR, dynamic, 1, fs)
    assert json.loads(fs.read_bytes(DIR / "quorum-state")) == {
        "leaderId": 1,
        "leaderEpoch": 7,
        "votedId": 2,
        "votedDirectoryId": str(ID),
        "data_version": 1,
    }
    assert read_quorum_state(DIR, fs) == dynamic
    static = QuorumStateData(leader_id=1, leader_epoch=7, voted_id=-1, current_voters=[Voter(voter_id=1)])
    write_quorum_state(DIR, static, 0, fs)
    assert json.loads(fs.read_bytes(DIR / "quorum-state")) == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 7,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }
    assert read_quorum_state(DIR, fs) == static


@pytest.mark.parametrize("text", ["", "{}", '{"data_version":9}', "[1]"])
def test_a_damaged_quorum_state_is_reported(fs: MemoryFileSystem, text: str) -> None:
    put(fs, "quorum-state", text)
    with pytest.raises(QuorumStateError, match="quorum-state"):
        read_quorum_state(DIR, fs)


def test_snapshots_are_there_whole_or_not_at_all(fs: MemoryFileSystem) -> None:
    first, second = OffsetAndEpoch(0, 0), OffsetAndEpoch(120, 3)
    write_snapshot(DIR, second, [b"abc", b"def"], fs)
    write_snapshot(DIR, first, [b"x"], fs)
    put(fs, "00000000000000000200-0000000004.checkpoint.part", "half")
    assert list_snapshots(DIR, fs) == [first, second]
    path = snapshot_path(DIR, second)
    assert path.name == "00000000000000000120-0000000003.checkpoint"
    assert fs.read_bytes(path) == b"abcdef"
    assert remove_leftovers(DIR, fs) == ["00000000000000000200-0000000004.checkpoint.part"]
    assert list_snapshots(DIR, fs) == [first, second]
