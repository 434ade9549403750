"""What one fetcher follows at one leader: asks for records, appends them, cuts what is not the leader's history.

Appending and cutting happen in one turn of the loop with the check that a partition is still followed in the same
leader epoch, so that nothing can come in between. Fetching is by topic id, in one fetch session (KIP-227, KIP-516,
KIP-595, KIP-903). The connection is `fetcher`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from barnabas.core.replication.fetching import Ask, Fetching, Position, TopicIdPartition
from barnabas.core.replication.truncation import UNDEFINED, out_of_range, truncation
from barnabas.model.topic_partition import OffsetAndEpoch, TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.record_batch import iter_headers

if TYPE_CHECKING:
    from barnabas.model.metrics import Meter
    from barnabas.server.replication.partition import Partition
    from barnabas.server.replication.quota import ReplicationQuota

log = structlog.get_logger("kafka.server.ReplicaFetcher")

FIRST_BACKOFF_MS: Final = 25
"""The first pause after an error; each further one is twice as long, up to `replica.fetch.backoff.ms`."""
NO_LAG: Final = 0
STATE_FROM: Final = 15
"""The first version in which a follower names its broker epoch (KIP-903)."""
_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Refusals of a leader that has not taken up the metadata that we have, or the other way round."""


_OF_SESSION: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Refusals after which the next request begins a new session, at once."""


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """From `replica.fetch.*`: what one request asks for, and how long to pause after an error."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1_048_576
    response_max_bytes: int = 10_485_760
    backoff_ms: int = 1_000


class FollowerHost(Protocol):
    """What is known here of this broker."""

    node_id: int
    follower_quota: ReplicationQuota
    bytes_in: Meter
    reassignment_bytes_in: Meter

    def fetcher_settings(self) -> FetcherSettings:
        """Give the settings of the moment."""
        ...

    def new_meter(self, event: str) -> Meter:
        """Give a meter that nobody else counts in. event: what it counts."""
        ...

    def broker_epoch(self) -> int:
        """Give the epoch of this broker's registration."""
        ...

    def now_ms(self) -> int:
        """Give the monotonic time."""
        ...


class _Followed(NamedTuple):
    partition: Partition
    failures: int = 0


