"""A node's copy of the cluster's metadata: the committed log as one image after another, told to whoever follows.

States: loading -> caught up -> stopped. Every node has one; the one of a controller may also lead (`controller`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from time import perf_counter_ns

import structlog

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage, snapshot_records
from barnabas.core.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.core.raft.ready import LeaderAndEpoch, Leadership
from barnabas.core.replicated import ReplayError, VersionedRecord
from barnabas.model.ports import Clock
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.server.cluster_metadata import Follower
from barnabas.server.config import NodeConfig
from barnabas.server.forwarding.controller_channel import ActiveController
from barnabas.server.metadata_metrics import LoadMeasures
from barnabas.server.raft.driver import RaftDriver
from barnabas.server.raft.metadata_log import LoadedBatch
from barnabas.server.raft.progress import SnapshotSource
from barnabas.server.raft.quorum import ControllerError
from barnabas.server.raft.replica import open_replica
from barnabas.server.waiting import Progress
from barnabas.storage.fs import FileSystem, OsFileSystem
from barnabas.storage.meta_properties import MetaPropertiesError
from barnabas.wire.errors import ProtocolError
from barnabas.wire.metadata_records import decode_metadata_record, encode_metadata_record

log = structlog.get_logger("kafka.metadata")


class MetadataReplica:
    """See the module. `run` is its task; `caught_up` gives the first image; `stop` ends it."""

    def __init__(self, config: NodeConfig, clock: Clock, fs: FileSystem | None = None) -> None:
        self._config = config
        self._clock = clock
        self._fs = fs or OsFileSystem()
        self._loader = MetadataLoader()
        self._driver: RaftDriver | None = None
        self._last_timestamp_ms = 0
        self.snapshots_loaded = 0
        self.errors = 0
        """How often the metadata could not be read or applied."""
        self.measures = LoadMeasures()
        self._kept: list[MetadataDelta] = []
        self._follower: Follower | None = None
        self._first: MetadataImage | None = None
        self._changed = asyncio.Event()
        self._ended: BaseException | None = None

    @property
    def committed_image(self) -> MetadataImage:
        """Give the metadata that is committed and published."""
        return self._loader.image

    @property
    def last_timestamp_ms(self) -> int:
        """Give the timestamp of the last record that was applied, 0 before the first."""
        return self._last_timestamp_ms

    @property
    def last_committed_offset(self) -> int:
        """Give the offset of the last record that was read, one inside an unfinished transaction included."""
        return self._loader.position.offset

    @property
    def kraft_version(self) -> int:
        """Give the kraft.version in force, which the log's control records set, not its metadata (KIP-853)."""
        return self.driver.kraft_version

    @property
    def ignores_static_voters(self) -> bool:
        """Whether `controller.quorum.voters` is set and without effect, the log having voters of its own (KIP-853)."""
        return bool(self._config["controller.quorum.voters"]) and self.kraft_version > 0

    @property
    def driver(self) -> RaftDriver:
        """Give the replica's driver, for those who describe the quorum; RuntimeError before `run` has opened it."""
        if self._driver is None:
            raise RuntimeError("the metadata log is not open yet")
        return self._driver

    @property
    def leader(self) -> LeaderAndEpoch | None:
        """Give who leads the metadata quorum, as far as this node knows; None before the log is open."""
        return None if self._driver is None else self._driver.leader

    def active_controller(self) -> ActiveController | None:
        """Give who leads the quorum and where its controller listener is; None while either is unknown."""
        leader, driver = self.leader, self._driver
        endpoint = None if leader is None or driver is None else driver.leader_endpoint()
        if leader is None or leader.node_id is None or endpoint is None:
            return None
        return ActiveController(leader.node_id, leader.epoch, endpoint.host, endpoint.port)

    async def controller_changed(self) -> None:
        """Wait until another node, or none, leads the quorum."""
        await (await self.opened()).leader_changed()

    def progress(self) -> Progress:
        """Give how much of the metadata is known while the node waits for the rest."""
        driver, leader = self.driver, self.leader
        leader_id = None if leader is None else leader.node_id
        because = (
            "no controller leads the quorum, as far as this node knows"
            if leader_id is None
            else "what is committed is being loaded"
        )
        return Progress(leader_id, driver.applied_offset, driver.node.first_heard_high_watermark, because)

    def own_records(self) -> Iterator[VersionedRecord]:
        """Give what is on this node's disk, committed or not: the newest snapshot and the log after it."""
        files, start = self.driver.files, 0
        found = files.read_snapshot()
        if found is not None:
            start = found[0].offset
            for batch in found[1]:
                yield from decoded(batch)
        for batch in files.read(start, self.driver.node.log_end_offset):
            yield from decoded(batch)

    async def opened(self) -> RaftDriver:
        """Wait until the log is open and give its driver; raises what `run` raises when it ends before."""
        while self._driver is None:
            await self._next_change()
        return self._driver

    async def caught_up(self) -> MetadataImage:
        """Wait until the cluster's metadata is known here, its bootstrap included, and give it.

        ControllerError when this replica ends before. What is committed from then on is kept for `follow`.
        """
        while self._first is None:
            await self._next_change()
        return self._first

    async def _next_change(self) -> None:
        if self._ended is not None:
            raise self._ended
        self._changed.clear()
        await self._changed.wait()

    def follow(self, follower: Follower) -> None:
        """Tell `follower` every delta from the image that `caught_up` gave on, in order; those that are past, now."""
        self._follower = follower
        kept, self._kept = self._kept, []
        for delta in kept:
            follower(delta)

    # -- running

    async def run(self) -> None:
        """Load the metadata and follow it until `stop`; ControllerError or DriverFailedError when it cannot."""
        try:
            self._driver = driver = await asyncio.to_thread(open_replica, self._config, self._clock, self, self._fs)
            self._changed.set()
            await self._run(driver)
        except (MetaPropertiesError, ProtocolError, ReplayError) as e:
            self.errors += 1
            self._ended = ControllerError(f"the metadata in {self._config.metadata_log_dir} cannot be used: {e}")
            raise self._ended from e
        except BaseException as e:
            self._ended = e if isinstance(e, Exception) else ControllerError("the metadata replica was stopped")
            raise
        else:
            self._ended = ControllerError("the metadata replica has stopped")
        finally:
            self._changed.set()

    async def _run(self, driver: RaftDriver) -> None:
        await driver.run()

    async def stop(self, *, hand_over: bool = True) -> None:
        """Let what was proposed be committed, give up leading and close the log. `run` must have begun.

        Without `hand_over` only the log is closed.
        """
        with suppress(Exception):
            (await self.opened()).stop(hand_over=hand_over)
        while self._ended is None:
            with suppress(Exception):
                await self._next_change()

    async def snapshot(self) -> None:
        """Write a snapshot of what is committed now."""
        await self.driver.snapshot("it was asked for")

    # -- what the driver tells (`raft.driver.StateMachine`)

    def restore(self, snapshot_id: OffsetAndEpoch, batches: Iterator[LoadedBatch]) -> None:
        """Begin with a snapshot, or go on with one where the log left a hole."""
        records = (r for batch in batches for r in decoded(batch))
        delta = self._loader.load_snapshot(records, OffsetAndEpoch(snapshot_id.offset - 1, snapshot_id.epoch))
        self.snapshots_loaded += 1
        self._publish([delta])

    def apply(self, batches: Iterator[LoadedBatch], end_offset: int) -> None:
        """Apply what others wrote, once it is committed."""
        began_ns = perf_counter_ns()
        self._publish(self._loader.load(self._read(batches)))
        self.measures.idle.worked(perf_counter_ns() - began_ns)

    def commit(self, end_offset: int) -> None:
        """Take note that all that is known to be committed was applied."""
        self._catch_up()

    def lead(self, leadership: Leadership) -> None:
        """Refuse: only a controller leads."""
        raise ControllerError(f"a broker was elected the leader of the metadata quorum in epoch {leadership.epoch}")

    def lose(self, reason: str) -> None:
        """Nothing is lost where nothing was led."""

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Take note of who leads the quorum."""
        log.info("the metadata quorum has a leader" if leader.node_id is not None else "the metadata quorum has none",
                 leader=leader.node_id, epoch=leader.epoch)  # fmt: skip

    def snapshot_source(self) -> SnapshotSource | None:
        """Give the committed metadata for a snapshot; None within a transaction, or while there is none."""
        image = self._loader.image
        if self._loader.transaction_start is not None or image.features.metadata_version is None:
            return None
        offset, epoch = image.offset_epoch
        return SnapshotSource(OffsetAndEpoch(offset + 1, epoch), self._last_timestamp_ms, lambda: _values(image))

    def _read(self, batches: Iterable[LoadedBatch]) -> Iterator[CommittedBatch]:
        for batch in batches:
            began_ns = perf_counter_ns()
            self._last_timestamp_ms = batch.timestamp_ms
            records = list(decoded(batch))
            yield CommittedBatch(batch.base_offset, batch.end_offset - 1, batch.epoch, records)
            self.measures.batch(len(records), perf_counter_ns() - began_ns)  # it is applied when the next is wanted

    def _catch_up(self) -> None:
        if self._first is None and self._loader.image.features.metadata_version is not None and self._is_current():
            self._first = self._loader.image
            self._kept.clear()
            self._changed.set()

    def _is_current(self) -> bool:
        """Say whether all is known that was committed when the leader was first heard."""
        wanted = None if self._driver is None else self._driver.node.first_heard_high_watermark
        return wanted is None or self._driver is None or self._driver.applied_offset >= wanted

    def _publish(self, deltas: Iterable[MetadataDelta]) -> None:
        for delta in deltas:
            if self._follower is not None:
                self._follower(delta)
            elif self._first is not None:
                self._kept.append(delta)


def decoded(batch: LoadedBatch) -> Iterator[VersionedRecord]:
    """Give the metadata records of a batch; none of a control batch. ProtocolError when they cannot be read."""
    if batch.control:
        return
    for record in batch.records:
        if record.value is None:
            raise ProtocolError(f"the metadata record at offset {record.offset} has no value")
        yield VersionedRecord(*decode_metadata_record(record.value))


def _values(image: MetadataImage) -> Iterator[bytes]:
    for versioned in snapshot_records(image):
        yield encode_metadata_record(versioned.record, versioned.version)
