"""The markers that are still to be written: which broker is to write which, what it answered, and who is done (KIP-98).

What is decided stands in the transaction log; this is soft state of whoever coordinates, begun anew after a hand-over.
Markers of a transaction go to the leaders of its partitions. A partition whose topic is gone wants none.

An ending is looked at when it comes up and when a broker that it waits for has answered, not whenever another one
comes up. Since leaders change, all that wait are looked at again from time to time: `look_again`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.core.transactions.ending import Ending
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

LeaderOf = Callable[[TopicPartition], int | None]
"""Gives a partition's leader, NO_LEADER while it has none, None when there is no such partition any more."""

NO_LEADER: Final = -1

_WRITTEN: Final = frozenset({
    ErrorCode.NONE,
    # Never to be written there: the log has no room for markers. Waiting would keep the transaction open for ever.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
})  # fmt: skip
_OVERTAKEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Another coordinator, or another life of the producer, has ended this transaction: nothing is left to do."""


class Key(NamedTuple):
    """Which transactional id, and the partition of the transaction log that it belongs to."""

    shard: int
    transactional_id: str


@dataclass(slots=True)
class _Open:
    """An ending under way. left: partitions that are not marked; unsent: those of them that nobody was asked for."""

    ending: Ending
    left: set[TopicPartition]
    unsent: set[TopicPartition]


class _Asked(NamedTuple):
    """A part of a request that a broker has not answered."""

    key: Key
    ending: Ending
    partitions: AbstractSet[TopicPartition]


class Marking:
    """All endings that this node brings to an end. A broker is asked one thing at a time."""

    __slots__ = ("_asked", "_finished", "_open", "_unsent", "_waiting")

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        # Sets in order: first come, first asked. An ending stands in one of them as often as it is to be looked at.
        self._unsent: dict[Key, None] = {}
        self._waiting: dict[int, dict[Key, None]] = {}
        self._asked: dict[int, list[_Asked]] = {}
        self._finished: list[tuple[int, Ending]] = []

    def __len__(self) -> int:
        """Give how many endings are under way."""
        return len(self._open)

    def without_leader(self, leader_of: LeaderOf) -> int:
        """Give how many endings wait for a partition to have a leader. Costs in proportion to those that wait."""
        waiting = {key for keys in (self._unsent, *self._waiting.values()) for key in keys if key in self._open}
        return sum(any(leader_of(tp) == NO_LEADER for tp in self._open[key].unsent) for key in waiting)

    @property
    def waits(self) -> bool:
        """Say whether anything is left to `look_again` at."""
        return bool(self._waiting)

    def look_again(self) -> None:
        """Look at all that wait for a leader, or for a broker that is busy, by the next `due`: leaders change."""
        for broker in tuple(self._waiting):
            self._unsent |= self._waiting.pop(broker)

    def begin(self, shard: int, endings: Iterable[Ending]) -> None:
        """Take up endings; what is under way already stays as it is."""
        for ending in endings:
            key = Key(shard, ending.transactional_id)
            known = self._open.get(key)
            if known is None or known.ending != ending:
                open_ = self._open[key] = _Open(ending, set(ending.partitions), set(ending.partitions))
                self._unsent[key] = None
                self._settle(key, open_)

    def forget(self, shard: int) -> None:
        """Forget the endings of a partition of the transaction log: they are somebody else's now."""
        for key in [key for key in self._open if key.shard == shard]:
            del self._open[key]

    def due(self, leader_of: LeaderOf) -> dict[int, WriteTxnMarkersRequest]:
        """Give what to ask brokers now, one request each, and nothing of those that have not answered the last."""
        asked: dict[int, list[_Asked]] = {}
        unsent, self._unsent = self._unsent, {}
        for key in unsent:
            open_ = self._open.get(key)
            if open_ is None:
                continue
            for leader, partitions in self._take_unsent(key, open_, leader_of).items():
                asked.setdefault(leader, []).append(_Asked(key, open_.ending, partitions))
            self._settle(key, open_)
        self._asked |= asked
        return {
            broker: WriteTxnMarkersRequest(markers=[_marker(one.ending, one.partitions) for one in of_broker])
            for broker, of_broker in asked.items()
        }

    def _take_unsent(self, key: Key, open_: _Open, leader_of: LeaderOf) -> dict[int, set[TopicPartition]]:
        by_leader: dict[int, set[TopicPartition]] = {}
        for tp in tuple(open_.unsent):
            leader = leader_of(tp)
            if leader is None:
                open_.unsent.discard(tp)
                open_.left.discard(tp)
            elif leader == NO_LEADER or leader in self._asked:
                self._waiting.setdefault(leader, {})[key] = None
            else:
                open_.unsent.discard(tp)
                by_leader.setdefault(leader, set()).add(tp)
        return by_leader

    def answered(self, broker: int, response: WriteTxnMarkersResponse | None) -> bool:
        """Take a broker's answer in, None when there was none; False when something has to be asked again."""
        errors = {} if response is None else _errors(response)
        self._unsent |= self._waiting.pop(broker, {})
        again = False
        for one in self._asked.pop(broker, ()):
            open_ = self._open.get(one.key)
            if open_ is None or open_.ending != one.ending:
                continue
            answers = errors.get(one.ending.producer.producer_id, {})
            outcome = {tp: answers.get(tp, ErrorCode.REQUEST_TIMED_OUT) for tp in one.partitions}
            if not _OVERTAKEN.isdisjoint(outcome.values()):
                del self._open[one.key]
                continue
            open_.left -= {tp for tp, error in outcome.items() if error in _WRITTEN}
            missed = open_.left & one.partitions
            if missed:
                again = True
                open_.unsent |= missed
                self._unsent[one.key] = None
            self._settle(one.key, open_)
        return not again

    def finished(self) -> list[tuple[int, Ending]]:
        """Give, and forget, the endings whose markers are all written, with their partitions of the log."""
        finished, self._finished = self._finished, []
        return finished

    def _settle(self, key: Key, open_: _Open) -> None:
        if not open_.left:
            del self._open[key]
            self._finished.append((key.shard, open_.ending))


def _marker(ending: Ending, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return WritableTxnMarker(
        producer_id=ending.producer.producer_id,
        producer_epoch=ending.producer.epoch,
        transaction_result=ending.commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=found) for topic, found in by_topic.items()],
        coordinator_epoch=ending.coordinator_epoch,
        transaction_version=ending.transaction_version,
    )


def _errors(response: WriteTxnMarkersResponse) -> Mapping[int, Mapping[TopicPartition, ErrorCode]]:
    return {
        marker.producer_id: {
            TopicPartition(topic.name, p.partition_index): ErrorCode(p.error_code)
            for topic in marker.topics
            for p in topic.partitions
        }
        for marker in response.markers
    }
