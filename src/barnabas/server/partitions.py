"""The partitions that this broker has replicas of: what it leads, how far each is committed, and who waits for more.

The other half of a partition, its log, is `storage.log.Log`. A broker alone is every partition's only replica: what is
appended is committed. One loop owns all of it; nothing here blocks but the write to the page cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage.log import Log, LogAppendInfo
from barnabas.storage.log_validator import AppendOrigin
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.core.metadata.topics import PartitionRegistration, TopicImage
    from barnabas.storage.log_dirs import LogDirs

log = structlog.get_logger("state.change.logger")

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
LATEST_EPOCH: Final = -1


@dataclass(slots=True, eq=False)
class Partition:
    """One replica here. waiters: called after every change that a fetch may wait for."""

    tp: TopicPartition
    topic_id: Uuid
    log: Log
    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    is_leader: bool
    waiters: set[Callable[[], None]] = field(default_factory=set)

    def check_epoch(self, epoch: int) -> None:
        """Compare the leader epoch that a request names with ours; ApiError says who of us is behind (KIP-320)."""
        if epoch in (LATEST_EPOCH, self.leader_epoch):
            return
        if epoch < self.leader_epoch:
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {epoch} of {self.tp} is over; it is {self.leader_epoch}"
            )
        raise ApiError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"leader epoch {epoch} of {self.tp} is not known yet; {self.leader_epoch} is",
        )

    def committed_end(self, *, read_committed: bool) -> int:
        """Give the offset up to which a consumer may read: the high watermark, or the last stable offset."""
        return self.log.last_stable_offset if read_committed else self.log.high_watermark

    def appended(self) -> None:
        """Commit what was appended, and wake those who wait for it."""
        self.log.update_high_watermark(self.log.log_end_offset)
        self.wake()

    def wake(self) -> None:
        """Call everybody who waits."""
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter()


class Partitions:
    """Every replica of this broker, by name."""

    def __init__(self, node_id: int, log_dirs: LogDirs) -> None:
        self._node_id = node_id
        self._log_dirs = log_dirs
        self._by_tp: dict[TopicPartition, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_tp.values())

    def __len__(self) -> int:
        return len(self._by_tp)

    def find(self, tp: TopicPartition) -> Partition | None:
        """Give the replica, or None."""
        return self._by_tp.get(tp)

    def leader(self, topic: str, partition: int, epoch: int = LATEST_EPOCH) -> Partition:
        """Give the replica that leads; ApiError when there is none here, or the epoch is not the current one."""
        found = self._by_tp.get(TopicPartition(topic, partition))
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not found.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if epoch != LATEST_EPOCH:
            found.check_epoch(epoch)
        if found.log.is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {found.tp} is offline")
        return found

    def append(self, partition: Partition, records: memoryview, acks: int) -> LogAppendInfo:
        """Append a client's batches; ApiError with Kafka's code when they cannot be taken."""
        if acks == -1 and len(partition.isr) < partition.log.config.min_insync_replicas:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{partition.tp} has {len(partition.isr)} replicas in sync, "
                f"and min.insync.replicas wants {partition.log.config.min_insync_replicas}",
            )
        info = partition.log.append_as_leader(records, partition.leader_epoch, origin=AppendOrigin.CLIENT)
        if not info.duplicate:
            partition.appended()
        return info

    def append_coordinator(self, tp: TopicPartition, batch: bytes) -> int:
        """Append a batch that a coordinator made; gives the offset of its last record, committed when this returns."""
        partition = self.leader(tp.topic, tp.partition)
        info = partition.log.append_as_leader(
            memoryview(bytearray(batch)), partition.leader_epoch, origin=AppendOrigin.COORDINATOR
        )
        partition.appended()
        return info.last_offset

    # --- following the metadata log

    def replay_topic(self, topic: TopicImage, numbers: Sequence[int]) -> list[Partition]:
        """Make these replicas of `topic` what the image says; gives those that are new or have a new leader epoch."""
        changed = []
        for number in numbers:
            registration = topic.partitions[number]
            if self._node_id in registration.replicas:
                partition = self._replay(TopicPartition(topic.name, number), topic.id, registration)
                if partition is not None:
                    changed.append(partition)
        return changed

    def _replay(self, tp: TopicPartition, topic_id: Uuid, registration: PartitionRegistration) -> Partition | None:
        found = self._by_tp.get(tp)
        if found is not None and found.topic_id == topic_id and found.leader_epoch == registration.leader_epoch:
            found.isr = tuple(registration.isr)
            return None
        if found is None:
            directory_id = registration.directory_of(self._node_id)
            config = self._log_dirs.topic_config(tp.topic)
            try:
                opened = self._log_dirs.get_or_create(tp, topic_id, config, directory_id)
            except ApiError as e:
                log.error("cannot open the log", partition=str(tp), why=e.message)
                return None
            found = Partition(tp, topic_id, opened, -1, -1, (), False)
            self._by_tp[tp] = found
        found.leader_id = registration.leader
        found.leader_epoch = registration.leader_epoch
        found.isr = tuple(registration.isr)
        found.is_leader = registration.leader == self._node_id
        if found.is_leader:
            found.log.leader_epochs.assign(registration.leader_epoch, found.log.log_end_offset)
            if found.isr == (self._node_id,):
                found.log.update_high_watermark(found.log.log_end_offset)
        found.wake()
        return found

    def drop(self, tp: TopicPartition) -> None:
        """Forget a replica whose topic is deleted, and delete its log."""
        found = self._by_tp.pop(tp, None)
        if found is not None:
            found.is_leader = False
            self._log_dirs.delete(tp)
            found.wake()
