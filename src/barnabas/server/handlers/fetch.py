"""Fetch v4-18 (v7 sessions, v9 leader epochs, v11 racks, v12 divergence and flexible, v13 topic ids, v15 broker
epochs of followers, v16 endpoints). KIP-227, KIP-320, KIP-392, KIP-516, KIP-903, KIP-951.

What is read is a region of a file: the bytes go from the page cache to the socket.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.replication.fetch_reading import Reading
from barnabas.server.replication.fetch_sessions import FetchPlan, Wanted, consumer_session
from barnabas.server.replication.follower_fetch import FollowerReading
from barnabas.server.replication.follower_sessions import follower_session
from barnabas.server.replication.partitions import Partition
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

READ_COMMITTED = 1
FOLLOWERS_FROM = 0
"""Replica ids from here on are brokers; consumers say -1."""
FROM_FOLLOWERS_FROM = 11
"""The first version whose consumers may be sent to a follower, and may read from one (KIP-392)."""


@handles(FetchRequest, authz=BY_HANDLER)
def fetch(request: FetchRequest, ctx: RequestContext) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer with what is there, or wait until there is enough, at most the client's time."""
    state = request.replica_state
    replica_id, epoch = (state.replica_id, state.replica_epoch) if ctx.version >= 15 else (request.replica_id, -1)
    is_follower = replica_id >= FOLLOWERS_FROM
    if is_follower and not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if is_follower:
        ctx.stats = ctx.stats.of_followers()
    new = follower_session(replica_id) if is_follower else consumer_session
    try:
        plan = ctx.node.fetch_sessions.plan(request, ctx.version >= 13, new)
    except ApiError as e:
        ctx.authz.decided = True
        return FetchResponse(error_code=e.code)
    reading: Reading
    if is_follower:
        reading = FollowerReading(request, plan, ctx, replica_id, epoch)
    else:
        reading = _ConsumerReading(request, plan, ctx)
    answers = reading.read()
    if reading.enough or request.max_wait_ms <= 0:
        return reading.finish(answers)
    return reading.wait()


class _ConsumerReading(Reading):
    """Reads what is committed, of the topics that the client may read."""

    def __init__(self, request: FetchRequest, plan: FetchPlan, ctx: RequestContext) -> None:
        limit = min(request.max_bytes, ctx.node.config["fetch.max.bytes"])
        super().__init__(request, plan, ctx, ctx.node.quotas.fetch_limit(ctx, limit))
        self.read_committed = request.isolation_level == READ_COMMITTED
        self._refusals = self._authorize()
        self._found: list[Partition] = []
        replicas = ctx.node.partitions
        self._replica = replicas.replica if ctx.version >= FROM_FOLLOWERS_FROM else replicas.leader
        self._selects = ctx.version >= FROM_FOLLOWERS_FROM and ctx.node.replicas.selects

    def _authorize(self) -> dict[str, ErrorCode]:
        """Give the topics that may not be read, and why; resolves topic ids on the way."""
        ctx = self.ctx
        if ctx.version >= 13:
            by_id = ctx.node.image().topics.by_id
            for wanted in self.wanted:
                topic = by_id.get(wanted.topic_id)
                wanted.topic = topic.name if topic else ""
        names = {w.topic for w in self.wanted if w.topic}
        if not names:
            ctx.authz.decided = True
        refusals = {
            name: ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for name in names
            if not ctx.authorize(AclOperation.READ, ResourceType.TOPIC, name)
        }
        refusals[""] = ErrorCode.UNKNOWN_TOPIC_ID
        return refusals

    def read(self) -> list[PartitionData]:
        """Read every partition once, in order, as far as the limits go."""
        self._found = []
        return super().read()

    def read_partition(self, wanted: Wanted, answer: PartitionData) -> None:
        """Read up to the high watermark or the last stable offset; or name a replica that is nearer."""
        refusal = self._refusals.get(wanted.topic)
        if refusal is not None:
            raise ApiError(refusal)
        request = wanted.request
        partition = self._replica(wanted.topic, request.partition, request.current_leader_epoch)
        self.check_topic(wanted, partition)
        self._found.append(partition)
        log = partition.log
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        if self._selects and partition.is_leader:
            nearer = self.ctx.node.replicas.preferred_replica(
                partition, self.request.rack_id, self.ctx.listener_name, request.fetch_offset
            )
            if nearer is not None:
                answer.preferred_read_replica, self.failed = nearer, True
                return
        if self.diverges(partition, wanted, answer):
            return
        data = log.read(
            request.fetch_offset,
            self.room(wanted),
            max_offset=partition.committed_end(read_committed=self.read_committed),
            min_one_batch=not self.bytes,
            read_committed=self.read_committed,
        )
        answer.records = data.records
        self.bytes += len(data.records)
        if self.read_committed:
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=a.producer_id, first_offset=a.first_offset) for a in data.aborted or ()
            ]

    def finish(self, answers: list[PartitionData]) -> FetchResponse:
        """Give the answer; an incremental one holds only what is new."""
        plan, node = self.plan, self.ctx.node
        pairs = list(zip(self.wanted, answers, strict=True))
        for wanted, answer in pairs:
            if not answer.error_code:
                node.metrics.topics.of(wanted.topic).fetch_requests.count += 1
        if plan.session is not None:
            news = [(w, a) for w, a in pairs if w.worth_telling(a)]
            if plan.incremental:
                pairs = news
            node.fetch_sessions.rotate(plan.session, [w.key for w, a in pairs if a.records])
        for wanted, answer in pairs:
            if answer.records:
                node.metrics.topics.of(wanted.topic).bytes_out.count += len(answer.records)
        response = self.respond(pairs)
        if not node.quotas.fetched(self.ctx, self.bytes):
            return FetchResponse(session_id=plan.session_id)
        return response

    def watch(self) -> None:
        """Let `grown` be called when there may be more."""
        self._watched = self._found
        for partition in self._watched:
            partition.waiters.add(self.grown)

    def unwatch(self) -> None:
        """Let `grown` be called no more."""
        for partition in self._watched:
            partition.waiters.discard(self.grown)
