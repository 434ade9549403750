"""Fetch v4-18 (v7 sessions, v9 leader epochs, v12 divergence and flexible, v13 topic ids, v16 endpoints).

KIP-227, KIP-320, KIP-516. What is read is a region of a file: the bytes go from the page cache to the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.fetch_sessions import FetchPlan, Wanted
from barnabas.server.partitions import Partition
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

READ_COMMITTED = 1
FOLLOWERS_FROM = 0
"""Replica ids from here on are brokers; consumers say -1."""


@handles(FetchRequest, authz=BY_HANDLER)
def fetch(request: FetchRequest, ctx: RequestContext) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer with what is there, or wait until there is enough, at most the client's time."""
    replica_id = request.replica_state.replica_id if ctx.version >= 15 else request.replica_id
    if replica_id >= FOLLOWERS_FROM and not ctx.authorize(
        AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        plan = ctx.node.fetch_sessions.plan(request, by_topic_id=ctx.version >= 13)
    except ApiError as e:
        ctx.authz.decided = True
        return FetchResponse(error_code=e.code)
    reading = _Reading(request, plan, ctx)
    answers = reading.read()
    if reading.enough or request.max_wait_ms <= 0:
        return reading.finish(answers)
    return reading.wait()


class _Reading:
    """One fetch under way: reads all its partitions, again whenever one of them grew."""

    def __init__(self, request: FetchRequest, plan: FetchPlan, ctx: RequestContext) -> None:
        self.request = request
        self.plan = plan
        self.ctx = ctx
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.limit = ctx.node.quotas.fetch_limit(ctx, min(request.max_bytes, ctx.node.config["fetch.max.bytes"]))
        self.wanted = list(plan.wanted)
        self.refusals = self._authorize()
        self.found: list[Partition] = []
        self.bytes = 0
        self.failed = False
        self._ready: asyncio.Future[None] | None = None

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

    @property
    def enough(self) -> bool:
        """Say whether the answer can go out now."""
        return self.failed or self.bytes >= self.request.min_bytes or not self.wanted

    def read(self) -> list[PartitionData]:
        """Read every partition once, in order, as far as the limits go."""
        self.found, self.bytes, self.failed = [], 0, False
        return [self._read_one(wanted) for wanted in self.wanted]

    def _read_one(self, wanted: Wanted) -> PartitionData:
        answer = PartitionData(partition_index=wanted.request.partition, high_watermark=-1)
        answer.aborted_transactions = None
        answer.records = b""
        refusal = self.refusals.get(wanted.topic)
        if refusal is not None:
            answer.error_code, self.failed = refusal, True
            answer.aborted_transactions = []
            return answer
        try:
            self._read_log(wanted, answer)
        except ApiError as e:
            answer.error_code, self.failed = e.code, True
            if e.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                answer.aborted_transactions = []
            elif e.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
            if e.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                leader, epoch = self.ctx.node.leader_and_epoch(wanted.topic, wanted.request.partition)
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        return answer

    def _read_log(self, wanted: Wanted, answer: PartitionData) -> None:
        request = wanted.request
        partition = self.ctx.node.partitions.leader(wanted.topic, request.partition, request.current_leader_epoch)
        self.found.append(partition)
        log = partition.log
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        if request.last_fetched_epoch >= 0 and self._diverges(partition, wanted, answer):
            self.failed = True
            return
        data = log.read(
            request.fetch_offset,
            max(0, min(request.partition_max_bytes, self.limit - self.bytes)),
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

    def _diverges(self, partition: Partition, wanted: Wanted, answer: PartitionData) -> bool:
        epoch, end = partition.log.leader_epochs.end_offset_for(
            wanted.request.last_fetched_epoch, partition.log.log_end_offset
        )
        if epoch < 0 or end < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch == wanted.request.last_fetched_epoch and end >= wanted.request.fetch_offset:
            return False
        answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
        return True

    def finish(self, answers: list[PartitionData]) -> FetchResponse:
        """Give the answer; an incremental one holds only what is new."""
        plan = self.plan
        pairs = list(zip(self.wanted, answers, strict=True))
        if plan.session is not None:
            news = [(w, a) for w, a in pairs if w.worth_telling(a)]
            if plan.incremental:
                pairs = news
            self.ctx.node.fetch_sessions.rotate(plan.session, [w.key for w, a in pairs if a.records])
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        for wanted, answer in pairs:
            topic = topics.get((wanted.topic, wanted.topic_id))
            if topic is None:
                topic = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id)
                topics[wanted.topic, wanted.topic_id] = topic
            topic.partitions.append(answer)
            if answer.records:
                self.ctx.node.metrics.topic(wanted.topic).bytes_out.count += len(answer.records)
        if not self.ctx.node.quotas.fetched(self.ctx, self.bytes):
            return FetchResponse(session_id=plan.session_id)
        return FetchResponse(session_id=plan.session_id, responses=list(topics.values()))

    async def wait(self) -> FetchResponse:
        """Wait until there is enough or the client's time is over, and answer with what is there then."""
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        timer = loop.call_later(self.request.max_wait_ms / 1000, self._over)
        watched = self.found
        for partition in watched:
            partition.waiters.add(self._grown)
        try:
            await self._ready
        finally:
            timer.cancel()
            for partition in watched:
                partition.waiters.discard(self._grown)
        return self.finish(self.read())

    def _over(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _grown(self) -> None:
        if self._ready is not None and not self._ready.done():
            self.read()
            if self.enough:
                self._ready.set_result(None)
