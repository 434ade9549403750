"""All directories of a node: locks, identity, restart, deletion with delay, failing disks, background passes."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage.checkpoint import read_offsets
from barnabas.storage.fs import FileSystem, OsFileSystem
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir, LogDirLockedError, partition_of, renamed, suffix_of
from barnabas.storage.log_dirs import LogDirs, LogDirsSettings
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.storage.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    MetaVersion,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.wire.errors import ApiError, ErrorCode

from .logs import NOW_MS, ManualClock, batch, log_config, read_all, values

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
TOPIC_ID = Uuid(bytes(15) + b"\x99")
A, B = Path("/data/a"), Path("/data/b")
T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


class Node:
    """The directories of one node on one disk, opened as often as the test likes."""

    def __init__(self, fs: FileSystem | None = None, paths: tuple[Path, ...] = (A, B), **config: str) -> None:
        self.clock = ManualClock()
        self.fs = fs if fs is not None else MemoryFileSystem(self.clock.now_ms)
        self.paths = paths
        self.config = log_config({key.replace("_", "."): value for key, value in config.items()})
        self.offline: list[LogDir] = []
        for n, path in enumerate(paths):
            self.fs.make_dirs(path)
            write_meta_properties(path, MetaProperties(CLUSTER, 1, Uuid(bytes(14) + bytes([9, n]))), self.fs)

    def dirs(self) -> LogDirs:
        return LogDirs(
            self.paths,
            self.clock,
            topic_config=lambda topic: self.config,
            on_offline=self.offline.append,
            settings=LogDirsSettings(file_delete_delay_ms=1000),
            fs=self.fs,
        )

    def open(self) -> LogDirs:
        dirs = self.dirs()
        dirs.acquire(CLUSTER, 1)
        dirs.load()
        return dirs


@pytest.fixture
def node() -> Node:
    return Node()


def written(dirs: LogDirs, tp: TopicPartition, count: int, config: LogConfig | None = None) -> None:
    log = dirs.get_or_create(tp, TOPIC_ID, config or dirs.topic_config(tp.topic))
    for n in range(count):
        log.append_as_leader(batch(b"%d" % n, timestamp=NOW_MS + n), 0)
    log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart(node: Node, clean: bool) -> None:
    dirs = node.open()
    written(dirs, T0, 5)
    written(dirs, T1, 3)
    dirs.checkpoint_pass()
    dirs.close(clean=clean, broker_epoch=77)
    again = node.open()
    assert [d.was_clean for d in again.directories] == [clean, clean]
    assert again.directories[0].clean_broker_epoch == (77 if clean else -1)
    log = again.logs[T0]
    assert (log.log_end_offset, log.high_watermark, log.topic_id) == (5, 5, TOPIC_ID)
    assert values(read_all(again.logs[T1])) == [b"0", b"1", b"2"]
    assert not node.fs.exists(A / ".kafka_cleanshutdown")


def test_the_marker_and_checkpoints_are_kafkas(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 5)
    dirs.logs[T0].delete_records_before(2)
    dirs.close(broker_epoch=12)
    assert node.fs.read_bytes(A / ".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
    assert node.fs.read_bytes(A / "recovery-point-offset-checkpoint") == b"0\n1\nt 0 5\n"
    assert node.fs.read_bytes(A / "replication-offset-checkpoint") == b"0\n1\nt 0 5\n"
    assert node.fs.read_bytes(A / "log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"
    assert node.open().logs[T0].log_start_offset == 2


def test_new_logs_go_where_the_fewest_are_or_where_told(node: Node) -> None:
    dirs = node.open()
    for tp in (T0, T1, T2):
        written(dirs, tp, 1)
    assert sorted(len(dirs.logs_in(d)) for d in dirs.directories) == [1, 2]
    told = dirs.directories[1]
    dirs.get_or_create(TopicPartition("u", 0), TOPIC_ID, LogConfig(), told.directory_id)
    assert dirs.directory_of(TopicPartition("u", 0)) is told


def test_another_topic_of_the_name_is_refused(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 1)
    with pytest.raises(ApiError) as refused:
        dirs.get_or_create(T0, Uuid(bytes(15) + b"\x98"), LogConfig())
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


# -- identity


def test_a_directory_in_use_is_refused(node: Node) -> None:
    node.open()
    with pytest.raises(LogDirLockedError, match="in use"):
        node.dirs().acquire(CLUSTER, 1)


def test_a_real_lock_keeps_this_and_other_processes_out(tmp_path: Path) -> None:
    node = Node(OsFileSystem(), (tmp_path / "a",))
    dirs = node.open()
    with pytest.raises(LogDirLockedError):
        node.dirs().acquire(CLUSTER, 1)
    probe = (
        "import sys; from pathlib import Path; from barnabas.storage.fs import OsFileSystem; "
        "print(OsFileSystem().lock(Path(sys.argv[1])) is None)"
    )
    run = [sys.executable, "-c", probe, str(tmp_path / "a" / ".lock")]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() == "True"
    dirs.close()
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() == "False"


@pytest.mark.parametrize(("cluster", "number"), [("AAAAAAAAAAAAAAAAAAAAAQ", 1), (CLUSTER, 2)])
def test_a_directory_of_others_is_refused_and_let_go(node: Node, cluster: str, number: int) -> None:
    with pytest.raises(MetaPropertiesError, match=f"node 1 of cluster {CLUSTER}"):
        node.dirs().acquire(cluster, number)
    node.open()


def test_two_directories_with_one_id_are_refused(node: Node) -> None:
    write_meta_properties(B, MetaProperties(CLUSTER, 1, Uuid(bytes(14) + b"\x09\x00")), node.fs)
    with pytest.raises(MetaPropertiesError, match=r"one directory\.id"):
        node.dirs().acquire(CLUSTER, 1)


def test_a_new_directory_is_made_this_nodes(node: Node) -> None:
    node.paths = (A, B, Path("/data/new"))
    dirs = node.open()
    made = dirs.directories[2]
    assert made.properties is not None
    assert (made.properties.cluster_id, made.properties.node_id) == (CLUSTER, 1)
    assert made.directory_id not in {dirs.directories[0].directory_id, None}


def test_nothing_formatted_is_refused() -> None:
    dirs = LogDirs([A], ManualClock(), fs=MemoryFileSystem())
    with pytest.raises(MetaPropertiesError, match="formatted"):
        dirs.acquire()


def test_nobody_formats_in_zookeeper_mode() -> None:
    fs = MemoryFileSystem()
    dirs = LogDirs([A, B], ManualClock(), fs=fs)
    dirs.acquire(CLUSTER, 3, MetaVersion.ZOOKEEPER)
    made = MetaProperties(CLUSTER, 3, None, MetaVersion.ZOOKEEPER)
    assert [d.properties for d in dirs.directories] == [made, made]
    dirs.close()
    for wrong in ((CLUSTER, 4), ("AAAAAAAAAAAAAAAAAAAAAQ", 3)):
        with pytest.raises(MetaPropertiesError, match=f"belongs to node 3 of cluster {CLUSTER}"):
            LogDirs([A, B], ManualClock(), fs=fs).acquire(*wrong, MetaVersion.ZOOKEEPER)
    with pytest.raises(MetaPropertiesError, match="a directory of ZooKeeper mode's; want 1"):
        LogDirs([A, B], ManualClock(), fs=fs).acquire(CLUSTER, 3)
    LogDirs([A, B, Path("/data/new")], ManualClock(), fs=fs).acquire(CLUSTER, 3, MetaVersion.ZOOKEEPER)
    assert read_meta_properties(Path("/data/new"), fs, MetaVersion.ZOOKEEPER) == made


# -- deletion


def test_a_deleted_log_is_renamed_and_goes_after_the_delay(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 3)
    region = dirs.logs[T0].read(0, 1000).records
    dirs.delete(T0)
    (left,) = [n for n in node.fs.listdir(A) if n.startswith("t-")]
    assert suffix_of(left) == "-delete"
    assert dirs.get(T0) is None
    node.clock.ms += 999
    assert dirs.deletion_pass() == 0
    node.clock.ms += 1
    assert dirs.deletion_pass() == 1
    assert not [n for n in node.fs.listdir(A) if n.startswith("t-")]
    assert len(region.read()) == len(region)


def test_deletion_goes_on_after_a_restart(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 3)
    dirs.delete(T0)
    dirs.close(clean=False)
    again = node.open()
    assert again.get(T0) is None
    again.deletion_pass()
    assert not [n for n in node.fs.listdir(A) if n.startswith("t-")]


def test_a_topic_made_again_begins_at_zero(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 5)
    dirs.logs[T0].delete_records_before(4)
    dirs.close()
    dirs = node.open()
    dirs.delete(T0)
    made = dirs.get_or_create(T0, Uuid(bytes(15) + b"\x97"), LogConfig())
    assert (made.log_start_offset, made.log_end_offset, made.high_watermark) == (0, 0, 0)


def test_names_of_dying_logs() -> None:
    name = renamed(TopicPartition("a-b.c" + "x" * 240, 12), "-delete")
    assert len(name) <= 255
    assert (suffix_of(name), partition_of(name)) == ("-delete", None)
    assert partition_of("a-b-3") == TopicPartition("a-b", 3)
    assert partition_of("lost+found") is None


def test_strays_are_put_aside(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 1)
    written(dirs, T1, 1)
    dirs.close()
    again = node.dirs()
    again.acquire(CLUSTER, 1)
    again.load(lambda tp, topic_id: tp == T0 and topic_id == TOPIC_ID)
    assert list(again.logs) == [T1]
    assert [suffix_of(n) for n in node.fs.listdir(A) if n.startswith("t-0")] == ["-stray"]


# -- failing disks


def test_a_failing_directory_goes_offline_and_the_other_works_on(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 3)
    written(dirs, T1, 3)
    assert isinstance(node.fs, MemoryFileSystem)
    node.fs.fault = lambda _, path: OSError(errno.EIO, "broken") if A in path.parents else None
    with pytest.raises(ApiError) as refused:
        dirs.logs[T0].append_as_leader(batch(b"x"), 0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [d.path for d in node.offline] == [A]
    assert dirs.logs[T0].is_offline
    assert dirs.logs[T1].append_as_leader(batch(b"x"), 0).first_offset == 3
    dirs.checkpoint_pass()
    dirs.retention_pass()
    dirs.flush_pass()
    dirs.clean_pass()
    assert dirs.get_or_create(T2, TOPIC_ID, LogConfig()).dir.parent == B
    dirs.close()
    assert [node.fs.exists(p / ".kafka_cleanshutdown") for p in (A, B)] == [False, True]


def test_a_directory_that_cannot_be_read_at_start_is_offline(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 3)
    written(dirs, T1, 3)
    dirs.close()
    assert isinstance(node.fs, MemoryFileSystem)
    node.fs.fault = lambda operation, path: (
        OSError(errno.EIO, "broken") if path == A and operation == "listdir" else None
    )
    again = node.open()
    assert [d.path for d in again.offline] == [A]
    assert list(again.logs) == [T1]


def test_all_directories_offline_refuse_new_logs(node: Node) -> None:
    dirs = node.open()
    for path in (A, B):
        dirs.fail(path, OSError(errno.EIO, "by hand"))
    dirs.fail(A, OSError(errno.EIO, "again"))
    assert len(node.offline) == 2
    with pytest.raises(ApiError) as refused:
        dirs.get_or_create(T0, TOPIC_ID, LogConfig())
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_volume_takes_the_directory_offline_and_recovers_when_there_is_room(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 3)
    assert isinstance(node.fs, MemoryFileSystem)
    node.fs.capacity = 0
    with pytest.raises(ApiError) as refused:
        dirs.logs[T0].append_as_leader(batch(b"x"), 0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [d.path for d in dirs.offline] == [A]
    dirs.close()
    node.fs.capacity = None
    again = node.open()
    assert again.logs[T0].log_end_offset == 3
    assert again.logs[T0].append_as_leader(batch(b"x"), 0).first_offset == 3


def test_damaged_checkpoints_count_as_empty(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 3)
    dirs.close()
    node.fs.open(A / "recovery-point-offset-checkpoint").pwrite(b"x", 0)
    node.fs.open(A / "replication-offset-checkpoint").pwrite(b"x", 0)
    again = node.open()
    assert (again.logs[T0].log_end_offset, again.logs[T0].high_watermark) == (3, 0)


# -- passes


def test_passes_age_flush_and_checkpoint() -> None:
    node = Node(segment_bytes="300", retention_ms="1000", flush_ms="5000")
    dirs = node.open()
    written(dirs, T0, 12)
    log = dirs.logs[T0]
    dirs.flush_pass()
    assert log.recovery_point == log.segments.active.base_offset
    node.clock.ms += 5000
    dirs.flush_pass()
    assert log.recovery_point == 12
    assert dirs.retention_pass() > 0
    dirs.checkpoint_pass()
    directory = dirs.directory_of(T0)
    assert directory is not None
    assert read_offsets(node.fs, directory.path / "recovery-point-offset-checkpoint") == {T0: 12}


def test_clean_pass_compacts_and_remembers_how_far() -> None:
    node = Node(segment_bytes="300", cleanup_policy="compact")
    dirs = node.open()
    log = dirs.get_or_create(T0, TOPIC_ID, node.config)
    for n in range(20):
        log.append_as_leader(batch((b"k", b"%d" % n)), 0)
    log.update_high_watermark(20)
    (result,) = dirs.clean_pass()
    assert result.records_after < result.records_before
    directory = dirs.directory_of(T0)
    assert directory is not None
    assert read_offsets(node.fs, directory.path / "cleaner-offset-checkpoint") == {T0: result.end_offset}
    assert dirs.clean_pass() == []
    dirs.close()
    assert node.open().logs[T0].cleaner_offset == result.end_offset


def test_a_log_that_cannot_be_read_is_not_compacted_any_more() -> None:
    node = Node(segment_bytes="300", cleanup_policy="compact", compression_type="gzip")
    dirs = node.open()
    log = dirs.get_or_create(T0, TOPIC_ID, node.config)
    for n in range(20):
        log.append_as_leader(batch((b"k", b"%d" % n)), 0)
    log.update_high_watermark(20)
    first = log.segments[0]
    node.fs.open(first.path(".log")).pwrite(b"\xff" * 20, 65)
    assert dirs.clean_pass() == []
    assert dirs.clean_pass() == []
    assert not log.is_offline


def test_another_configuration_reaches_the_open_logs(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 1)
    dirs.update_config("t", log_config({"max.message.bytes": "10"}))
    with pytest.raises(ApiError) as refused:
        dirs.logs[T0].append_as_leader(batch(b"x"), 0)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_log_whose_id_the_disk_lost_gets_it_again(node: Node) -> None:
    dirs = node.open()
    written(dirs, T0, 3)
    dirs.close(clean=False)
    node.fs.open(A / "t-0" / "partition.metadata").truncate(0)
    again = node.open()
    assert again.logs[T0].topic_id is None
    assert again.get_or_create(T0, TOPIC_ID, LogConfig()).log_end_offset == 3
    assert node.fs.read_bytes(A / "t-0" / "partition.metadata") == f"version: 0\ntopic_id: {TOPIC_ID}".encode()
