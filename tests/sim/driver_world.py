"""A quorum of whole shells in a simulated world: `RaftDriver` with its files on memory disks, in virtual time.

One seed decides the delays of disks and network, losses, crashes and what a power failure leaves. What `raft_world`
simulates around the core is here what runs in production: only clock, sockets and disks are simulated.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from barnabas.core.raft.control import ControlState
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.ready import LeaderAndEpoch, NotLeaderError, Outgoing
from barnabas.core.raft.settings import QuorumSettings
from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import Uuid
from barnabas.net.client import ChannelSettings
from barnabas.server.raft.driver import DriverFailedError, Leadership, RaftDriver, SnapshotSource
from barnabas.server.raft.metadata_log import LoadedBatch, MetadataLog, MetadataLogSettings
from barnabas.server.raft.peers import RaftPeers
from barnabas.storage import snapshots
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.wire.errors import ApiError
from barnabas.wire.message import Message, decode, encode

LISTENER: Final = "CONTROLLER"
_PARENT: Final = Path("/data")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while nothing is to be done; what goes to a thread is done here, later."""

    def __init__(self, rng: Random, max_write_ms: int) -> None:
        self.now_s = 0.0
        self._rng = rng
        self._max_write_ms = max_write_ms
        self.jobs: dict[asyncio.Future[Any], tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        """What a disk is doing: a function and what it takes."""
        super().__init__(_TimeSelector(self))

    def time(self) -> float:
        """Give the virtual time in seconds."""
        return self.now_s

    def run_in_executor(  # type: ignore[override]  # what the replica needs of it
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do it after as long as a disk may take; not at all when nobody waits any more."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            del self.jobs[future]
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as e:  # noqa: BLE001 - whoever waits hears of it
                future.set_exception(e)

        self.jobs[future] = func, args
        self.call_later(self._rng.randrange(1, self._max_write_ms + 1) / 1000, work)
        return future


class _TimeSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        """Let the time pass that would be waited."""
        assert timeout is not None, "everybody waits for nothing"
        self._loop.now_s += max(0.0, timeout)
        return super().select(0)


class Clock:
    """A machine's clock: ahead or behind, too fast or too slow."""

    def __init__(self, loop: VirtualLoop, rng: Random) -> None:
        self._loop, self._offset_ms = loop, 10**12 + rng.randrange(10_000)
        self._rate = 1 + rng.randrange(-20, 21) / 1000

    def now_ms(self) -> int:
        return self._offset_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000 * self._rate)


class Peers(RaftPeers):
    """The network as a replica sees it."""

    def __init__(self, world: DriverWorld, host: Host) -> None:
        super().__init__(ChannelSettings, LISTENER)
        self._world, self._host = world, host

    def send(self, outgoing: Outgoing) -> None:
        self._world.spawn(self._world.exchange(self._host, outgoing, self.answered))

    async def close(self) -> None:
        return


class Machine:
    """Applies what is committed, and tells the world of it."""

    def __init__(self, world: DriverWorld, host: Host) -> None:
        self._world, self._host = world, host
        self.state: dict[int, bytes] = {}
        self.end = OffsetAndEpoch(0, 0)

    def restore(self, snapshot_id: OffsetAndEpoch, batches: Iterator[LoadedBatch]) -> None:
        values = [r.value or b"" for batch in batches if not batch.control for r in batch.records]
        assert values == [b"%d" % snapshot_id.offset] * bool(snapshot_id.offset)
        self.end = snapshot_id

    def apply(self, batches: Iterator[LoadedBatch], end_offset: int) -> None:
        for batch in batches:
            self._world.committed(batch)
            self.end = OffsetAndEpoch(batch.end_offset, batch.epoch)

    def commit(self, end_offset: int) -> None:
        if end_offset > self.end.offset:
            for batch in self._host.files.read(self.end.offset, end_offset):
                self.apply(iter([batch]), batch.end_offset)
        assert self.end.offset == end_offset

    def lead(self, leadership: Leadership) -> None:
        first = self._world.leaders.setdefault(leadership.epoch, self._host.key.node_id)
        assert first == self._host.key.node_id, f"{first} and {self._host.key.node_id} lead epoch {leadership.epoch}"

    def lose(self, reason: str) -> None:
        return

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        return

    def snapshot_source(self) -> SnapshotSource | None:
        end = self.end
        return SnapshotSource(end, 0, lambda: iter([b"%d" % end.offset])) if end.offset else None


class Host:
    """A machine with a disk and, while it runs, a driver."""

    def __init__(self, world: DriverWorld, node_id: int) -> None:
        self.world = world
        self.key = ReplicaKey(node_id, Uuid(bytes(15) + bytes([node_id])))
        self.voter = Voter(self.key, ((LISTENER, Endpoint("sim", node_id)),))
        self.clock = Clock(world.loop, world.rng)
        self.fs = MemoryFileSystem(self.clock.now_ms)
        self.driver: RaftDriver | None = None
        self.task: asyncio.Task[None] | None = None
        self.files: MetadataLog

    def start(self) -> None:
        """Start the driver from the disk."""
        rng = self.world.rng
        settings = MetadataLogSettings(
            durable=self.world.durable, segment_bytes=600, snapshot_bytes=3000, retention_bytes=0
        )
        self.files = MetadataLog.open(LogEnvironment(self.fs, self.clock), _PARENT, settings)
        control = ControlState(VoterSet())
        self.files.load_control(control)
        node = RaftNode(
            Identity(self.key, self.voter),
            self.files.load_election(),
            self.files.state(),
            control,
            QuorumSettings(bootstrap=self.world.bootstrap, fetch_max_bytes=500, fetch_snapshot_max_bytes=200),
            Random(rng.randrange(2**32)),
            self.clock.now_ms(),
        )
        machine = Machine(self.world, self)
        self.driver = RaftDriver(
            node, self.files, machine, self.clock, settings, me=self.voter, peers=Peers(self.world, self)
        )
        self.driver.load()
        self.task = asyncio.ensure_future(self.driver.run())

    async def crash(self) -> None:
        """Lose power, perhaps in the middle of a write."""
        if self.task is None:
            return
        self.check()
        rng, self.driver, task, self.task = self.world.rng, None, self.task, None
        self._tear(rng)
        self.fs.fault = lambda operation, path: OSError("no power")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.fs.crash(rng)

    def check(self) -> None:
        """Raise what has ended the driver, when anything has."""
        if self.task is not None and self.task.done():
            self.task.result()
            raise AssertionError(f"driver {self.key.node_id} has ended")

    def _tear(self, rng: Random) -> None:
        """Let what was on its way to the disk get there in part."""
        left = rng.randrange(30)

        def fault(operation: str, path: Path) -> OSError | None:
            nonlocal left
            left -= 1
            return OSError("no power") if left < 0 else None

        self.fs.fault = fault
        for future, (func, args) in list(self.world.loop.jobs.items()):
            if not future.done() and getattr(func, "__self__", None) is self.files:
                try:
                    func(*args)
                except (OSError, ApiError):
                    return


class DriverWorld:
    """Three voters. `run` lets time pass with faults, then without, and checks that all agree in the end.

    durable: False leaves the flushes out, to show that this is noticed.
    """

    def __init__(self, seed: int, *, durable: bool = True) -> None:
        self.durable = durable
        self.rng = Random(seed)
        self.loop = VirtualLoop(self.rng, self.rng.choice((1, 5, 40)))
        self.loss = self.rng.choice((0, 2, 10))
        self.max_delay_ms = self.rng.choice((3, 20, 150))
        self.bootstrap = tuple(Endpoint("sim", i) for i in (1, 2, 3))
        self.leaders: dict[int, int] = {}
        self.log: dict[int, tuple[int, tuple[bytes | None, ...]]] = {}
        self.end = 0
        self.cut_off: set[int] = set()
        self.calm = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.hosts = {i: Host(self, i) for i in (1, 2, 3)}
        voters = VoterSet.of(host.voter for host in self.hosts.values())
        for host in self.hosts.values():
            directory = _PARENT / "__cluster_metadata-0"
            host.fs.make_dirs(directory)
            first = snapshot_batches((), epoch=0, last_timestamp_ms=0, now_ms=0, kraft_version=1, voters=voters)
            snapshots.write_snapshot(directory, OffsetAndEpoch(0, 0), first, host.fs)

    def committed(self, batch: LoadedBatch) -> None:
        """Check what a replica applies: at each offset it is the same for all."""
        said = batch.epoch, tuple(record.value for record in batch.records)
        known = self.log.setdefault(batch.base_offset, said)
        assert known == said, f"two batches are committed at {batch.base_offset}: {known} and {said}"
        self.end = max(self.end, batch.end_offset)

    def spawn(self, work: Any) -> None:
        """Let something go on by itself."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def exchange(self, source: Host, outgoing: Outgoing, answered: Callable[[int, Message | None], None]) -> None:
        """Carry a request and its answer, or lose one of them."""
        life, target = source.driver, self.hosts[outgoing.to.endpoint.port]
        response: Message | None = None
        try:
            async with asyncio.timeout(outgoing.timeout_ms / 1000):
                await self._travel(source, target)
                if target.driver is not None:
                    message = _copy(outgoing.message)
                    response = _copy(await target.driver.serve(message, message.MAX_VERSION, LISTENER))
                await self._travel(target, source)
        except (TimeoutError, ApiError):
            response = None
        if source.driver is life:
            answered(outgoing.request_id, response)

    async def _travel(self, source: Host, target: Host) -> None:
        await asyncio.sleep(self.rng.randrange(1, 3 if self.calm else self.max_delay_ms) / 1000)
        is_cut = not self.cut_off.isdisjoint((source.key.node_id, target.key.node_id))
        if is_cut or (not self.calm and self.rng.randrange(100) < self.loss):
            await asyncio.sleep(3600)

    async def _write(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(self.rng.randrange(1, 150) / 1000)
            for host in self.hosts.values():
                if host.driver is not None and not self.calm:
                    number += 1
                    try:
                        host.driver.propose([b"value %d" % number] * self.rng.randrange(1, 4))
                    except (NotLeaderError, DriverFailedError):
                        continue  # a failure is told by `Host.check`

    async def _harm(self, until_s: float) -> None:
        while self.loop.time() < until_s:
            await asyncio.sleep(self.rng.randrange(100, 1500) / 1000)
            host = self.rng.choice(list(self.hosts.values()))
            if self.rng.randrange(3):
                await host.crash()
                await asyncio.sleep(self.rng.randrange(1, 1500) / 1000)
                host.start()
            else:
                self.cut_off = {host.key.node_id}
                await asyncio.sleep(self.rng.randrange(1, 4000) / 1000)
                self.cut_off = set()

    async def run(self, for_s: float) -> None:
        """Let faults happen for so long; then all must come to the same log."""
        for host in self.hosts.values():
            host.start()
        self.spawn(self._write())
        await self._harm(for_s)
        self.calm = True
        for _ in range(300):
            if self._is_settled():
                break
            await asyncio.sleep(0.1)
        assert self._is_settled(), "no recovery"
        assert self.end > 0
        tasks = [host.task for host in self.hosts.values() if host.task is not None]
        for host in self.hosts.values():
            assert host.driver is not None
            host.driver.stop()
        await asyncio.gather(*tasks)

    def _is_settled(self) -> bool:
        drivers = [host.driver for host in self.hosts.values() if host.driver is not None]
        for host in self.hosts.values():
            host.check()
        ends = {(d.applied_offset, d.node.log_end_offset, d.node.high_watermark) for d in drivers}
        return len(drivers) == 3 and len(ends) == 1 and len(set(*ends)) == 1 and drivers[0].leader.node_id is not None


def _copy(message: Message) -> Message:
    """Give the message as it arrives: nothing is shared between two machines."""
    return decode(type(message), message.MAX_VERSION, bytes(encode(message, message.MAX_VERSION)))


def run_history(seed: int, for_s: float, *, durable: bool = True) -> DriverWorld:
    """Run a world to its end."""
    world = DriverWorld(seed, durable=durable)
    try:
        world.loop.run_until_complete(world.run(for_s))
    finally:
        left = asyncio.all_tasks(world.loop)
        for task in left:
            task.cancel()
        world.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        world.loop.close()
    return world
