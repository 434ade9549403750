"""How many bytes a second throttled replicas may take, on the leader's and on the follower's side (KIP-73, KIP-113)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from barnabas.core.replication.throttled import NOT_THROTTLED, ThrottledReplicas, throttled_on
from barnabas.server.quotas.rate import QuotaRate

if TYPE_CHECKING:
    from barnabas.model.ports import Clock
    from barnabas.server.replication.partition import Partition

UNLIMITED: Final = (1 << 63) - 1


class _RateSoFar(QuotaRate):
    """A rate over the time that there is, a window at least: replication may not use up ten windows at once."""

    def _span_ms(self, now_ms: int) -> int:
        oldest = min((window.start_ms for window in self._ring), default=now_ms)
        return max(now_ms - oldest, self._window_ms)


_on = lru_cache(maxsize=1024)(throttled_on)


class ReplicationQuota:
    """One limit. replicas_key: the topic setting that lists the replicas it is for; None: all of them."""

    def __init__(self, clock: Clock, node_id: int, replicas_key: str | None, *, window_ms: int, windows: int) -> None:
        self._clock = clock
        self._node_id = node_id
        self._replicas_key = replicas_key
        self._rate = _RateSoFar(window_ms, windows)
        self._limit = UNLIMITED

    @property
    def active(self) -> bool:
        """Whether there is a limit at all."""
        return self._limit < UNLIMITED

    def limit(self, bytes_per_second: int) -> None:
        """Set the limit; `UNLIMITED` for none."""
        self._limit = bytes_per_second

    def throttles(self, partition: Partition) -> bool:
        """Say whether the replica is one of those that are limited."""
        return partition.tp.partition in self._listed(partition)

    def _listed(self, partition: Partition) -> ThrottledReplicas:
        if self._replicas_key is None:
            return ThrottledReplicas(None)
        text = partition.log.config.overrides.get(self._replicas_key)
        return _on(self._node_id, text) if text else NOT_THROTTLED

    def record(self, count: int) -> None:
        """Count bytes of a replica that is limited."""
        self._rate.record(count, self._clock.monotonic_ms())

    def used_up(self) -> bool:
        """Say whether more has gone through than the limit allows."""
        return self.active and self.rate() > self._limit

    def exceeded(self, partition: Partition) -> bool:
        """Say whether the replica must wait."""
        return self.throttles(partition) and self.used_up()

    def rate(self) -> float:
        """Give the bytes a second at present."""
        return self._rate.measure(self._clock.monotonic_ms())
