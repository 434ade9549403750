"""FetchSnapshot as a follower asks it (KIP-630): one stretch after the other, then the log begins anew with it."""

from __future__ import annotations

from barnabas.core.raft.addressing import PARTITION, TOPIC, answered_endpoints
from barnabas.core.raft.control import control_messages
from barnabas.core.raft.fetching import fetched_well
from barnabas.core.raft.follower import Follower, SnapshotFetch
from barnabas.core.raft.ready import InstallSnapshot, SnapshotInfo
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.responses import Outcome, common
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
    ResponsePartitionSnapshot,
    SnapshotId,
)
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, read_header


def fetch_snapshot_request(replica: Replica, fetch: SnapshotFetch) -> FetchSnapshotRequest:
    """Give the fetch of the next stretch."""
    partition = RequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=replica.epoch,
        snapshot_id=SnapshotId(end_offset=fetch.id.offset, epoch=fetch.id.epoch),
        position=fetch.position,
        replica_directory_id=replica.key.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=replica.cluster_id,
        replica_id=replica.key.node_id,
        max_bytes=replica.settings.fetch_snapshot_max_bytes,
        topics=[RequestTopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def on_fetch_snapshot_response(replica: Replica, response: FetchSnapshotResponse) -> Outcome:
    """Take in a stretch; with the last one the snapshot takes the place of the log."""
    topics = response.topics
    if response.error_code != ErrorCode.NONE or len(topics) != 1 or len(topics[0].partitions) != 1:
        return Outcome.FAILED
    partition = topics[0].partitions[0]
    if (topics[0].name, partition.index) != (TOPIC, PARTITION):
        return Outcome.FAILED
    leader = partition.current_leader
    endpoints = answered_endpoints(replica, leader.leader_id, response.node_endpoints)
    outcome = common(replica, partition.error_code, leader.leader_id, leader.leader_epoch, endpoints)
    if outcome is not Outcome.UNHANDLED:
        return outcome
    role = replica.role
    if not isinstance(role, Follower) or role.snapshot is None:
        return Outcome.FAILED
    if partition.error_code == ErrorCode.SNAPSHOT_NOT_FOUND or min(_id(partition)) < 0:
        # The leader has a newer one by now: the next fetch names it.
        role.snapshot = None
        fetched_well(replica, role)
        return Outcome.DONE
    if partition.error_code != ErrorCode.NONE or not _take(replica, role, role.snapshot, partition):
        role.snapshot = None
        return Outcome.FAILED
    fetched_well(replica, role)
    return Outcome.DONE


def _id(partition: ResponsePartitionSnapshot) -> OffsetAndEpoch:
    return OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)


def _take(replica: Replica, role: Follower, fetch: SnapshotFetch, partition: ResponsePartitionSnapshot) -> bool:
    records = partition.unaligned_records
    data = bytes(records) if isinstance(records, bytes | bytearray | memoryview) else b""
    end = fetch.position + len(data)
    if _id(partition) != fetch.id or partition.position != fetch.position or not data or end > partition.size:
        return False
    last = end == partition.size
    try:
        if _batch_size(fetch.head) is None:
            fetch.head += data
        if last and not _install(replica, fetch, partition.size):
            return False
    except ProtocolError:
        return False
    replica.outbox.snapshot = InstallSnapshot(fetch.id, fetch.position, data, last)
    fetch.position = end
    if last:
        role.snapshot = None
    return True


def _batch_size(head: bytes) -> int | None:
    """Give the size of the first batch, None while it is not here as a whole."""
    if len(head) < BATCH_HEADER_SIZE:
        return None
    size = read_header(head).size
    return size if size <= len(head) else None


def _install(replica: Replica, fetch: SnapshotFetch, size: int) -> bool:
    """Begin the log anew with the snapshot, whose first batch holds its voters and kraft.version."""
    opening = _batch_size(fetch.head)
    if opening is None:
        return False
    messages = control_messages(fetch.head[:opening])
    replica.truncate_for_snapshot(SnapshotInfo(fetch.id, size), [message for _, message in messages])
    replica.commit(fetch.id.offset)
    return True
