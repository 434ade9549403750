"""Brokers that were fenced a moment ago without having said that they would leave, or begin anew and are fenced yet.

Clients are told of them for as long as their session would have lasted. librdkafka drops the handle of a broker that is
missing from an answer, with the partitions that this very answer moves to another leader, and then waits for up to a
second before it asks again: leadership should have moved before the broker goes. And where the dropped one was a
group's coordinator, sending offsets to a transaction may hang for ever (docs/decisions/cluster.md).
"""

from __future__ import annotations

from barnabas.core.metadata.cluster import BrokerRegistration
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.ports import Clock


class Departures:
    """See the module. session_ms: `broker.session.timeout.ms`."""

    def __init__(self, clock: Clock, session_ms: int) -> None:
        self._clock = clock
        self._session_ms = session_ms
        self._until_ms: dict[int, int] = {}

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up who was fenced, and who registered again."""
        now_ms = self._clock.monotonic_ms()
        for broker_id in delta.brokers:
            before, after = delta.before.cluster.brokers.get(broker_id), image.cluster.brokers.get(broker_id)
            was_told_of = self._until_ms.pop(broker_id, now_ms) > now_ms
            if before is None or after is None or not after.fenced:
                continue
            begins_anew = was_told_of and before.epoch != after.epoch
            if before.active or begins_anew:
                self._until_ms[broker_id] = now_ms + self._session_ms

    def recent(self, image: MetadataImage) -> list[BrokerRegistration]:
        """Give the brokers that clients are still told of although they are fenced."""
        if not self._until_ms:
            return []
        now_ms = self._clock.monotonic_ms()
        self._until_ms = {broker_id: until for broker_id, until in self._until_ms.items() if until > now_ms}
        return [image.cluster.brokers[broker_id] for broker_id in self._until_ms]
