"""What a follower fetches from one leader, and the fetch session in which it names only what changed (KIP-227).

The cost of a round follows what moved since the last one, not what is fetched at all. The shell sends what `next`
gives, and tells what came of it; between the two, partitions may come, go and move.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ErrorCode

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
MAX_EPOCH: Final = (1 << 31) - 1


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: Uuid
    partition: int


@dataclass(frozen=True, slots=True)
class Position:
    """From where a partition is fetched. last_fetched_epoch: of the last record we have, -1 for none."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Ask(NamedTuple):
    """A fetch request. positions: those to name; forgotten: those to drop from the session; full: it begins one."""

    session_id: int
    epoch: int
    positions: list[tuple[TopicIdPartition, Position]]
    forgotten: list[TopicIdPartition]
    full: bool


class Fetching:
    """The partitions of one fetcher. A partition is asked for unless it is put off for a while, or held."""

    def __init__(self) -> None:
        self._positions: dict[TopicIdPartition, Position] = {}
        self._changed: dict[TopicIdPartition, None] = {}
        """To be named in the next request: new, moved, or back after a pause."""
        self._in_session: set[TopicIdPartition] = set()
        self._forget: dict[TopicIdPartition, None] = {}
        self._put_off: dict[TopicIdPartition, int] = {}
        self._due: list[tuple[int, TopicIdPartition]] = []
        self._held: set[TopicIdPartition] = set()
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: TopicIdPartition) -> bool:
        return key in self._positions

    def position(self, key: TopicIdPartition) -> Position | None:
        """Give from where a partition is fetched next; None when it is not."""
        return self._positions.get(key)

    def keys(self) -> list[TopicIdPartition]:
        """Give the partitions that are fetched here."""
        return list(self._positions)

    # --- partitions come, move, rest and go

    def put(self, key: TopicIdPartition, position: Position) -> None:
        """Fetch a partition from there, from the next request on; one that was put off is so no longer."""
        if self._positions.get(key) != position or key in self._put_off:
            self._positions[key] = position
            self._put_off.pop(key, None)
            self._touch(key)

    def remove(self, key: TopicIdPartition) -> None:
        """Fetch a partition no more."""
        if self._positions.pop(key, None) is not None:
            self._put_off.pop(key, None)
            self._held.discard(key)
            self._rest(key)

    def put_off(self, key: TopicIdPartition, until_ms: int) -> None:
        """Leave a partition out until then, after an error."""
        if key in self._positions:
            self._put_off[key] = until_ms
            heapq.heappush(self._due, (until_ms, key))
            self._rest(key)

    def hold(self, keys: set[TopicIdPartition]) -> None:
        """Leave out exactly these until the next call: a quota is used up."""
        for key in keys - self._held:
            self._rest(key)
        before, self._held = self._held, keys & self._positions.keys()
        for key in before - self._held:
            self._touch(key)

    def is_current(self, key: TopicIdPartition) -> bool:
        """Say whether what the last request asked for the partition is still what we want."""
        return key in self._positions and key not in self._changed and key not in self._put_off

    def _touch(self, key: TopicIdPartition) -> None:
        if key in self._positions and key not in self._held and key not in self._put_off:
            self._changed.pop(key, None)
            self._changed[key] = None
            self._forget.pop(key, None)

    def _rest(self, key: TopicIdPartition) -> None:
        self._changed.pop(key, None)
        if key in self._in_session:
            self._forget[key] = None

    # --- rounds

    def next_due_ms(self) -> int | None:
        """Give when the next partition that was put off comes back, None when none was."""
        while self._due and self._put_off.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def next(self, now_ms: int) -> Ask | None:
        """Give the next request; None when there is nothing to ask for now."""
        while (due := self.next_due_ms()) is not None and due <= now_ms:
            key = heapq.heappop(self._due)[1]
            del self._put_off[key]
            self._touch(key)
        if self._epoch == FIRST_EPOCH:
            return self._full()
        positions = [(key, self._positions[key]) for key in self._changed]
        forgotten = list(self._forget)
        self._in_session.update(self._changed)
        self._in_session.difference_update(forgotten)
        if not self._in_session and not forgotten:
            return None
        self._changed.clear()
        self._forget.clear()
        return Ask(self._session_id, self._epoch, positions, forgotten, False)

    def _full(self) -> Ask | None:
        rest = self._put_off.keys() | self._held
        active = {key: None for key in self._changed if key not in rest}
        active |= {key: None for key in self._positions if key not in rest}
        self._in_session = set(active)
        self._changed.clear()
        self._forget.clear()
        if not active:
            return None
        return Ask(self._session_id, FIRST_EPOCH, [(key, self._positions[key]) for key in active], [], True)

    def answered(self, ask: Ask, error: ErrorCode, session_id: int) -> bool:
        """Take the head of an answer; False when there is nothing in it but news of the session."""
        if error is not ErrorCode.NONE:
            self._session_id = NO_SESSION if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id
            self._epoch = FIRST_EPOCH
            return False
        if session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH
        else:
            self._session_id = session_id
            self._epoch = 1 if ask.full or ask.epoch == MAX_EPOCH else ask.epoch + 1
        return True

    def failed(self) -> None:
        """Take note that a request got no answer: the session, if it still lives, is replaced by the next."""
        self._epoch = FIRST_EPOCH
