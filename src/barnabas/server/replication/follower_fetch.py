"""A follower's fetch: reads to the end of the leader's log, and tells the leader how far the follower has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.replication.truncation import UNDEFINED
from barnabas.server.replication.fetch_reading import Reading
from barnabas.server.replication.fetch_sessions import FetchPlan, Wanted
from barnabas.server.replication.follower_sessions import FollowerSession, Watched
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.server.replication.partition import Partition


class FollowerReading(Reading):
    """Reads what is due in a follower's session, or all that is asked for where there is no session."""

    by_follower = True

    def __init__(
        self, request: FetchRequest, plan: FetchPlan, ctx: RequestContext, replica_id: int, broker_epoch: int
    ) -> None:
        """broker_epoch: of the registration in whose name the follower fetches, -1 when it does not say."""
        super().__init__(request, plan, ctx, min(request.max_bytes, ctx.node.config["fetch.max.bytes"]))
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch
        self._received_ms: int | None = ctx.node.clock.monotonic_ms()
        """When the request came; None once the followers' states are brought up to date by it."""
        if isinstance(plan.session, FollowerSession):
            self._session = plan.session
        else:
            self._session = FollowerSession(0, 0, ctx.version >= 13, self._received_ms, replica_id=replica_id)
            for wanted in self.wanted:
                self._session.take(wanted)
        ctx.authz.decided = True

    def read(self) -> list[PartitionData]:
        """Read what is due; the first time, note how far the follower has come."""
        self.wanted = self._session.wanted()
        answers = super().read()
        self._received_ms = None
        return answers

    @property
    def enough(self) -> bool:
        """Say whether the answer can go out now; a session may wait although nothing is due."""
        return self.failed or self.bytes >= self.request.min_bytes or not self._session.partitions

    def read_partition(self, wanted: Wanted, answer: PartitionData) -> None:
        """Read up to the log's end, from the leader only."""
        request, node = wanted.request, self.ctx.node
        if self.ctx.version >= 13:
            topic = node.image().topics.by_id.get(wanted.topic_id)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            wanted.topic = topic.name
        partition = node.partitions.leader(wanted.topic, request.partition, request.current_leader_epoch)
        self.check_topic(wanted, partition)
        partition.check_follower(self._replica_id, self._broker_epoch, request.current_leader_epoch)
        if isinstance(wanted, Watched):
            wanted.watch(partition)
        log = partition.log
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        if self.diverges(partition, wanted, answer):
            return
        end = log.log_end_offset
        data = log.read(request.fetch_offset, self.room(wanted), min_one_batch=not self.bytes)
        if self._received_ms is not None:
            partition.follower_fetched(
                self._replica_id, self._broker_epoch, request.fetch_offset, request.log_start_offset, end,
                self._received_ms,
            )  # fmt: skip
            answer.high_watermark = log.high_watermark
        if not self._throttled(partition):
            answer.records = data.records
            self.bytes += len(data.records)

    def _throttled(self, partition: Partition) -> bool:
        """Say whether the quota keeps this follower waiting; those in sync are never kept, or they would fall out."""
        quota = self.ctx.node.replicas.leader_quota
        return quota.active and not partition.is_in_sync(self._replica_id) and quota.exceeded(partition)

    def finish(self, answers: list[PartitionData]) -> FetchResponse:
        """Give the answer, and let rest what the follower has all of."""
        pairs = list(zip(self.wanted, answers, strict=True))
        told = [(w, a) for w, a in pairs if w.worth_telling(a) or not self.plan.incremental]
        replicas, topics = self.ctx.node.replicas, self.ctx.node.metrics.topics
        for wanted, answer in pairs:
            if not answer.error_code:
                topics.of(wanted.topic).fetch_requests.count += 1
            if self._rests(wanted, answer):
                self._session.settled(wanted)
            if answer.records:
                replicas.sent(wanted.topic, wanted.request.partition, self._replica_id, len(answer.records))
        if self.plan.session is None:
            self._session.close()
        return self.respond(told)

    def _rests(self, wanted: Wanted, answer: PartitionData) -> bool:
        """Say whether the partition needs no look until it grows, or until the follower names it again."""
        if answer.error_code or not isinstance(wanted, Watched) or wanted.partition is None:
            return False
        if answer.diverging_epoch.epoch != UNDEFINED or (answer.records is not None and len(answer.records)):
            return True  # it comes back with another offset
        at_end = wanted.request.fetch_offset == wanted.partition.log.log_end_offset
        # One that is not in sync yet is looked at each time: whether it may join depends on more than its offset.
        return at_end and wanted.partition.is_in_sync(self._replica_id)

    def watch(self) -> None:
        """Let `grown` be called when there may be more."""
        for wanted in self.wanted:
            if (
                isinstance(wanted, Watched)
                and wanted.partition is not None
                and wanted.request.fetch_offset == wanted.partition.log.log_end_offset
                and wanted.high_watermark == wanted.partition.log.high_watermark
                and wanted.partition.is_in_sync(self._replica_id)
            ):
                self._session.settled(wanted)
        self._session.reading = self.grown
        self.ctx.node.replicas.awaited.parked(self._replica_id, self)

    def unwatch(self) -> None:
        """Let `grown` be called no more."""
        self._session.reading = None
        self.ctx.node.replicas.awaited.gone(self._replica_id, self)

    @property
    def max_wait_ms(self) -> int:
        """How long the follower may be kept waiting."""
        return self.ctx.node.replicas.awaited.max_wait_ms(self._replica_id, self.request.max_wait_ms)
