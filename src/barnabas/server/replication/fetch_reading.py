"""One fetch under way: reads what is wanted, waits until there is enough, and makes the answer.

What consumers and followers have in common; what each may read stands in `handlers.fetch` and `follower_fetch`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.core.replication.truncation import divergence
from barnabas.model.uuid import ZERO_UUID
from barnabas.server.replication.fetch_sessions import FetchPlan, Wanted
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.server.replication.partition import Partition

LEADERS_FROM: Final = 16
"""The first version whose answers name the leader to a client that asked somebody else (KIP-951)."""
_NOT_OURS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Reading(ABC):
    """Reads all that is wanted, again whenever some of it grew. limit: the bytes of the answer."""

    by_follower = False

    def __init__(self, request: FetchRequest, plan: FetchPlan, ctx: RequestContext, limit: int) -> None:
        self.request = request
        self.plan = plan
        self.ctx = ctx
        self.limit = limit
        self.wanted = list(plan.wanted)
        self.bytes = 0
        self.failed = False
        """Whether something is to be told at once: an error, a divergence, a better replica."""
        self._ready: Callable[[], None] | None = None
        self._released = False

    @property
    def enough(self) -> bool:
        """Say whether the answer can go out now."""
        return self.failed or self.bytes >= self.request.min_bytes or not self.wanted

    def read(self) -> list[PartitionData]:
        """Read every partition once, in order, as far as the limits go."""
        self.bytes, self.failed = 0, False
        return [self._read_one(wanted) for wanted in self.wanted]

    def _read_one(self, wanted: Wanted) -> PartitionData:
        answer = PartitionData(partition_index=wanted.request.partition, high_watermark=-1)
        answer.aborted_transactions = None
        answer.records = b""
        try:
            self.read_partition(wanted, answer)
        except ApiError as e:
            self._refuse(wanted, answer, e.code)
        return answer

    @abstractmethod
    def read_partition(self, wanted: Wanted, answer: PartitionData) -> None:
        """Put into `answer` what the asker may have of a partition; ApiError when that is nothing."""

    def _refuse(self, wanted: Wanted, answer: PartitionData, code: ErrorCode) -> None:
        answer.error_code, self.failed = code, True
        self.ctx.node.metrics.topics.read_refused(wanted.topic, code)
        if code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID
        ):  # fmt: skip
            answer.aborted_transactions = []
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
        elif code in _NOT_OURS and self.ctx.version >= LEADERS_FROM:
            leader, epoch = self.ctx.node.leader_and_epoch(wanted.topic, wanted.request.partition)
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)

    def check_topic(self, wanted: Wanted, partition: Partition) -> None:
        """Refuse, by ApiError, a replica of another topic that has had the same name."""
        if wanted.topic_id != ZERO_UUID and partition.topic_id != wanted.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)

    def diverges(self, partition: Partition, wanted: Wanted, answer: PartitionData) -> bool:
        """Say, and tell the asker, that what it has read is not our history (KIP-320, KIP-595)."""
        request, log = wanted.request, partition.log
        if request.last_fetched_epoch < 0:
            return False
        found = divergence(
            lambda epoch: log.leader_epochs.end_offset_for(epoch, log.log_end_offset),
            log.log_start_offset,
            request.fetch_offset,
            request.last_fetched_epoch,
        )
        if found is None:
            return False
        answer.diverging_epoch = EpochEndOffset(epoch=found[0], end_offset=found[1])
        self.failed = True
        return True

    def room(self, wanted: Wanted) -> int:
        """Give how many bytes of a partition may be answered."""
        return max(0, min(wanted.request.partition_max_bytes, self.limit - self.bytes))

    # --- answering

    def respond(self, pairs: list[tuple[Wanted, PartitionData]]) -> FetchResponse:
        """Give the answer that says this of these partitions."""
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        leaders: set[int] = set()
        for wanted, answer in pairs:
            topic = topics.get((wanted.topic, wanted.topic_id))
            if topic is None:
                topic = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id)
                topics[wanted.topic, wanted.topic_id] = topic
            topic.partitions.append(answer)
            if answer.error_code and answer.current_leader.leader_id >= 0:
                leaders.add(answer.current_leader.leader_id)
        response = FetchResponse(session_id=self.plan.session_id, responses=list(topics.values()))
        if leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
                for b in self.ctx.node.live_brokers(self.ctx.listener_name)
                if b.node_id in leaders
            ]
        return response

    @abstractmethod
    def finish(self, answers: list[PartitionData]) -> FetchResponse:
        """Give the answer; an incremental one holds only what is new."""

    # --- waiting

    async def wait(self) -> FetchResponse:
        """Wait until there is enough or the client's time is over, and answer with what is there then."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        purgatory = self.ctx.node.replicas.fetches
        timer = loop.call_later(self.max_wait_ms / 1000, self._expired, over)
        purgatory.size += 1
        self.begin(lambda: _done(over))
        self.grown()  # what came between the first look and this task's begin has called nobody
        try:
            await over
        finally:
            timer.cancel()
            purgatory.size -= 1
            self.unwatch()
        return self.finish(self.read())

    def _expired(self, over: asyncio.Future[None]) -> None:
        if not over.done():
            purgatory = self.ctx.node.replicas.fetches
            purgatory.expirations += 1
            purgatory.follower_expirations += self.by_follower
            over.set_result(None)

    @property
    def max_wait_ms(self) -> int:
        """How long the asker may be kept waiting."""
        return self.request.max_wait_ms

    def begin(self, ready: Callable[[], None]) -> None:
        """Wait until there is enough: then `ready` is called, once or more often. `unwatch` ends it."""
        self._ready, self._released = ready, False
        self.watch()

    @abstractmethod
    def watch(self) -> None:
        """Let `grown` be called when there may be more."""

    @abstractmethod
    def unwatch(self) -> None:
        """Let `grown` be called no more."""

    def grown(self) -> None:
        """Look whether there is enough by now, unless that has been found: all is read once more for the answer."""
        if self._released:
            return  # a controller's request may change the roles of thousands of partitions in one turn
        self.read()
        if self.enough:
            self.release()

    def release(self) -> None:
        """Answer now, whether there is enough or not."""
        if self._ready is not None:
            self._released = True
            self._ready()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
