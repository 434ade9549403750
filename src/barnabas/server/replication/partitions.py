"""The partitions that this broker has replicas of, and how they follow the metadata log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from barnabas.core.metadata.cluster import ClusterImage
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.topics import RECOVERING
from barnabas.core.replication.followers import NO_BROKER_EPOCH
from barnabas.core.replication.in_sync import IsrChange, IsrProposal
from barnabas.core.replication.leadership import Assignment, Brokers
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import RESERVED_UUIDS, Uuid
from barnabas.server.replication.partition import LATEST_EPOCH, NO_LEADER, Partition
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.core.metadata.delta import MetadataDelta
    from barnabas.core.metadata.topics import PartitionRegistration, TopicImage
    from barnabas.model.ports import Clock
    from barnabas.storage.log_dirs import LogDirs

log = structlog.get_logger("state.change.logger")

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class RegisteredBrokers:
    """`core.replication.leadership.Brokers` over an image of the cluster.

    told_epochs: false in ZooKeeper mode, where a controller does not tell of the epochs of others.
    """

    __slots__ = ("_cluster", "_told_epochs")

    def __init__(self, cluster: ClusterImage, *, told_epochs: bool = True) -> None:
        self._cluster = cluster
        self._told_epochs = told_epochs

    def epoch(self, broker_id: int) -> int | None:
        """Give the epoch of a broker that is registered and not fenced, -1 where it is not told; else None."""
        found = self._cluster.brokers.get(broker_id)
        if found is None or found.fenced:
            return None
        return found.epoch if self._told_epochs else NO_BROKER_EPOCH

    def may_join_isr(self, broker_id: int) -> bool:
        """Say whether a broker is neither fenced nor shutting down."""
        return self._cluster.active(broker_id)


class RoleChange(NamedTuple):
    """A replica that is new, leads or follows in a new leader epoch, or is here no more (partition: left)."""

    partition: Partition
    left: bool = False


@dataclass(slots=True)
class ReplicaEvents:
    """Whom replicas tell of what happens to them; nobody, while there is one broker only.

    propose: a leader's wish for another ISR. decided: one that was answered.
    """

    propose: Callable[[Partition, IsrProposal], None] = lambda partition, proposal: None
    decided: Callable[[IsrChange, bool], None] = lambda change, failed: None


class Partitions:
    """Every replica of this broker, by name; to each of them it is the host."""

    def __init__(
        self,
        node_id: int,
        log_dirs: LogDirs,
        clock: Clock,
        *,
        max_lag_ms: int = 30_000,
        broker_epoch: Callable[[], int] = lambda: -1,
        events: ReplicaEvents | None = None,
        told_epochs: bool = True,
    ) -> None:
        self.node_id = node_id
        self._told_epochs = told_epochs
        self.max_lag_ms = max_lag_ms
        self.brokers: Brokers = RegisteredBrokers(ClusterImage())
        self.broker_epoch = broker_epoch
        self.now_ms = clock.monotonic_ms
        self.events = events or ReplicaEvents()
        self._log_dirs = log_dirs
        self._image = MetadataImage.EMPTY
        self._by_tp: dict[TopicPartition, Partition] = {}
        self._unopened: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_tp.values())

    def __len__(self) -> int:
        return len(self._by_tp)

    @property
    def offline_count(self) -> int:
        """Give the number of replicas whose log cannot be used."""
        return len(self._unopened) + sum(p.log.is_offline for p in self)

    # --- to each replica

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a proposed ISR to the controller."""
        self.events.propose(partition, proposal)

    def isr_changed(self, change: IsrChange, *, failed: bool) -> None:
        """Count a proposal that was decided on."""
        self.events.decided(change, failed)

    # --- finding

    def find(self, tp: TopicPartition) -> Partition | None:
        """Give the replica, or None."""
        return self._by_tp.get(tp)

    def leader(self, topic: str, partition: int, epoch: int = LATEST_EPOCH) -> Partition:
        """Give the replica that leads; ApiError when there is none here, or the epoch is not the current one."""
        found = self._by_tp.get(TopicPartition(topic, partition))
        if found is None:
            raise self._missing(TopicPartition(topic, partition))
        if epoch != LATEST_EPOCH:
            found.check_epoch(epoch)
        if found.leadership is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if found.log.is_offline:
            raise _offline(found.tp)
        return found

    def replica(self, topic: str, partition: int, epoch: int = LATEST_EPOCH) -> Partition:
        """Give the replica, whether it leads or not; ApiError when there is none here, or the epoch is another."""
        found = self._by_tp.get(TopicPartition(topic, partition))
        if found is None:
            raise self._missing(TopicPartition(topic, partition))
        if epoch != LATEST_EPOCH:
            found.check_epoch(epoch)
        if found.log.is_offline:
            raise _offline(found.tp)
        return found

    def _missing(self, tp: TopicPartition) -> ApiError:
        if tp in self._unopened:
            return _offline(tp)
        known = self._image.topics.partition(tp.topic, tp.partition) is not None
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- the ISR

    def shrink_isrs(self) -> None:
        """Look for followers that lag, in every partition that is led here."""
        for partition in list(self._by_tp.values()):
            partition.shrink_isr()

    # --- following the metadata log

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> list[RoleChange]:
        """Take up a delta; those that are deleted first, as a name may be used again. Gives whose role is another."""
        self._image = image
        self.brokers = RegisteredBrokers(image.cluster, told_epochs=self._told_epochs)
        changes = []
        for topic_id, name in delta.deleted_topics.items():
            for number in delta.before.topics.by_id[topic_id].partitions:
                changes += self._drop(TopicPartition(name, number))
        for topic_id, numbers in delta.topics.items():
            changes += self.replay_topic(image.topics.by_id[topic_id], sorted(numbers))
        return changes

    def replay_topic(self, topic: TopicImage, numbers: Sequence[int]) -> list[RoleChange]:
        """Make these replicas of `topic` what the image says; gives those whose role is new, or that are gone."""
        changes = []
        for number in numbers:
            tp, registration = TopicPartition(topic.name, number), topic.partitions[number]
            if self.node_id in registration.replicas:
                changes += self._replay(tp, topic.id, registration)
            else:
                changes += self._drop(tp)
        return changes

    def _replay(self, tp: TopicPartition, topic_id: Uuid, registration: PartitionRegistration) -> list[RoleChange]:
        found = self._by_tp.get(tp)
        gone: list[RoleChange] = []
        if found is not None and found.topic_id != topic_id:
            gone, found = self._drop(tp), None
        if found is None:
            found = self._open(tp, topic_id, registration)
            if found is None:
                return gone
        return [*gone, RoleChange(found)] if self._takes_role(found, registration) else gone

    def _takes_role(self, partition: Partition, registration: PartitionRegistration) -> bool:
        """Lead or follow; says whether that is a new leader epoch. A disk that fails meanwhile goes offline."""
        assignment = _assignment(registration)
        try:
            if registration.leader == self.node_id:
                return partition.lead(assignment)
            return partition.follow(registration.leader, assignment)
        except OSError as e:
            self._log_dirs.fail(partition.log.dir.parent, e)
        except ApiError as e:
            log.error("cannot take the role", partition=str(partition.tp), why=e.message)
        return True

    def _open(self, tp: TopicPartition, topic_id: Uuid, registration: PartitionRegistration) -> Partition | None:
        config = self._log_dirs.topic_config(tp.topic)
        directory_id = registration.directory_of(self.node_id)
        try:
            self._check_directory(tp, directory_id)
            opened = self._log_dirs.get_or_create(tp, topic_id, config, directory_id)
        except ApiError as e:
            log.error("cannot open the log", partition=str(tp), why=e.message)
            self._unopened.add(tp)
            return None
        self._unopened.discard(tp)
        found = self._by_tp[tp] = Partition(tp, topic_id, opened, self)
        return found

    def _check_directory(self, tp: TopicPartition, directory_id: Uuid) -> None:
        """Refuse, by ApiError, to make a log anew that lies in a directory which has failed (KIP-858)."""
        log_dirs = self._log_dirs
        if not log_dirs.offline or directory_id in RESERVED_UUIDS or log_dirs.get(tp) is not None:
            return
        if all(directory.directory_id != directory_id for directory in log_dirs.online):
            raise _offline(tp)

    def _drop(self, tp: TopicPartition) -> list[RoleChange]:
        """Forget a replica whose topic is deleted or that has moved to other brokers, and delete its log."""
        self._unopened.discard(tp)
        found = self._by_tp.pop(tp, None)
        if found is None:
            return []
        found.leave()
        self._log_dirs.delete(tp)
        return [RoleChange(found, left=True)]


def _assignment(registration: PartitionRegistration) -> Assignment:
    return Assignment(
        replicas=registration.replicas,
        isr=registration.isr,
        leader_epoch=registration.leader_epoch,
        partition_epoch=registration.partition_epoch,
        adding=registration.adding_replicas,
        removing=registration.removing_replicas,
        recovering=registration.leader_recovery_state == RECOVERING,
    )


def _offline(tp: TopicPartition) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {tp} is offline")


__all__ = ["INTERNAL_TOPICS", "LATEST_EPOCH", "NO_LEADER", "Partition", "Partitions", "RegisteredBrokers", "RoleChange"]
