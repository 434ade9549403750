"""Fetch as a follower or an unattached replica asks it (KIP-595), and what it does with the answer."""

from __future__ import annotations

from barnabas.core.raft.addressing import PARTITION, TOPIC, answered_endpoints
from barnabas.core.raft.control import control_messages
from barnabas.core.raft.follower import Follower, SnapshotFetch
from barnabas.core.raft.ready import Entry, InconsistentLogError
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.responses import Outcome, common
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import METADATA_TOPIC_ID
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.record_batch import check_crc, iter_headers


def fetch_request(replica: Replica) -> FetchRequest:
    """Give the fetch of what comes after this log. Before version 15 the replica's id stands in `replica_id`."""
    end = replica.log.end_and_epoch
    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=replica.epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        replica_directory_id=replica.key.directory_id,
        high_watermark=-1 if replica.high_watermark is None else replica.high_watermark,
    )
    return FetchRequest(
        cluster_id=replica.cluster_id,
        replica_state=ReplicaState(replica_id=replica.key.node_id),
        max_wait_ms=replica.settings.fetch_max_wait_ms,
        max_bytes=replica.settings.fetch_max_bytes,
        topics=[FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def on_fetch_response(replica: Replica, response: FetchResponse) -> Outcome:
    """Take in what the leader sent; InconsistentLogError when it contradicts what is committed."""
    partition = _partition(response)
    if response.error_code != ErrorCode.NONE or partition is None:
        return Outcome.FAILED
    leader = partition.current_leader
    endpoints = answered_endpoints(replica, leader.leader_id, response.node_endpoints)
    outcome = common(replica, partition.error_code, leader.leader_id, leader.leader_epoch, endpoints)
    if outcome is not Outcome.UNHANDLED:
        return outcome
    role = replica.role
    if partition.error_code != ErrorCode.NONE or not isinstance(role, Follower):
        return Outcome.FAILED
    if replica.first_heard_high_watermark is None and partition.high_watermark >= 0:
        replica.first_heard_high_watermark = partition.high_watermark
    if partition.diverging_epoch.epoch >= 0:
        _truncate(replica, OffsetAndEpoch(partition.diverging_epoch.end_offset, partition.diverging_epoch.epoch))
    elif partition.snapshot_id.epoch >= 0 or partition.snapshot_id.end_offset >= 0:
        if not _begin_snapshot(replica, role, partition):
            return Outcome.FAILED
    elif not _append(replica, partition):
        return Outcome.FAILED
    fetched_well(replica, role)
    return Outcome.DONE


def fetched_well(replica: Replica, role: Follower) -> None:
    """Trust the leader for another while."""
    role.deadline_ms = replica.now_ms + replica.settings.fetch_timeout_ms
    role.has_fetched, role.leader_is_gone = True, False


def _partition(response: FetchResponse) -> PartitionData | None:
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        return None
    topic = response.responses[0]
    if topic.topic_id != METADATA_TOPIC_ID and topic.topic != TOPIC:
        return None
    partition = topic.partitions[0]
    return partition if partition.partition_index == PARTITION else None


def _truncate(replica: Replica, end: OffsetAndEpoch) -> None:
    offset = replica.log.cut_for(end)
    if replica.high_watermark is not None and offset < replica.high_watermark:
        raise InconsistentLogError(
            f"the leader of epoch {replica.epoch} has the end of epoch {end.epoch} at {end.offset}, below what is "
            f"committed here, {replica.high_watermark}"
        )
    replica.truncate_to(offset)


def _begin_snapshot(replica: Replica, role: Follower, partition: PartitionData) -> bool:
    wanted = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    if min(wanted) < 0 or (wanted.epoch, wanted.offset) <= (replica.log.last_epoch, replica.log.end):
        return False
    role.snapshot = SnapshotFetch(wanted)
    return True


def _append(replica: Replica, partition: PartitionData) -> bool:
    """Append the whole, sound batches; False when there were none of them among what came."""
    records = partition.records
    data = b"" if records is None else bytes(records if isinstance(records, bytes | bytearray | memoryview) else b"")
    appended = not data
    try:
        for position, header in iter_headers(data, partial_tail=True):
            follows = header.base_offset == replica.log.end and header.record_count > 0
            # A batch of a later epoch comes from a leader that this replica does not know yet; epochs only grow.
            if not follows or not replica.log.last_epoch <= header.leader_epoch <= replica.epoch:
                break
            if not check_crc(data, position, header):
                break
            batch = data[position : position + header.size]
            messages = control_messages(batch) if header.is_control else ()
            entry = Entry(header.base_offset, header.leader_epoch, header.last_offset_delta + 1, batch)
            replica.log.append(entry.epoch, entry.end_offset)
            replica.outbox.entries.append(entry)
            for offset, message in messages:
                replica.control.replay(offset, message)
            appended = True
    except ProtocolError:
        appended = False
    if partition.high_watermark >= 0:
        replica.commit(min(partition.high_watermark, replica.log.end))
    return appended
