"""Fetch sessions: what a client fetches is remembered, so that it names only what changes (KIP-227).

A consumer's session is read whole each time. A follower's may hold thousands of partitions: `follower_sessions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MIN_EVICTION_MS: Final = 120_000
"""A session that has rested this long may be dropped for a new one; Kafka's fixed time."""
MAX_EPOCH: Final = (1 << 31) - 1

PartitionKey = tuple[str, Uuid, int]


@dataclass(slots=True)
class Wanted:
    """A partition that a fetch asks for, and what was last told about it (-1: nothing yet)."""

    topic: str
    topic_id: Uuid
    request: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def key(self) -> PartitionKey:
        """Give the name of the partition as its request spelled it."""
        return (self.topic, self.topic_id, self.request.partition)

    def worth_telling(self, answer: PartitionData) -> bool:
        """Say whether an incremental answer must mention the partition, and remember what is told."""
        news = bool(
            answer.error_code
            or (answer.records is not None and len(answer.records))
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.preferred_read_replica != -1
            or answer.diverging_epoch.epoch != -1
        )
        self.high_watermark, self.log_start_offset = answer.high_watermark, answer.log_start_offset
        if answer.error_code:
            self.high_watermark = -1
        return news


@dataclass(slots=True)
class FetchSession:
    """What one consumer fetches. epoch: the one its next request must carry."""

    id: int
    epoch: int
    by_topic_id: bool
    last_used_ms: int
    partitions: dict[PartitionKey, Wanted] = field(default_factory=dict)

    @property
    def privileged(self) -> bool:
        """Whether it is a follower's, and may take the place of a consumer's."""
        return False

    def take(self, wanted: Wanted) -> None:
        """Fetch a partition from now on, or from another offset."""
        known = self.partitions.get(wanted.key)
        if known is None:
            self.partitions[wanted.key] = wanted
        else:
            known.request = wanted.request

    def forget(self, key: PartitionKey) -> None:
        """Fetch a partition no more."""
        self.partitions.pop(key, None)

    def wanted(self) -> list[Wanted]:
        """Give what is to be looked at for the next answer."""
        return list(self.partitions.values())

    def close(self) -> None:
        """Be a session no more."""
        self.partitions.clear()


NewSession = Callable[[int, bool, int], FetchSession]
"""Makes an empty session: (id, whether its partitions go by topic id, the time) -> session."""


def consumer_session(session_id: int, by_topic_id: bool, now_ms: int) -> FetchSession:
    """Give an empty session of a consumer."""
    return FetchSession(session_id, 1, by_topic_id, now_ms)


@dataclass(slots=True)
class FetchPlan:
    """What a request asks for. session: None when nothing is remembered; incremental: only news is answered."""

    wanted: Iterable[Wanted]
    session: FetchSession | None = None
    incremental: bool = False

    @property
    def session_id(self) -> int:
        """Give the id that the answer carries."""
        return self.session.id if self.session else INVALID_SESSION_ID


class FetchSessions:
    """The sessions of a broker, `slots` at most."""

    def __init__(self, slots: int, now_ms: Callable[[], int], new_id: Callable[[], int]) -> None:
        """new_id gives a random number from 1 to 2**31 - 1."""
        self._slots = slots
        self._now_ms = now_ms
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Give how many partitions the sessions remember, all together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def plan(self, request: FetchRequest, by_topic_id: bool, new: NewSession = consumer_session) -> FetchPlan:
        """Give what `request` asks for; ApiError when it names a session that is not (any more) its own."""
        if request.session_epoch == FINAL_EPOCH:
            self._close(request.session_id)
            return FetchPlan(_wanted(request))
        if request.session_epoch == INITIAL_EPOCH:
            self._close(request.session_id)
            return self._start(request, by_topic_id, new)
        return self._go_on(request, by_topic_id)

    def _start(self, request: FetchRequest, by_topic_id: bool, new: NewSession) -> FetchPlan:
        session = new(self._fresh_id(), by_topic_id, self._now_ms())
        if not self._room(privileged=session.privileged):
            return FetchPlan(_wanted(request))
        for wanted in _wanted(request):
            session.take(wanted)
        self._sessions[session.id] = session
        return FetchPlan(session.wanted(), session)

    def _go_on(self, request: FetchRequest, by_topic_id: bool) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used_ms = self._now_ms()
        for wanted in _wanted(request):
            session.take(wanted)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.forget((topic.topic, topic.topic_id, partition))
        return FetchPlan(session.wanted(), session, incremental=True)

    def _close(self, session_id: int) -> None:
        closed = self._sessions.pop(session_id, None)
        if closed is not None:
            closed.close()

    def rotate(self, session: FetchSession, told: Iterable[PartitionKey]) -> None:
        """Put the partitions that an answer held last, so that the others have their turn."""
        for key in told:
            wanted = session.partitions.pop(key, None)
            if wanted is not None:
                session.partitions[key] = wanted

    def _room(self, *, privileged: bool) -> bool:
        if self._slots <= 0:
            return False
        if len(self._sessions) < self._slots:
            return True
        oldest = min(self._sessions.values(), key=lambda s: (s.privileged, s.last_used_ms))
        displaced = privileged and not oldest.privileged
        if not displaced and self._now_ms() - oldest.last_used_ms < MIN_EVICTION_MS:
            return False
        self._close(oldest.id)
        self.evictions += 1
        return True

    def _fresh_id(self) -> int:
        while (found := self._new_id()) in self._sessions or found == INVALID_SESSION_ID:
            pass
        return found


def _wanted(request: FetchRequest) -> Iterable[Wanted]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Wanted(topic.topic, topic.topic_id or ZERO_UUID, partition)
