"""The controller: decides on the newest metadata, appends the records, answers when they are committed (design D5).

States: loading -> standing -> active, and stopped from any of them. Whoever reads the cluster's metadata on this
node follows the committed image by `follow`; whoever changes it uses `write`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from barnabas.core.metadata.activation import activate, default_bootstrap, effective
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage, replay, snapshot_records
from barnabas.core.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.core.metadata.registrations import register_controller
from barnabas.core.raft.control import ControlState
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.ready import BatchTooLargeError, Leadership
from barnabas.core.raft.voters import ReplicaKey
from barnabas.core.replicated import Decision, ReplayError, Replicated, VersionedRecord
from barnabas.model.ports import Clock
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.server.config import NodeConfig
from barnabas.server.format import BOOTSTRAP_FILE
from barnabas.server.metadata_log import LoadedBatch, MetadataLog, read_batches
from barnabas.server.quorum import (
    ControllerError,
    check_voters,
    configured_voters,
    local_voter,
    log_settings,
    registration,
)
from barnabas.server.raft_driver import RaftDriver, SnapshotSource
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.fs import FileSystem, OsFileSystem
from barnabas.storage.meta_properties import MetaPropertiesError, read_meta_properties
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.metadata_records import decode_metadata_record, encode_metadata_record
from barnabas.wire.records.no_op_record import NoOpRecord

log = structlog.get_logger("kafka.controller")

MAX_RECORDS_PER_BATCH: Final = 10_000
_BATCH_ROOM: Final = 64
"""Bytes that a batch needs at most beside its records; and each record at most beside its value."""

__all__ = ["Controller", "ControllerError"]

R = TypeVar("R")
Follower = Callable[[MetadataDelta], None]


class _Waiter(NamedTuple):
    future: asyncio.Future[Any]
    response: Any


class _Proposed(NamedTuple):
    batch: CommittedBatch
    timestamp_ms: int


class Controller:
    """See the module. `run` is its task; `active` gives the first image; `stop` ends it."""

    def __init__(self, config: NodeConfig, clock: Clock, fs: FileSystem | None = None) -> None:
        self._config = config
        self._clock = clock
        self._fs = fs or OsFileSystem()
        self._settings = log_settings(config)
        self._loader = MetadataLoader()
        self._replicated: Replicated[MetadataImage, _Waiter] = Replicated(MetadataImage.EMPTY)
        self._proposed: deque[_Proposed] = deque()
        self._driver: RaftDriver | None = None
        self._leadership: Leadership | None = None
        self._last_timestamp_ms = 0
        self._wrote = False
        self._bootstrap: Sequence[VersionedRecord] = ()
        self._kept: list[MetadataDelta] = []
        self._follower: Follower | None = None
        self._first: MetadataImage | None = None
        self._changed = asyncio.Event()
        self._ended: BaseException | None = None

    # -- what others ask for

    @property
    def image(self) -> MetadataImage:
        """Give the newest metadata, committed or not: what decisions see. Its offset is that of the log's end."""
        return self._replicated.newest

    @property
    def committed_image(self) -> MetadataImage:
        """Give the metadata that is committed and published."""
        return self._loader.image

    @property
    def is_active(self) -> bool:
        """Say whether it takes writes."""
        return self._leadership is not None and self._first is not None

    @property
    def kraft_version(self) -> int:
        """Give the kraft.version in force, which the log's control records set, not its metadata (KIP-853)."""
        return self.driver.node.control.kraft_version.last.value

    @property
    def driver(self) -> RaftDriver:
        """Give the replica's driver, for those who describe the quorum; RuntimeError before `run` has opened it."""
        if self._driver is None:
            raise RuntimeError("the metadata log is not open yet")
        return self._driver

    async def active(self) -> MetadataImage:
        """Wait until this controller is the active one; give the committed metadata, complete with its bootstrap.

        ControllerError when it ends before. What is committed from then on is kept for `follow`.
        """
        while self._first is None:
            if self._ended is not None:
                raise self._ended
            self._changed.clear()
            await self._changed.wait()
        return self._first

    def follow(self, follower: Follower) -> None:
        """Tell `follower` every delta from the image that `active` gave on, in order; those that are past, now."""
        self._follower = follower
        kept, self._kept = self._kept, []
        for delta in kept:
            follower(delta)

    async def write(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Decide on the newest metadata, append what was decided, and give its response when that is committed.

        A decision without records is answered when what it saw is committed. Raises what `decide` raises; ApiError
        NOT_CONTROLLER when this node is not the active controller, or ceases to be before the commit: then it is not
        known whether the change will hold.
        """
        if self._leadership is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        decision = decide(self._replicated.newest)
        if decision.records:
            self._append(decision)
        waiter = _Waiter(asyncio.get_running_loop().create_future(), decision.response)
        if not self._replicated.wait(waiter):
            return decision.response
        response: R = await waiter.future
        return response

    # -- running

    async def run(self) -> None:
        """Load the metadata, stand, and serve until `stop`; ControllerError or DriverFailedError when it cannot."""
        try:
            self._driver = driver = await asyncio.to_thread(self._load)
            idle = asyncio.create_task(self._write_no_ops(), name="no-op records")
            try:
                await driver.run()
            finally:
                idle.cancel()
                with suppress(asyncio.CancelledError):
                    await idle
        except (MetaPropertiesError, ProtocolError, ReplayError) as e:
            self._ended = ControllerError(f"the metadata in {self._config.metadata_log_dir} cannot be used: {e}")
            raise self._ended from e
        except BaseException as e:
            self._ended = e if isinstance(e, Exception) else ControllerError("the controller was stopped")
            raise
        else:
            self._ended = ControllerError("the controller has stopped")
        finally:
            self._changed.set()

    async def stop(self) -> None:
        """Let what was proposed be committed, give up leading and close the log."""
        if self._driver is None or self._ended is not None:
            return
        self._driver.stop()
        while self._ended is None:
            self._changed.clear()
            await self._changed.wait()

    async def snapshot(self) -> None:
        """Write a snapshot of what is committed now."""
        await self.driver.snapshot("it was asked for")

    def _load(self) -> RaftDriver:
        directory = Path(self._config.metadata_log_dir)
        properties = read_meta_properties(directory, self._fs)
        if properties is None or properties.directory_id is None:
            raise ControllerError(f"{directory} is not formatted; use `barnabas storage format`")
        voter = local_voter(self._config, ReplicaKey(properties.node_id, properties.directory_id))
        self._bootstrap = _read_bootstrap(directory, self._fs)
        files = MetadataLog.open(LogEnvironment(self._fs, self._clock), directory, self._settings)
        control = ControlState(configured_voters(self._config))
        files.load_control(control)
        check_voters(control.voters.last.value, voter.key)
        node = RaftNode(
            Identity(voter.key, voter),
            files.load_election(),
            files.end,
            control,
            max_batch_bytes=self._settings.max_batch_bytes,
        )
        driver = RaftDriver(node, files, self, self._clock, self._settings)
        driver.load()
        return driver

    async def _write_no_ops(self) -> None:
        interval_ms = self._config["metadata.max.idle.interval.ms"]
        while interval_ms > 0:
            await asyncio.sleep(interval_ms / 1000)
            wrote, self._wrote = self._wrote, False
            if self.is_active and not wrote:
                with suppress(ApiError):
                    await self.write(lambda image: Decision((VersionedRecord(NoOpRecord(), 0),), None))
                self._wrote = False

    # -- proposing

    def _append(self, decision: Decision[Any]) -> None:
        """Propose the records: one batch, or several where the decision is not atomic and one would be too large."""
        values = [encode_metadata_record(r.record, r.version) for r in decision.records]
        groups = list(self._groups(decision.records, values))
        if decision.atomic and len(groups) > 1:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{len(values)} metadata records must take effect together, but do not fit one batch",
            )
        image = self._replicated.newest
        images = [image := replay(image, effective(records)) for records, _ in groups]
        for (records, group), after in zip(groups, images, strict=True):
            try:
                proposal = self.driver.propose(group)
            except BatchTooLargeError as e:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(e)) from e
            last = proposal.end_offset - 1
            batch = CommittedBatch(proposal.base_offset, last, proposal.epoch, records)
            self._proposed.append(_Proposed(batch, self._clock.now_ms()))
            self._replicated.appended(last, after.at(last, proposal.epoch))
        self._wrote = True

    def _groups(
        self, records: Sequence[VersionedRecord], values: Sequence[bytes]
    ) -> Iterator[tuple[Sequence[VersionedRecord], Sequence[bytes]]]:
        start = size = 0
        for i, value in enumerate(values):
            grown = size + len(value) + _BATCH_ROOM
            full = grown + _BATCH_ROOM > self._settings.max_batch_bytes or i - start >= MAX_RECORDS_PER_BATCH
            if full and i > start:
                yield records[start:i], values[start:i]
                start, grown = i, len(value) + _BATCH_ROOM
            size = grown
        yield records[start:], values[start:]

    # -- what the driver tells (`raft_driver.StateMachine`)

    def restore(self, snapshot_id: OffsetAndEpoch, batches: Iterator[LoadedBatch]) -> None:
        """Begin with a snapshot."""
        records = (r for batch in batches for r in _decoded(batch))
        delta = self._loader.load_snapshot(records, OffsetAndEpoch(snapshot_id.offset - 1, snapshot_id.epoch))
        self._refuse(self._replicated.reset(delta.after, snapshot_id.offset - 1))
        self._publish([delta])

    def apply(self, batches: Iterator[LoadedBatch], end_offset: int) -> None:
        """Apply what earlier epochs wrote, once it is committed."""
        self._publish(self._loader.load(self._read(batches)))
        position = self._loader.position
        image = self._loader.image.at(position.offset, position.epoch)
        self._refuse(self._replicated.reset(image, end_offset - 1))

    def commit(self, end_offset: int) -> None:
        """Publish own proposals that are committed, and answer those who wait for them."""
        batches = []
        while self._proposed and self._proposed[0].batch.last_offset < end_offset:
            proposed = self._proposed.popleft()
            batches.append(proposed.batch)
            self._last_timestamp_ms = proposed.timestamp_ms
        if batches:
            self._publish(self._loader.load(batches))
        for waiter in self._replicated.commit(end_offset - 1):
            if not waiter.future.done():
                waiter.future.set_result(waiter.response)

    def lead(self, leadership: Leadership) -> None:
        """Become the active controller: write what has to come first."""
        self._leadership = leadership
        decision = activate(
            self._replicated.newest,
            self._loader.transaction_start is not None,
            self._bootstrap,
            self._config["min.insync.replicas"],
        )
        log.info("becomes the active controller", epoch=leadership.epoch, because=decision.response)
        if decision.records:
            self._append(decision)
        if self._replicated.newest.levels.controller_registration:
            self._append(register_controller(self._replicated.newest, registration(self._config)))
        waiter = _Waiter(asyncio.get_running_loop().create_future(), None)
        waiter.future.add_done_callback(self._activated)
        if not self._replicated.wait(waiter):
            waiter.future.set_result(None)

    def _activated(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None or self._first is not None:
            return
        self._first = self._loader.image
        self._kept.clear()
        self._changed.set()

    def lose(self, reason: str) -> None:
        """Cease to be the active controller."""
        if self._leadership is not None:
            log.info("is no longer the active controller", epoch=self._leadership.epoch, because=reason)
        self._leadership = None
        self._proposed.clear()
        self._refuse(self._replicated.roll_back())

    def snapshot_source(self) -> SnapshotSource | None:
        """Give the committed metadata for a snapshot; None within a transaction, or while there is none."""
        image = self._loader.image
        if self._loader.transaction_start is not None or image.features.metadata_version is None:
            return None
        offset, epoch = image.offset_epoch
        return SnapshotSource(OffsetAndEpoch(offset + 1, epoch), self._last_timestamp_ms, lambda: _values(image))

    def _read(self, batches: Iterable[LoadedBatch]) -> Iterator[CommittedBatch]:
        for batch in batches:
            self._last_timestamp_ms = batch.timestamp_ms
            yield CommittedBatch(batch.base_offset, batch.end_offset - 1, batch.epoch, list(_decoded(batch)))

    def _publish(self, deltas: Iterable[MetadataDelta]) -> None:
        for delta in deltas:
            if self._follower is not None:
                self._follower(delta)
            elif self._first is not None:
                self._kept.append(delta)

    def _refuse(self, waiters: Iterable[_Waiter]) -> None:
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_exception(
                    ApiError(ErrorCode.NOT_CONTROLLER, "this node ceased to be the active controller")
                )


def _read_bootstrap(directory: Path, fs: FileSystem) -> list[VersionedRecord]:
    try:
        data = fs.read_bytes(directory / BOOTSTRAP_FILE)
    except FileNotFoundError:
        return default_bootstrap()
    return [record for batch in read_batches(data) for record in _decoded(batch)]


def _decoded(batch: LoadedBatch) -> Iterator[VersionedRecord]:
    if batch.control:
        return
    for record in batch.records:
        if record.value is None:
            raise ProtocolError(f"the metadata record at offset {record.offset} has no value")
        yield VersionedRecord(*decode_metadata_record(record.value))


def _values(image: MetadataImage) -> Iterator[bytes]:
    for versioned in snapshot_records(image):
        yield encode_metadata_record(versioned.record, versioned.version)