class FollowedPartitions:
    """See the module. `put` and `remove` may be called at any time, between a request and its answer too.

    lags: by how many committed records each partition is behind; failed: those that are not fetched until the metadata
    says something new of them.
    """

    def __init__(self, leader_id: int, host: FollowerHost) -> None:
        self.leader_id = leader_id
        self.lags: dict[TopicIdPartition, int] = {}
        self.bytes_in = host.new_meter("bytes")
        self.failed: set[TopicIdPartition] = set()
        self._host = host
        self._fetching = Fetching()
        self._followed: dict[TopicIdPartition, _Followed] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def lags_by_name(self) -> Iterator[tuple[TopicPartition, int]]:
        """Give `lags` by the partitions' names."""
        for key, lag in list(self.lags.items()):
            followed = self._followed.get(key)
            if followed is not None:
                yield followed.partition.tp, max(0, lag)

    # --- what is followed

    def put(self, partition: Partition) -> None:
        """Follow a partition in its present leader epoch."""
        key = TopicIdPartition(partition.topic_id, partition.tp.partition)
        self.failed.discard(key)
        replica_log = partition.log
        if replica_log.leader_epochs.latest_epoch is None and replica_log.log_end_offset > replica_log.high_watermark:
            replica_log.truncate_to(replica_log.high_watermark)
        self._followed[key] = _Followed(partition)
        self._move(key, partition)

    def remove(self, partition: Partition) -> None:
        """Follow a partition no more."""
        key = TopicIdPartition(partition.topic_id, partition.tp.partition)
        self._forget(key)
        self.failed.discard(key)

    def _forget(self, key: TopicIdPartition) -> None:
        self._followed.pop(key, None)
        self._fetching.remove(key)
        self.lags.pop(key, None)

    def _fail(self, key: TopicIdPartition) -> None:
        self._forget(key)
        self.failed.add(key)

    def _move(self, key: TopicIdPartition, partition: Partition) -> None:
        replica_log = partition.log
        epoch = replica_log.leader_epochs.latest_epoch
        self._fetching.put(
            key,
            Position(
                partition.leader_epoch,
                replica_log.log_end_offset,
                UNDEFINED if epoch is None else epoch,
                replica_log.log_start_offset,
            ),
        )

    def _put_off(self, key: TopicIdPartition) -> None:
        followed = self._followed[key]
        self._followed[key] = followed._replace(failures=followed.failures + 1)
        self._fetching.put_off(key, self._host.now_ms() + self.backoff_ms(followed.failures))

    def backoff_ms(self, failures: int) -> int:
        """Give how long to pause after so many failures in a row."""
        return min(self._host.fetcher_settings().backoff_ms, FIRST_BACKOFF_MS << min(failures, 16))

    def _hold_throttled(self) -> None:
        quota = self._host.follower_quota
        if not quota.active:
            self._fetching.hold(set())
        elif quota.used_up():
            # Those in sync are never held, or they would fall out.
            self._fetching.hold(
                {k for k, f in self._followed.items() if self.lags.get(k) != NO_LAG and quota.throttles(f.partition)}
            )
        else:
            self._fetching.hold(set())

    # --- asking

    def next(self) -> Ask | None:
        """Give what to ask for now, None when that is nothing."""
        self._hold_throttled()
        return self._fetching.next(self._host.now_ms())

    def next_due_ms(self) -> int | None:
        """Give when there is something to ask for again, None when only news can tell."""
        return self._fetching.next_due_ms()

    def request(self, ask: Ask, version: int) -> FetchRequest:
        """Give the request that asks so, to be sent in this version."""
        host, settings = self._host, self._host.fetcher_settings()
        request = FetchRequest(
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=ask.session_id,
            session_epoch=ask.epoch,
        )
        if version >= STATE_FROM:
            request.replica_state = ReplicaState(replica_id=host.node_id, replica_epoch=host.broker_epoch())
        else:
            request.replica_id = host.node_id
        topics: dict[bytes, FetchTopic] = {}
        for key, position in ask.positions:
            topic = topics.get(key.topic_id)
            if topic is None:
                name = self._followed[key].partition.tp.topic
                topic = topics[key.topic_id] = FetchTopic(topic=name, topic_id=key.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=key.partition,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=settings.max_bytes,
                )
            )
        request.topics = list(topics.values())
        gone: dict[bytes, ForgottenTopic] = {}
        for key in ask.forgotten:
            gone.setdefault(key.topic_id, ForgottenTopic(topic_id=key.topic_id)).partitions.append(key.partition)
        request.forgotten_topics_data = list(gone.values())
        return request

    def unanswered(self) -> None:
        """Take note that a request got no answer."""
        self._fetching.failed()

    # --- taking what was answered

    def take(self, ask: Ask, response: FetchResponse) -> list[tuple[TopicIdPartition, Position]]:
        """Append, cut and refuse as the leader says; gives the partitions whose offset it does not have.

        ApiError when the leader refuses the request as a whole.
        """
        error = ErrorCode(response.error_code)
        if not self._fetching.answered(ask, error, response.session_id):
            if error not in _OF_SESSION:
                raise ApiError(error, f"broker {self.leader_id} refuses the fetch: {error.name}")
            return []
        outside = []
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicIdPartition(topic.topic_id, data.partition_index)
                position = self._fetching.position(key)
                # What was removed, moved or put off since it was asked for is none of our business any more.
                if position is None or not self._fetching.is_current(key):
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    outside.append((key, position))
                elif data.error_code:
                    self.refused(key, ErrorCode(data.error_code))
                else:
                    self._accept(key, data)
        return outside

    def refused(self, key: TopicIdPartition, error: ErrorCode) -> None:
        """Take note that the leader answered a partition with an error."""
        partition = self._followed[key].partition
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            log.info("leader has a newer epoch", partition=str(partition.tp), ours=partition.leader_epoch)
            self._fail(key)
            return
        if error not in _PASSING:
            log.warning("leader refuses", partition=str(partition.tp), leader=self.leader_id, error=error.name)
        self._put_off(key)

    def _accept(self, key: TopicIdPartition, data: PartitionData) -> None:
        followed = self._followed[key]
        partition = followed.partition
        try:
            if data.diverging_epoch.epoch != UNDEFINED or data.diverging_epoch.end_offset != UNDEFINED:
                self._truncate(partition, OffsetAndEpoch(data.diverging_epoch.end_offset, data.diverging_epoch.epoch))
            else:
                self._append(key, partition, data)
        except (ApiError, ProtocolError) as e:
            log.error("replica not written", partition=str(partition.tp), why=str(e))
            if isinstance(e, ApiError) and e.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._fail(key)
            else:
                self._put_off(key)  # damaged on the way, or on the leader's disk: the next may be whole
            return
        if followed.failures:
            self._followed[key] = _Followed(partition)
        self._move(key, partition)

    def _append(self, key: TopicIdPartition, partition: Partition, data: PartitionData) -> None:
        replica_log, records = partition.log, data.records
        if records is not None and len(records):
            assert isinstance(records, memoryview)
            _make_room_before(partition, records)
            replica_log.append_as_follower(records, partition.leader_epoch)
            self._count(partition, len(records))
        partition.follow_high_watermark(data.high_watermark)
        start = min(data.log_start_offset, replica_log.high_watermark)
        if start > replica_log.log_start_offset:
            replica_log.delete_records_before(start)
        self.lags[key] = max(NO_LAG, data.high_watermark - replica_log.log_end_offset)

    def _count(self, partition: Partition, size: int) -> None:
        host = self._host
        host.bytes_in.count += size
        self.bytes_in.count += size
        if host.node_id in partition.adding:
            host.reassignment_bytes_in.count += size
        if host.follower_quota.active and host.follower_quota.throttles(partition):
            host.follower_quota.record(size)

    def _truncate(self, partition: Partition, leader: OffsetAndEpoch) -> None:
        replica_log = partition.log
        end = replica_log.log_end_offset
        cut = truncation(
            lambda epoch: replica_log.leader_epochs.end_offset_for(epoch, end), end, replica_log.high_watermark, leader
        )
        log.info(
            "history parts from the leader's", partition=str(partition.tp), leader=self.leader_id, log_end_offset=end,
            leader_epoch_ends=leader, cut_to=cut.offset, high_watermark=replica_log.high_watermark,
        )  # fmt: skip
        replica_log.truncate_to(cut.offset)

    # --- offsets that the leader does not have

    def partition_at(self, key: TopicIdPartition, position: Position) -> Partition | None:
        """Give a partition if it is still fetched from there, else None."""
        return self._followed[key].partition if self._fetching.position(key) is position else None

    def start_elsewhere(self, key: TopicIdPartition, position: Position, leader_start: int, leader_end: int) -> None:
        """Go on where the leader has records, if the partition is still fetched from `position`."""
        partition = self.partition_at(key, position)
        if partition is None:
            return
        replica_log = partition.log
        fresh = out_of_range(replica_log.log_end_offset, leader_start, leader_end)
        log.warning(
            "out of the leader's range", partition=str(partition.tp), leader=self.leader_id, leader_start=leader_start,
            leader_end=leader_end, log_end_offset=replica_log.log_end_offset, goes_on_at=fresh.offset,
            keeps=not fresh.wipe,
        )  # fmt: skip
        try:
            if fresh.wipe:
                replica_log.truncate_fully_and_start_at(fresh.offset)
            else:
                replica_log.truncate_to(fresh.offset)
        except ApiError:
            self._fail(key)
            return
        self._move(key, partition)
        if self._fetching.position(key) == position:
            self._put_off(key)  # between the two ends: the leader has moved meanwhile


def _make_room_before(partition: Partition, records: memoryview) -> None:
    """Let an empty log begin with the leader's first batch, though that begins before the leader's log start.

    DeleteRecords may have put the leader's start into the middle of a batch.
    """
    replica_log = partition.log
    end = replica_log.log_end_offset
    if replica_log.log_start_offset == end and int.from_bytes(records[:8], "big") < end:
        first = next((header for _, header in iter_headers(records, partial_tail=True)), None)
        if first is not None and first.last_offset >= end:
            replica_log.truncate_fully_and_start_at(first.base_offset)
