"""How idle a node is, under the names that Kafka has for the idle share of its thread pools.

There is one thread, the loop's, for what Kafka does on network, request handler and event queue threads. Its idle share
is the part of the time in which it used no processor: what it spent waiting for a disk or for another thread counts as
idle. Nothing is measured on the way of a request: the operating system knows how much processor a thread had.
"""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns, thread_time_ns
from typing import Final

from barnabas.model.metrics import Metrics, Rates, Value, mbean

_NANOSECONDS_IN_MS: Final = 1e-6
POOL: Final = "KafkaRequestHandlerPool"


class LoopIdleness:
    """Of the thread that makes it."""

    def __init__(self, registry: Metrics) -> None:
        self._thread = get_ident()
        self._wall_ns, self._busy_ns = perf_counter_ns(), thread_time_ns()
        self._idle_ns = 0
        self._rates = Rates(registry.clock)

    def attributes(self) -> dict[str, Value]:
        """Give a meter whose rates are shares from 0 to 1, as Kafka's is; on another thread, as of the last look."""
        if get_ident() == self._thread:
            wall, busy = perf_counter_ns() - self._wall_ns, thread_time_ns() - self._busy_ns
            self._idle_ns = max(self._idle_ns, wall - busy)
        found = self._rates.attributes(self._idle_ns, "percent", _NANOSECONDS_IN_MS, "NANOSECONDS")
        for name, value in found.items():
            if name.endswith("Rate") and not isinstance(value, str):
                found[name] = min(1.0, value)  # two clocks of different steps
        return found


def publish_loop_metrics(registry: Metrics, *, is_broker: bool, is_controller: bool) -> None:
    """Publish the idle share of the loop; call it on the loop's thread."""
    names = ["RequestHandlerAvgIdlePercent"]
    names += ["BrokerRequestHandlerAvgIdlePercent"] if is_broker else []
    names += ["ControllerRequestHandlerAvgIdlePercent"] if is_controller else []
    for name in names:
        registry.bean(mbean("kafka.server", type=POOL, name=name), LoopIdleness(registry).attributes)
    idle = LoopIdleness(registry)

    def share() -> Value:
        return idle.attributes()["OneMinuteRate"]

    registry.gauge(mbean("kafka.network", type="SocketServer", name="NetworkProcessorAvgIdlePercent"), share)
    registry.gauge(mbean("kafka.network", type="Processor", name="IdlePercent", networkProcessor="0"), share)


class IdleRatio:
    """The part of the time since the last look in which a kind of work did not go on."""

    __slots__ = ("_began_ns", "_worked_ns")

    def __init__(self) -> None:
        self._began_ns = perf_counter_ns()
        self._worked_ns = 0.0

    def worked(self, took_ns: float) -> None:
        """Take in how long some work took."""
        self._worked_ns += took_ns

    def look(self) -> float:
        """Give the ratio, from 0 to 1, and begin anew."""
        now_ns = perf_counter_ns()
        elapsed, worked = now_ns - self._began_ns, self._worked_ns
        self._began_ns, self._worked_ns = now_ns, 0.0
        return max(0.0, 1.0 - worked / elapsed) if elapsed else 1.0
