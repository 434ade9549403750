"""What clients write and read, by topic and in all: `kafka.server:type=BrokerTopicMetrics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.model.metrics import Bean, Meter, Metrics, mbean
from barnabas.storage.log_validator import OutOfSequenceError, RecordsRefusedError
from barnabas.wire.errors import ApiError, ErrorCode

HEAD: Final = "kafka.server:type=BrokerTopicMetrics"
_ALWAYS: Final = {
    "bytes_in": ("BytesInPerSec", "bytes"),
    "bytes_out": ("BytesOutPerSec", "bytes"),
    "messages_in": ("MessagesInPerSec", "messages"),
    "produce_requests": ("TotalProduceRequestsPerSec", "requests"),
    "fetch_requests": ("TotalFetchRequestsPerSec", "requests"),
}
_ONCE_SEEN: Final = {
    "bytes_rejected": ("BytesRejectedPerSec", "bytes"),
    "failed_produce": ("FailedProduceRequestsPerSec", "requests"),
    "failed_fetch": ("FailedFetchRequestsPerSec", "requests"),
}
"""What a topic shows from the first time on."""
_METERS: Final = _ALWAYS | _ONCE_SEEN
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_NO_FAILURE_TO_WRITE: Final = _TOO_LARGE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Refusals that Kafka does not count as failed produce requests."""
_FAILURES_TO_READ: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR})
"""Of all that a fetch may be answered for a partition, what Kafka counts as a failed fetch request."""


class TopicStats:
    """The meters of one topic. Requests count once for each of their partitions."""

    __slots__ = tuple(_METERS)

    bytes_in: Meter
    bytes_out: Meter
    messages_in: Meter
    produce_requests: Meter
    fetch_requests: Meter
    bytes_rejected: Meter
    failed_produce: Meter
    failed_fetch: Meter

    def __init__(self, metrics: Metrics) -> None:
        for attribute, (_, event) in _METERS.items():
            setattr(self, attribute, Meter(metrics.clock, event))


class TopicMetrics:
    """The topics of a broker; a topic has meters from when it is first written to or read."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry
        self._topics: dict[str, TopicStats] = {}
        self._gone = dict.fromkeys(_METERS, 0)
        self._refused: dict[str, Meter] = {}

    def publish(self) -> None:
        """Show all this: on a broker."""
        registry = self._registry
        registry.source(HEAD, self._beans)
        for attribute, (name, event) in _METERS.items():
            registry.counted(_name(name), lambda a=attribute: self._total(a), event)  # type: ignore[misc]
        for why in ("InvalidMagicNumber", "InvalidMessageCrc", "InvalidOffsetOrSequence", "NoKeyCompactedTopic"):
            self._refused[why] = registry.meter(_name(f"{why}RecordsPerSec"))

    def of(self, name: str) -> TopicStats:
        """Give the meters of a topic."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = TopicStats(self._registry)
        return found

    def forget(self, name: str) -> None:
        """Drop the meters of a deleted topic; the sums keep what they counted."""
        gone = self._topics.pop(name, None)
        if gone is not None:
            for attribute in _METERS:
                self._gone[attribute] += getattr(gone, attribute).count

    def write_refused(self, topic: str, error: ApiError, size: int) -> None:
        """Count why a partition's records were not taken. size: of them in bytes."""
        stats, code = self.of(topic), error.code
        if code in _TOO_LARGE:
            stats.bytes_rejected.mark(size)
        elif code is ErrorCode.CORRUPT_MESSAGE:
            self._count("InvalidMessageCrc")
        elif isinstance(error, OutOfSequenceError):
            self._count("InvalidOffsetOrSequence")
        elif isinstance(error, RecordsRefusedError) and code is ErrorCode.INVALID_RECORD:
            self._count("NoKeyCompactedTopic", len(error.record_errors))
        if code not in _NO_FAILURE_TO_WRITE:
            stats.failed_produce.mark()

    def wrong_magic(self) -> None:
        """Count a batch in another format than the one in use."""
        self._count("InvalidMagicNumber")

    def read_refused(self, topic: str, code: ErrorCode) -> None:
        """Count why a partition could not be read, where that is a failure of this broker."""
        if code in _FAILURES_TO_READ and topic in self._topics:
            self.of(topic).failed_fetch.mark()

    def _count(self, why: str, n: int = 1) -> None:
        if why in self._refused:
            self._refused[why].mark(n)

    def _total(self, attribute: str) -> int:
        counts: list[int] = [getattr(stats, attribute).count for stats in self._topics.values()]
        return self._gone[attribute] + sum(counts)

    def _beans(self) -> Iterator[Bean]:
        for attribute, (name, _) in _METERS.items():
            for topic, stats in list(self._topics.items()):
                meter: Meter = getattr(stats, attribute)
                if meter.count or attribute in _ALWAYS:
                    yield _name(name, topic=topic), meter.attributes()


def _name(name: str, **tags: str) -> str:
    return mbean("kafka.server", type="BrokerTopicMetrics", name=name, **tags)
