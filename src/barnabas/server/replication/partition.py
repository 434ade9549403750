"""One replica of this broker: leader or follower of its partition, how far it is committed, and who waits for more.

The other half of a replica is its log, `storage.log.Log`; what a leader decides of followers and ISR is
`core.replication.leadership`. One loop owns all of it; nothing here blocks but the write to the page cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from barnabas.core.replication.in_sync import Fate, Granted, IsrChange, IsrProposal
from barnabas.core.replication.leadership import Assignment, Brokers, LeaderLog, Leadership
from barnabas.server.replication.purgatory import AckedRequest, AckQueue, Answer
from barnabas.storage.log_validator import AppendOrigin
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.model.topic_partition import TopicPartition
    from barnabas.model.uuid import Uuid
    from barnabas.storage.log import Log, LogAppendInfo
    from barnabas.storage.producer_verification import VerificationGuard

log = structlog.get_logger("state.change.logger")

LATEST_EPOCH: Final = -1
NO_LEADER: Final = -1
ALL_REPLICAS: Final = -1
"""The number that stands for acks=all."""


class ReplicaHost(Protocol):
    """What a replica knows of its broker. max_lag_ms: `replica.lag.time.max.ms`; brokers: as the metadata has them."""

    node_id: int
    max_lag_ms: int
    brokers: Brokers

    def now_ms(self) -> int:
        """Give the monotonic time."""
        ...

    def broker_epoch(self) -> int:
        """Give the epoch of this broker's registration."""
        ...

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a proposed ISR to the controller; `Partition.granted` or `refused` takes the answer."""
        ...

    def isr_changed(self, change: IsrChange, *, failed: bool) -> None:
        """Count a proposal that was decided on."""
        ...


class Tail(Protocol):
    """A follower's fetch session, which looks at the end of a leader's log."""

    def grown(self) -> None:
        """Take note that records were added, or that the replica has changed its role."""
        ...

    def news(self) -> None:
        """Take note that there is something to tell with the next answer: nothing that is worth one of its own."""
        ...


class Partition:
    """See the module. waiters: called after every move of the high watermark, and every change of role.

    leader_id, leader_epoch: as the metadata log says; leadership: what a leader knows, None on a follower.
    """

    __slots__ = (
        "_alone",
        "_host",
        "acks",
        "adding",
        "future",
        "isr",
        "leader_epoch",
        "leader_id",
        "leadership",
        "log",
        "replicas",
        "tails",
        "topic_id",
        "tp",
        "waiters",
    )

    def __init__(self, tp: TopicPartition, topic_id: Uuid, log: Log, host: ReplicaHost) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.future: Log | None = None
        """The copy of the log in another directory that is to take its place (KIP-113)."""
        self.leader_id = NO_LEADER
        self.leader_epoch = LATEST_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        """Those of the replicas that a reassignment is adding."""
        self.leadership: Leadership | None = None
        self.waiters: set[Callable[[], None]] = set()
        self.tails: dict[int, Tail] = {}
        """The session of each follower that fetches, by its broker's id."""
        self.acks = AckQueue()
        self._host = host
        self._alone = False

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads."""
        return self.leadership is not None

    def led(self) -> Leadership:
        """Give what the leader knows; ApiError on a follower."""
        if self.leadership is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.leadership

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

    # --- roles

    def lead(self, assignment: Assignment) -> bool:
        """Lead, or go on leading; says whether that is a new leader epoch."""
        node_id, now_ms = self._host.node_id, self._host.now_ms()
        if self.leadership is None:
            self.leadership = Leadership(node_id, assignment, self._stand(), now_ms)
            is_new = True
        else:
            is_new = self.leadership.renew(assignment, self._stand(), now_ms)
        led = self.leadership
        self.leader_id, self.leader_epoch = node_id, led.leader_epoch
        self.replicas, self.isr, self.adding = led.assignment.replicas, led.isr, led.assignment.adding
        self._alone = led.alone
        if is_new:
            # Noted before any record: followers with records of later epochs than ours must find where to cut.
            self.log.leader_epochs.assign(led.leader_epoch, self.log.log_end_offset)
        self._advance()
        if is_new:
            self.wake()
        for tail in tuple(self.tails.values()):
            tail.news()
        self._propose(led.recovery(self._host.broker_epoch()))
        return is_new

    def follow(self, leader_id: int, assignment: Assignment) -> bool:
        """Follow, or go on following; says whether that is a new leader epoch."""
        was_leader = self.leadership is not None
        is_new = was_leader or assignment.leader_epoch != self.leader_epoch
        self.leader_id, self.leader_epoch = leader_id, assignment.leader_epoch
        self.replicas, self.isr, self.adding = assignment.replicas, assignment.isr, assignment.adding
        if was_leader:
            self._resign()
        if self.log.first_lost is not None:
            # What a power failure left has a hole, which the leader has not: all from there on is fetched again.
            self.log.truncate_to(self.log.first_lost)
            self.log.first_lost = None
        if is_new:
            self.wake()
        return is_new

    def leave(self) -> None:
        """Be no replica any more."""
        self.leader_id = NO_LEADER
        self._resign()
        self.wake()

    def _resign(self) -> None:
        self.leadership, self._alone = None, False
        self.acks.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _stand(self) -> LeaderLog:
        return LeaderLog(self.log.log_start_offset, self.log.log_end_offset, self.log.high_watermark)

    # --- appending

    @property
    def min_isr(self) -> int:
        """How many replicas must be in sync for acks=all; at most as many as there are."""
        configured = self.log.config.min_insync_replicas
        return configured if self.leadership is None else self.leadership.min_isr(configured)

    def append(self, records: memoryview, acks: int, guard: VerificationGuard | None = None) -> LogAppendInfo:
        """Append a client's batch; ApiError with Kafka's code when it cannot be taken.

        guard: of the verified transaction that begins here.
        """
        led = self.led()
        if acks == ALL_REPLICAS and not self._alone and len(led.isr) < self.min_isr:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.tp} has {len(led.isr)} replicas in sync, and min.insync.replicas wants {self.min_isr}",
            )
        info = self.log.append_as_leader(records, self.leader_epoch, origin=AppendOrigin.CLIENT, guard=guard)
        if not info.duplicate:
            self.appended()
        return info

    def append_coordinator(
        self,
        batch: bytearray,
        epoch: int = LATEST_EPOCH,
        transaction_version: int = 0,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append a batch that a coordinator made, as with acks=all. epoch: in which its coordinator leads."""
        led = self.leadership or self.led()
        if epoch != self.leader_epoch:
            self.check_epoch(epoch)
        if not self._alone and len(led.isr) < self.min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{self.tp} has {len(led.isr)} replicas in sync")
        info = self.log.append_as_leader(
            memoryview(batch),
            self.leader_epoch,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
            guard=guard,
        )
        self.appended()
        return info

    def appended(self) -> None:
        """Commit what was appended when nobody else has to have it, and wake those who wait for it."""
        if self._alone:
            self.log.update_high_watermark(self.log.log_end_offset)
            self._call_waiters()
            return
        for tail in tuple(self.tails.values()):
            tail.grown()
        self._advance()

    def acknowledge(self, info: LogAppendInfo, request: AckedRequest, answer: Answer) -> None:
        """Let a write of acks=all wait until it is committed."""
        self.acks.add(info.last_offset + 1, request, answer)
        self.acks.committed(self.log.high_watermark, self._after_append())

    def is_committed(self, info: LogAppendInfo) -> bool:
        """Say whether what was appended needs no waiting for."""
        return self._alone or (info.last_offset < self.log.high_watermark and len(self.led().isr) >= self.min_isr)

    def _after_append(self) -> ErrorCode:
        led = self.leadership
        if led is None or len(led.maximal_isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # --- committing

    def _advance(self) -> bool:
        """Move the high watermark as far as the in-sync replicas have come; says whether it moved."""
        led, replica_log, host = self.leadership, self.log, self._host
        if led is None:
            return False
        before = replica_log.high_watermark
        mark = led.committed_to(self._stand(), self.min_isr, host.now_ms(), host.max_lag_ms, host.brokers)
        if mark <= before or replica_log.update_high_watermark(mark) <= before:
            return False
        if self.acks:
            self.acks.committed(replica_log.high_watermark, self._after_append())
        self._call_waiters()
        for tail in tuple(self.tails.values()):
            tail.news()
        return True

    def follow_high_watermark(self, offset: int) -> None:
        """Take the leader's high watermark, as far as we have its records."""
        before = self.log.high_watermark
        if offset > before and self.log.update_high_watermark(offset) > before:
            self._call_waiters()

    def wake(self) -> None:
        """Call everybody who waits."""
        self._call_waiters()
        for tail in tuple(self.tails.values()):
            tail.grown()

    def _call_waiters(self) -> None:
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter()

    # --- followers

    def check_follower(self, broker_id: int, broker_epoch: int, leader_epoch: int) -> None:
        """Refuse, by ApiError, who is no follower of ours or fetches in the name of an older registration."""
        led = self.led()
        led.follower(broker_id, epoch_known=leader_epoch != LATEST_EPOCH)
        led.check_broker_epoch(broker_id, broker_epoch, self._host.brokers)

    def follower_fetched(
        self, broker_id: int, broker_epoch: int, offset: int, start_offset: int, leader_end: int, now_ms: int
    ) -> None:
        """Note how far a follower has come; the ISR may grow, the high watermark move."""
        led = self.led()
        follower = led.followers.get(broker_id)
        if follower is None:
            return
        moved = follower.log_end_offset != offset
        trimmed = follower.log_start_offset != start_offset
        follower.fetched(offset, start_offset, broker_epoch, leader_end, now_ms)
        if broker_id not in led.maximal_isr:
            host = self._host
            self._propose(led.expansion(follower, self._stand(), host.broker_epoch(), host.brokers))
        if moved:
            self._advance()
        if trimmed:
            self._call_waiters()

    def follower_rested(self, broker_id: int, at_ms: int) -> None:
        """Note that a follower went on fetching until `at_ms` from the end of the log, where nothing was added."""
        if self.leadership is not None and (follower := self.leadership.followers.get(broker_id)) is not None:
            follower.fetched_nothing_new(at_ms)

    def is_in_sync(self, broker_id: int) -> bool:
        """Say whether a follower is in the ISR, as far as the controller has said."""
        return self.leadership is not None and broker_id in self.leadership.isr

    def low_watermark(self) -> int:
        """Give the offset before which no living replica has records any more; ApiError on a follower (KIP-107)."""
        mark = self.led().low_watermark(self.log.log_start_offset, self._host.brokers)
        return mark if self.future is None else min(mark, self.future.log_start_offset)

    # --- the ISR

    def shrink_isr(self) -> None:
        """Propose the ISR without the followers that lag, when there are any."""
        led, host = self.leadership, self._host
        if led is not None and not self.log.is_offline:
            self._propose(led.shrink(self._stand(), host.broker_epoch(), host.now_ms(), host.max_lag_ms))

    def _propose(self, proposal: IsrProposal | None) -> None:
        if proposal is None:
            return
        if proposal.change is not IsrChange.RECOVERED:
            log.info(
                "ISR proposed", partition=str(self.tp), change=proposal.change.value, isr=proposal.broker_ids,
                now=self.isr, high_watermark=self.log.high_watermark, log_end_offset=self.log.log_end_offset,
            )  # fmt: skip
        self._host.propose(self, proposal)

    def granted(self, proposal: IsrProposal, answer: Granted) -> None:
        """Take the ISR that the controller has made of a proposal."""
        led = self.leadership
        if led is None:
            return
        fate = led.granted(proposal, answer)
        if fate is Fate.STALE:
            return
        self._host.isr_changed(proposal.change, failed=fate is not Fate.COMMITTED)
        if fate is Fate.COMMITTED:
            self.isr = led.isr
            log.info("ISR changed", partition=str(self.tp), isr=led.isr, partition_epoch=led.partition_epoch)
        self._advance()

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> None:
        """Take the controller's refusal of a proposal."""
        led = self.leadership
        if led is None:
            return
        fate = led.refused(proposal, error)
        if fate is Fate.STALE:
            return
        self._host.isr_changed(proposal.change, failed=True)
        log.info("ISR refused", partition=str(self.tp), isr=proposal.broker_ids, why=error.name, then=fate.value)
        if fate is Fate.RETRY:
            self._host.propose(self, proposal)
        else:
            self._advance()  # records may have waited for a follower that was to be in the ISR, and now need not
