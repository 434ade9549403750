"""What the metadata shell reads: a file, a directory, or the quorum itself."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from barnabas.cli.dump_log.segment import mapped
from barnabas.cli.errors import CliError
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import METADATA_TOPIC_ID
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.snapshots import list_snapshots, snapshot_path
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from barnabas.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
    ResponsePartitionSnapshot,
    SnapshotId,
)
from barnabas.wire.primitives import Buffer, Records

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_DIRECTORY: Final = f"{METADATA_TOPIC}-0"
_CHECKPOINT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_MAX_BYTES: Final = 8 * 1024 * 1024
_OTHER_EPOCH: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
_MOVED: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE}
)


class Reading(Protocol):
    """What takes in a metadata log, from the begin on or from a snapshot."""

    @property
    def end(self) -> int:
        """The offset behind what was read."""

    @property
    def epoch(self) -> int:
        """The epoch of the last record that was read."""

    def read_snapshot(self, data: Buffer, snapshot: OffsetAndEpoch) -> None:
        """Take a whole snapshot in place of all that was read; ProtocolError when it is damaged."""

    def read_log(self, data: Buffer, high_watermark: int | None = None) -> None:
        """Take the batches of a stretch of the log, up to `high_watermark`; what is known is skipped."""


class Source(Protocol):
    """Where metadata comes from. name: for people."""

    name: str

    async def catch_up(self, reading: Reading) -> None:
        """Read what is new."""

    async def close(self) -> None:
        """Let go of what was opened."""


class FileSource:
    """One snapshot or one segment of the log."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    async def catch_up(self, reading: Reading) -> None:
        """Read the file; of a segment that is being written, what is new."""
        try:
            with mapped(self._path) as data:
                found = _CHECKPOINT.fullmatch(self._path.name)
                if found is None:
                    reading.read_log(data)
                elif reading.end == 0:
                    reading.read_snapshot(data, OffsetAndEpoch(int(found[1]), int(found[2])))
        except OSError as e:
            raise CliError(f"Cannot read {self._path}: {e.strerror}.") from None

    async def close(self) -> None:
        """Do nothing: the file is open only while it is read."""


class DirectorySource:
    """A node's directory: its newest snapshot, and the log after that. It is only read: the node may run."""

    def __init__(self, path: Path) -> None:
        below = path / METADATA_DIRECTORY
        self._dir = below if below.is_dir() else path
        if not self._dir.is_dir() or not any(self._dir.glob("*.log")):
            raise CliError(f"There is no metadata log in {path}: want a log directory, or {METADATA_DIRECTORY} in one.")
        self.name = str(self._dir)

    async def catch_up(self, reading: Reading) -> None:
        """Read what is new."""
        snapshots = list_snapshots(self._dir, OsFileSystem())
        if snapshots and snapshots[-1].offset > reading.end:
            with mapped(snapshot_path(self._dir, snapshots[-1])) as data:
                reading.read_snapshot(data, snapshots[-1])
        segments = sorted(self._dir.glob("*.log"))
        for path, after in zip(segments, [*segments[1:], None], strict=True):
            if after is None or int(after.stem) > reading.end:
                with mapped(path) as data:
                    reading.read_log(data)

    async def close(self) -> None:
        """Do nothing: files are open only while they are read."""


class QuorumSource:
    """The quorum: the active controller's log, fetched as a reader without a vote and without an id does."""

    def __init__(self, config: ClientConfig) -> None:
        self.name = ",".join(map(str, config.bootstrap))
        self._cluster = Cluster(config)
        self._epoch = 0

    async def catch_up(self, reading: Reading) -> None:
        """Read all that is committed now."""
        while True:
            answer = await self._cluster.retry(lambda: self._fetch(reading))
            if answer.snapshot_id.end_offset >= 0:
                snapshot = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
                reading.read_snapshot(await self._snapshot(snapshot), snapshot)
                continue
            before = reading.end
            reading.read_log(_received(answer.records), answer.high_watermark)
            if reading.end == before or reading.end >= answer.high_watermark:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    async def _fetch(self, reading: Reading) -> PartitionData:
        partition = FetchPartition(
            current_leader_epoch=self._epoch,
            fetch_offset=reading.end,
            last_fetched_epoch=reading.epoch,
            partition_max_bytes=_MAX_BYTES,
        )
        topic = FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
        response: FetchResponse = await self._cluster.call_any(FetchRequest(max_bytes=_MAX_BYTES, topics=[topic]))
        _check(response.error_code)
        found = response.responses[0].partitions[0]
        self._learn(found.error_code, found.current_leader.leader_epoch)
        if found.diverging_epoch.epoch >= 0:
            raise CliError("The controllers have lost records that were read here: start the shell anew.")
        return found

    async def _snapshot(self, snapshot: OffsetAndEpoch) -> bytes:
        data = bytearray()
        while True:
            fetch = partial(self._fetch_snapshot, snapshot, len(data))
            part = await self._cluster.retry(fetch)
            data += _received(part.unaligned_records)
            if len(data) >= part.size:
                return bytes(data)

    async def _fetch_snapshot(self, snapshot: OffsetAndEpoch, position: int) -> ResponsePartitionSnapshot:
        partition = RequestPartitionSnapshot(
            current_leader_epoch=self._epoch,
            snapshot_id=SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
            position=position,
        )
        request = FetchSnapshotRequest(
            max_bytes=_MAX_BYTES, topics=[RequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])]
        )
        response: FetchSnapshotResponse = await self._cluster.call_any(request)
        _check(response.error_code)
        found = response.topics[0].partitions[0]
        self._learn(found.error_code, found.current_leader.leader_epoch)
        return found

    def _learn(self, code: int, epoch: int) -> None:
        """Take the epoch that the node is in, and try again when it was another; refusals are raised."""
        if code in _OTHER_EPOCH or code in _MOVED:
            self._epoch = max(epoch, self._epoch)
            raise ApiError(ErrorCode.NOT_CONTROLLER if code in _MOVED else ErrorCode(code))
        _check(code)


def _received(records: Records | None) -> Buffer:
    assert records is None or isinstance(records, bytes | bytearray | memoryview), "regions of files are for sending"
    return records or b""


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise ApiError(ErrorCode(code))
