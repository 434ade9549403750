"""The controller: decides on the newest metadata, appends the records, answers when they are committed (design D5).

States: following -> active -> following, and stopped from any of them. Whoever reads the cluster's metadata on this
node follows the committed image (`metadata_replica`); whoever changes it uses `write`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from barnabas.core.metadata.activation import activate, default_bootstrap, effective
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.loader import CommittedBatch
from barnabas.core.metadata.registrations import register_controller
from barnabas.core.metadata.runs import replay
from barnabas.core.raft.ready import BatchTooLargeError, LeaderAndEpoch, Leadership, NotLeaderError
from barnabas.core.replicated import Decision, Replicated, VersionedRecord
from barnabas.model.ports import Clock
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.server.config import NodeConfig
from barnabas.server.format import BOOTSTRAP_FILE
from barnabas.server.metadata_replica import MetadataReplica, decoded
from barnabas.server.raft.driver import RaftDriver
from barnabas.server.raft.metadata_log import LoadedBatch, read_batches
from barnabas.server.raft.quorum import ControllerError, log_settings, registration
from barnabas.storage.fs import FileSystem
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.metadata_records import encode_metadata_record
from barnabas.wire.records.no_op_record import NoOpRecord

log = structlog.get_logger("kafka.controller")

MAX_RECORDS_PER_BATCH: Final = 10_000
_NOBODY: Final = -1
_BATCH_ROOM: Final = 64
"""Bytes that a batch needs at most beside its records; and each record at most beside its value."""

__all__ = ["Controller", "ControllerError"]

R = TypeVar("R")


class _Waiter(NamedTuple):
    future: asyncio.Future[Any]
    response: Any


class _Proposed(NamedTuple):
    batch: CommittedBatch
    timestamp_ms: int


class Controller(MetadataReplica):
    """See the module. on_active: called when it begins to decide, with the image that it decides on first.

    on_decided: called after each decision, with the time it took; on_leader: whenever the quorum has a leader again.
    """

    def __init__(self, config: NodeConfig, clock: Clock, fs: FileSystem | None = None) -> None:
        super().__init__(config, clock, fs)
        self._settings = log_settings(config)
        self._replicated: Replicated[MetadataImage, _Waiter] = Replicated(MetadataImage.EMPTY)
        self._proposed: deque[_Proposed] = deque()
        self._leadership: Leadership | None = None
        self._wrote = False
        self.registration = registration(config)
        """What this controller tells of itself, once an incarnation."""
        self.predecessor = _NOBODY
        """The node that led the quorum last, other than this one; -1 when none is known."""
        self.on_active: Callable[[MetadataImage], None] = lambda image: None
        self.on_decided: Callable[[float], None] = lambda took_ms: None
        self.on_leader: Callable[[], None] = lambda: None

    # -- what others ask for

    @property
    def image(self) -> MetadataImage:
        """Give the newest metadata, committed or not: what decisions see. Its offset is that of the log's end."""
        return self._replicated.newest

    @property
    def is_active(self) -> bool:
        """Say whether it takes writes."""
        return self._leadership is not None

    def own_records(self) -> Iterator[VersionedRecord]:
        """Give what is on this node's disk, committed or not; in front, what the cluster is to begin with."""
        yield from self._bootstrap()
        yield from super().own_records()

    async def write(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Decide on the newest metadata, append what was decided, and give its response when that is committed.

        A decision without records is answered when what it saw is committed. Raises what `decide` raises; ApiError
        NOT_CONTROLLER when this node is not the active controller, or ceases to be before the commit: then it is not
        known whether the change will hold.
        """
        if self._leadership is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        began = time.perf_counter()
        decision = decide(self._replicated.newest)
        if decision.records:
            self._append(decision)
        self.on_decided((time.perf_counter() - began) * 1000)
        waiter = _Waiter(asyncio.get_running_loop().create_future(), decision.response)
        if not self._replicated.wait(waiter):
            return decision.response
        response: R = await waiter.future
        return response

    # -- running

    async def _run(self, driver: RaftDriver) -> None:
        idle = asyncio.create_task(self._write_no_ops(), name="no-op records")
        try:
            await driver.run()
        finally:
            idle.cancel()
            with suppress(asyncio.CancelledError):
                await idle

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
            except NotLeaderError:
                raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller") from None
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

    # -- what the driver tells (`raft.driver.StateMachine`)

    def restore(self, snapshot_id: OffsetAndEpoch, batches: Iterator[LoadedBatch]) -> None:
        """Begin with a snapshot, or go on with one where the log left a hole."""
        super().restore(snapshot_id, batches)
        self._refuse(self._replicated.reset(self._loader.image, snapshot_id.offset - 1))

    def apply(self, batches: Iterator[LoadedBatch], end_offset: int) -> None:
        """Apply what others wrote, once it is committed."""
        super().apply(batches, end_offset)
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
            began = time.perf_counter_ns()
            self._publish(self._loader.load(batches))
            self.measures.idle.worked(time.perf_counter_ns() - began)
        for waiter in self._replicated.commit(end_offset - 1):
            if not waiter.future.done():
                waiter.future.set_result(waiter.response)
        super().commit(end_offset)

    def lead(self, leadership: Leadership) -> None:
        """Become the active controller: write what has to come first."""
        self._leadership = leadership
        decision = activate(
            self._replicated.newest,
            self._loader.transaction_start is not None,
            self._bootstrap() if self._replicated.newest.features.metadata_version is None else (),
            self._config["min.insync.replicas"],
        )
        log.info("becomes the active controller", epoch=leadership.epoch, because=decision.response)
        self.on_active(self._replicated.newest)
        if decision.records:
            self._append(decision)
        if self._replicated.newest.levels.controller_registration:
            self._append(register_controller(self._replicated.newest, self.registration))
        waiter = _Waiter(asyncio.get_running_loop().create_future(), None)
        waiter.future.add_done_callback(self._activated)
        if not self._replicated.wait(waiter):
            waiter.future.set_result(None)

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Take note of who leads the quorum."""
        super().leader_changed(leader)
        if leader.node_id is not None:
            if leader.node_id != self._config.node_id:
                self.predecessor = leader.node_id
            self.on_leader()

    def _activated(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._catch_up()

    def lose(self, reason: str) -> None:
        """Cease to be the active controller."""
        if self._leadership is not None:
            log.info("is no longer the active controller", epoch=self._leadership.epoch, because=reason)
        self._leadership = None
        self._proposed.clear()
        self._refuse(self._replicated.roll_back())

    def _bootstrap(self) -> list[VersionedRecord]:
        try:
            data = self._fs.read_bytes(Path(self._config.metadata_log_dir) / BOOTSTRAP_FILE)
        except FileNotFoundError:
            return default_bootstrap()
        return [record for batch in read_batches(data) for record in decoded(batch)]

    def _refuse(self, waiters: Iterable[_Waiter]) -> None:
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_exception(
                    ApiError(ErrorCode.NOT_CONTROLLER, "this node ceased to be the active controller")
                )
