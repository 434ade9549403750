"""Fetch as the leader serves it (KIP-595): new records, or where the follower's log must be cut, or a snapshot's id.

Nothing new: the fetch waits, until there are records, the high watermark moves, its time is over, or this replica
leads no more.
"""

from __future__ import annotations

from barnabas.core.raft.addressing import PARTITION, TOPIC, has_valid_cluster, leader_endpoint, leader_id
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.log_view import Fit, LogFit
from barnabas.core.raft.pending import Incoming, ParkedFetch
from barnabas.core.raft.ready import LogRead
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.voters import ReplicaKey
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import METADATA_TOPIC_ID
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

_VALID = LogFit(Fit.VALID, OffsetAndEpoch(-1, -1))


def on_fetch(replica: Replica, incoming: Incoming, request: FetchRequest) -> None:
    """Answer a fetch, or let it wait."""
    if not has_valid_cluster(replica, request.cluster_id):
        replica.reply(incoming.token, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    partition = _partition(request, incoming.version)
    if partition is None:
        replica.reply(incoming.token, FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if (
        request.max_wait_ms < 0
        or partition.fetch_offset < 0
        or not 0 <= partition.last_fetched_epoch <= partition.current_leader_epoch
    ):
        replica.reply(incoming.token, _answer(replica, incoming, ErrorCode.INVALID_REQUEST))
        return
    error = leader_only(replica, partition.current_leader_epoch)
    role = replica.role
    if error is not ErrorCode.NONE or not isinstance(role, Leader) or _is_from_me(replica, request):
        replica.reply(incoming.token, _answer(replica, incoming, error or ErrorCode.INVALID_REQUEST))
        return
    _serve_or_park(replica, role, ParkedFetch(incoming, request, partition, replica.now_ms + request.max_wait_ms))


def leader_only(replica: Replica, epoch: int) -> ErrorCode:
    """Give the error of a request that is for the leader of `epoch`; NONE when this replica is that."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(replica.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _partition(request: FetchRequest, version: int) -> FetchPartition | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    is_ours = topic.topic_id == METADATA_TOPIC_ID if version >= 13 else topic.topic == TOPIC
    partition = topic.partitions[0]
    return partition if is_ours and partition.partition == PARTITION else None


def _fetcher(request: FetchRequest, partition: FetchPartition) -> ReplicaKey:
    node_id = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
    return ReplicaKey(node_id, partition.replica_directory_id)


def _is_from_me(replica: Replica, request: FetchRequest) -> bool:
    return _fetcher(request, request.topics[0].partitions[0]).node_id == replica.key.node_id


def _serve_or_park(replica: Replica, role: Leader, fetch: ParkedFetch) -> None:
    fit = _note(replica, role, fetch)
    at = fetch.partition.fetch_offset
    hw = -1 if role.high_watermark is None else role.high_watermark
    nothing_new = fit.fit is Fit.VALID and replica.log.end <= at and fetch.partition.high_watermark >= hw
    if nothing_new and fetch.request.max_wait_ms > 0:
        role.parked[fetch.incoming.token] = fetch
    else:
        _serve(replica, fetch, fit)


def _note(replica: Replica, role: Leader, fetch: ParkedFetch) -> LogFit:
    """Compare the logs; where the follower's is a prefix, count it towards the high watermark."""
    at = fetch.partition.fetch_offset
    fit = replica.log.fit(at, fetch.partition.last_fetched_epoch)
    if fit.fit is Fit.VALID and role.fetched_by(_fetcher(fetch.request, fetch.partition), at, replica.now_ms):
        replica.committed(role)
    return fit


def _serve(replica: Replica, fetch: ParkedFetch, fit: LogFit) -> None:
    incoming, at = fetch.incoming, fetch.partition.fetch_offset
    read = None
    if fit.fit is Fit.VALID and replica.log.end > at:
        read = LogRead(at, replica.log.end, fetch.request.max_bytes)
    replica.reply(incoming.token, _answer(replica, incoming, ErrorCode.NONE, fit), read)


def wake_fetches(replica: Replica, role: Leader, *, all_of_them: bool) -> None:
    """Answer the fetches for which there is news. all_of_them: the high watermark moved, which concerns everybody."""
    if not role.parked:
        return
    end = replica.log.end
    for token, fetch in list(role.parked.items()):
        if all_of_them or fetch.partition.fetch_offset < end:
            del role.parked[token]
            _serve(replica, fetch, _note(replica, role, fetch))


def expire_fetches(replica: Replica, role: Leader) -> None:
    """Answer the fetches whose time is over, with nothing."""
    for token, fetch in list(role.parked.items()):
        if fetch.due_ms <= replica.now_ms:
            del role.parked[token]
            replica.reply(token, _answer(replica, fetch.incoming, ErrorCode.NONE))


def refuse_fetches(replica: Replica, former: Leader) -> None:
    """Answer the fetches that waited for a leader that leads no more."""
    for token, fetch in former.parked.items():
        replica.reply(token, _answer(replica, fetch.incoming, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    former.parked.clear()


def _answer(replica: Replica, incoming: Incoming, error: ErrorCode, fit: LogFit = _VALID) -> FetchResponse:
    role = replica.role
    known = role.high_watermark if isinstance(role, Leader) and error is ErrorCode.NONE else None
    partition = PartitionData(
        partition_index=PARTITION,
        error_code=error,
        high_watermark=-1 if known is None else known,
        log_start_offset=replica.log.start,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id(replica), leader_epoch=replica.epoch),
        records=b"",
    )
    if fit.fit is Fit.DIVERGING:
        partition.diverging_epoch = EpochEndOffset(epoch=fit.at.epoch, end_offset=fit.at.offset)
    elif fit.fit is Fit.SNAPSHOT:
        partition.snapshot_id = SnapshotId(end_offset=fit.at.offset, epoch=fit.at.epoch)
    topic = FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    response = FetchResponse(responses=[topic])
    endpoint = leader_endpoint(replica, incoming) if incoming.version >= 17 else None
    if endpoint is not None:
        leader = partition.current_leader.leader_id
        response.node_endpoints = [NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port)]
    return response
