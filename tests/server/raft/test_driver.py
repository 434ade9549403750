from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from barnabas.core.raft.control import ControlState
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.ready import LeaderAndEpoch, Leadership, NotLeaderError
from barnabas.core.raft.settings import QuorumSettings
from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import Uuid
from barnabas.net.client import ChannelSettings
from barnabas.server.raft.driver import DriverFailedError, RaftDriver
from barnabas.server.raft.metadata_log import LoadedBatch, MetadataLog, MetadataLogSettings
from barnabas.server.raft.peers import RaftPeers
from barnabas.server.raft.progress import SnapshotSource
from barnabas.storage import snapshots
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.memory_fs import MemoryFileSystem

DIRECTORY = Uuid.parse("JEXY6aqzQY-32P5TStzaFg")
KEY = ReplicaKey(1, DIRECTORY)
ME = Voter(KEY, (("CONTROLLER", Endpoint("localhost", 9093)),))
LONG_AGO = OffsetAndEpoch(0, 0)


class FakeClock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Values:
    """A state machine that keeps every value it is told of, and lets tests wait."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.proposed: list[tuple[int, bytes]] = []
        self.end_offset = 0
        self.epoch = 0
        self.leadership: Leadership | None = None
        self.lost: str | None = None
        self.changed = asyncio.Condition()
        self.timestamp = 0
        self.leader = LeaderAndEpoch(None, 0)

    def restore(self, snapshot_id: OffsetAndEpoch, batches: Iterator[LoadedBatch]) -> None:
        self.values = [r.value or b"" for batch in batches if not batch.control for r in batch.records]
        self.end_offset, self.epoch = snapshot_id

    def apply(self, batches: Iterator[LoadedBatch], end_offset: int) -> None:
        for batch in batches:
            self.epoch = batch.epoch
            self.timestamp = batch.timestamp_ms
            if not batch.control:
                self.values += [r.value or b"" for r in batch.records]

    def commit(self, end_offset: int) -> None:
        while self.proposed and self.proposed[0][0] < end_offset:
            self.values.append(self.proposed.pop(0)[1])
        self.end_offset = end_offset
        self._notify()

    def lead(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.epoch = leadership.epoch
        self._notify()

    def lose(self, reason: str) -> None:
        self.lost = reason
        self.leadership = None

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader

    def snapshot_source(self) -> SnapshotSource | None:
        values = list(self.values)
        return SnapshotSource(OffsetAndEpoch(self.end_offset, self.epoch), self.timestamp, lambda: iter(values))

    def _notify(self) -> None:
        async def tell() -> None:
            async with self.changed:
                self.changed.notify_all()

        self._telling = asyncio.get_running_loop().create_task(tell())

    async def until(self, end_offset: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.end_offset >= end_offset and self.leadership is not None)


class Replica:
    def __init__(self, fs: MemoryFileSystem | OsFileSystem, parent: Path, settings: MetadataLogSettings) -> None:
        self.env = LogEnvironment(fs, FakeClock())
        self.files = MetadataLog.open(self.env, parent, settings)
        control = ControlState(VoterSet())
        self.files.load_control(control)
        quorum = QuorumSettings()
        rng = Random(1)
        saved = self.files.load_election()
        now_ms = self.env.clock.now_ms()
        node = RaftNode(Identity(KEY, ME), saved, self.files.state(), control, quorum, rng, now_ms)
        self.machine = Values()
        self.driver = RaftDriver(
            node,
            self.files,
            self.machine,
            self.env.clock,
            settings,
            me=ME,
            peers=RaftPeers(ChannelSettings, "CONTROLLER"),
        )
        self.driver.load()

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.driver.run())
        return self.task

    async def until(self, end_offset: int) -> None:
        """Wait until that is committed, or the driver has ended, whichever is first."""
        waiting = asyncio.create_task(self.machine.until(end_offset))
        await asyncio.wait([waiting, self.task], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def propose(self, *values: bytes) -> int:
        proposal = self.driver.propose(values)
        self.machine.proposed += [(proposal.base_offset + i, v) for i, v in enumerate(values)]
        return proposal.end_offset


def format_directory(fs: MemoryFileSystem | OsFileSystem, parent: Path) -> None:
    directory = parent / "__cluster_metadata-0"
    fs.make_dirs(directory)
    batches = snapshot_batches(
        (), epoch=0, last_timestamp_ms=FakeClock().ms, now_ms=0, kraft_version=1, voters=VoterSet.of([ME])
    )
    snapshots.write_snapshot(directory, LONG_AGO, batches, fs)


@contextlib.asynccontextmanager
async def running(
    fs: MemoryFileSystem | OsFileSystem, parent: Path, *, durable: bool = True, **settings: int
) -> AsyncIterator[Replica]:
    replica = Replica(fs, parent, MetadataLogSettings(durable=durable, **settings))
    task = replica.start()
    try:
        await replica.until(1)
        yield replica
    finally:
        replica.driver.stop()
        await task


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    format_directory(OsFileSystem(), tmp_path)
    return tmp_path


async def test_proposals_are_committed_and_come_back_after_a_restart(parent: Path) -> None:
    fs = OsFileSystem()
    async with running(fs, parent) as replica:
        assert replica.machine.leadership == Leadership(epoch=1, start_offset=0)
        await replica.until(replica.propose(b"a", b"b"))
        await replica.until(replica.propose(b"c"))
        assert replica.machine.values == [b"a", b"b", b"c"]
    assert replica.machine.lost is not None
    async with running(fs, parent) as again:
        assert again.machine.leadership == Leadership(epoch=2, start_offset=6)
        assert again.machine.values == [b"a", b"b", b"c"]
        assert again.files.load_election() == ElectionState(2, 1, None)


async def test_proposals_that_come_together_share_a_write(parent: Path) -> None:
    async with running(OsFileSystem(), parent) as replica:
        ends = [replica.propose(b"%d" % i) for i in range(500)]
        await replica.until(ends[-1])
        assert replica.machine.values == [b"%d" % i for i in range(500)]
        assert replica.driver.measures.max_group >= 400


async def test_a_snapshot_is_written_by_bytes_and_replaces_the_log(parent: Path) -> None:
    fs = OsFileSystem()
    async with running(fs, parent, snapshot_bytes=5000, segment_bytes=4096, retention_bytes=0) as replica:
        for i in range(200):
            await replica.until(replica.propose(b"%0100d" % i))
    ids = replica.files.snapshot_ids
    assert len(ids) == 1
    assert ids[0].offset > 50
    assert replica.files.start_offset == ids[0].offset
    async with running(fs, parent, snapshot_bytes=5000, segment_bytes=4096, retention_bytes=0) as again:
        assert again.machine.values == [b"%0100d" % i for i in range(200)]
        assert again.driver.node.control.voters.last.value == VoterSet.of([ME])


async def test_bytes_since_the_last_snapshot_count_over_restarts(parent: Path) -> None:
    fs = OsFileSystem()
    for expected in ([LONG_AGO.offset], [LONG_AGO.offset], [8]):
        async with running(fs, parent, snapshot_bytes=5000, retention_bytes=0) as replica:
            await replica.until(replica.propose(bytes(2000)))
        assert [s.offset for s in replica.files.snapshot_ids] == expected


async def test_a_snapshot_is_written_when_its_time_has_come(parent: Path) -> None:
    async with running(OsFileSystem(), parent, snapshot_interval_ms=1000) as replica:
        await replica.until(replica.propose(b"x"))
        assert len(replica.files.snapshot_ids) == 1
        clock = replica.env.clock
        assert isinstance(clock, FakeClock)
        clock.ms += 1000
        await replica.until(replica.propose(b"y"))
    assert len(replica.files.snapshot_ids) == 2


async def test_a_failing_disk_ends_the_driver_and_nothing_is_answered() -> None:
    fs = MemoryFileSystem()
    parent = Path("/data")
    format_directory(fs, parent)
    replica = Replica(fs, parent, MetadataLogSettings())
    task = replica.start()
    await replica.until(1)
    fs.fault = lambda operation, path: OSError(errno.EIO, "broken") if operation == "fsync" else None
    replica.propose(b"lost")
    with pytest.raises(DriverFailedError, match="broken"):
        async with asyncio.timeout(60):
            await task
    assert replica.machine.values == []
    assert "broken" in (replica.machine.lost or "")
    with pytest.raises((DriverFailedError, NotLeaderError)):
        replica.driver.propose([b"more"])


@pytest.mark.sim
async def test_what_was_committed_survives_a_loss_of_power_at_any_operation(sim_seed: int) -> None:
    rng = Random(sim_seed)
    fs = MemoryFileSystem()
    parent = Path("/data")
    format_directory(fs, parent)
    settings = MetadataLogSettings(snapshot_bytes=3000, segment_bytes=2048, retention_bytes=0)
    committed: list[bytes] = []
    epoch = 0
    for _ in range(5):
        replica = Replica(fs, parent, settings)
        task = replica.start()
        await replica.until(1)
        assert replica.machine.leadership is not None
        assert replica.machine.leadership.epoch > epoch
        epoch = replica.machine.leadership.epoch
        assert replica.machine.values[: len(committed)] == committed
        fs.fault = power_loss(after=rng.randrange(60))
        with contextlib.suppress(NotLeaderError, DriverFailedError):
            while not task.done():
                end = replica.propose(b"%d-" % rng.randrange(10**6) + bytes(rng.randrange(200)))
                if rng.random() < 0.5:
                    await replica.until(end)
        with pytest.raises(DriverFailedError):
            await task
        committed = list(replica.machine.values)
        fs.crash(rng, keep_names=False)


def power_loss(after: int) -> Callable[[str, Path], OSError | None]:
    """Let `after` operations succeed, and none after them."""
    left = after

    def fault(operation: str, path: Path) -> OSError | None:
        nonlocal left
        left -= 1
        return OSError(errno.EIO, "no power") if left < 0 else None

    return fault
