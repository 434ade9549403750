"""What a node's listeners show: `kafka.server:type=socket-server-metrics` and `kafka.network:type=SocketServer`.

Kafka's tag `networkProcessor` is always 0: one loop serves all connections. Rates and averages are over the last 30
seconds or, where nobody looked for longer, since somebody did; bytes are those of frames, without handshakes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.model.metrics import Bean, Metrics, Value, mbean

if TYPE_CHECKING:
    from barnabas.model.ports import Clock
    from barnabas.net.framed import ReceiveBudget
    from barnabas.server.network.listeners import ServedListener
    from barnabas.server.request_metrics import RequestStats

HEAD: Final = "kafka.server:type=socket-server-metrics"
WINDOW_MS: Final = 30_000
LENGTH_BYTES: Final = 4
"""What stands before each frame."""
UNKNOWN: Final = "unknown"
UNLIMITED: Final = 2**63 - 1
"""What Kafka shows as the room that is left where `queued.max.request.bytes` sets no bound."""


def _sum(read: Callable[[RequestStats], int]) -> Callable[[ServedListener], int]:
    return lambda one: sum(map(read, one.requests.all()))


_RATES: Final[dict[str, Callable[[ServedListener], int]]] = {
    "connection-creation": lambda one: one.traffic.created,
    "connection-close": lambda one: one.traffic.closed,
    "successful-authentication": lambda one: one.traffic.logins,
    "successful-authentication-no-reauth": lambda one: one.traffic.logins_without_reauth,
    "failed-authentication": lambda one: one.traffic.failed_logins,
    "successful-reauthentication": lambda one: one.traffic.renewals,
    "failed-reauthentication": lambda one: one.traffic.failed_renewals,
    "incoming-byte": _sum(lambda stats: stats.bytes_in + LENGTH_BYTES * stats.count),
    "outgoing-byte": _sum(lambda stats: stats.bytes_out),
    "request": _sum(lambda stats: stats.count),
    "response": _sum(lambda stats: stats.count - stats.unanswered),
    "network-io": _sum(lambda stats: 2 * stats.count - stats.unanswered),
}


class _Window:
    """What one listener has counted since the window began."""

    def __init__(self, clock: Clock, listener: ServedListener) -> None:
        self._clock = clock
        self._listener = listener
        self._old = self._new = (clock.monotonic_ms(), self._counts())

    def _counts(self) -> list[int]:
        listener = self._listener
        traffic = listener.traffic
        more = (traffic.accepted, traffic.waits, traffic.waits_ms, traffic.ip_waits, traffic.ip_waits_ms)
        return [*(read(listener) for read in _RATES.values()), *more]

    def look(self) -> tuple[float, list[int]]:
        """Give how many seconds the window has, and what has been counted in it."""
        now, counts = self._clock.monotonic_ms(), self._counts()
        if now - self._new[0] >= WINDOW_MS:
            self._old, self._new = self._new, (now, counts)
        began, before = self._old
        return max(now - began, 1) / 1000, [b - a for a, b in zip(before, counts, strict=True)]


class ListenerMetrics:
    """Shows the listeners that there are when somebody looks."""

    def __init__(self, registry: Metrics, listeners: Sequence[ServedListener], budget: ReceiveBudget | None) -> None:
        """listeners: a list that may still grow; budget: for the bytes of requests, None when there is none."""
        self._clock = registry.clock
        self._listeners = listeners
        self._windows = {id(one): _Window(registry.clock, one) for one in listeners}
        registry.source(HEAD, self._beans)
        pool = "kafka.network"
        limit = UNLIMITED if budget is None else budget.left

        def left() -> int:
            return UNLIMITED if budget is None else max(0, budget.left)

        registry.gauge(mbean(pool, type="SocketServer", name="ExpiredConnectionsKilledCount"), self._killed)
        registry.gauge(mbean(pool, type="SocketServer", name="MemoryPoolAvailable"), left)
        registry.gauge(mbean(pool, type="SocketServer", name="MemoryPoolUsed"), lambda: limit - left())

    def _beans(self) -> Iterator[Bean]:
        accepted = 0.0
        for one in self._listeners:
            name = one.endpoint.listener_name
            window = self._windows[id(one)]
            seconds, counted = window.look()
            ours, more = counted[: len(_RATES)], counted[len(_RATES) :]
            accepted += more[0] / seconds
            yield (
                _name(listener=name),
                {
                    "connection-accept-rate": more[0] / seconds,
                    "connection-accept-throttle-time": _mean(more[2], more[1]),
                    "ip-connection-accept-throttle-time": _mean(more[4], more[3]),
                },
            )
            yield _name(listener=name, networkProcessor="0"), self._of(one, seconds, ours) | self._renewals(one)
            yield from _connections(one)
            for software, count in one.traffic.killed_by_software.items():
                tags = {"clientSoftwareName": software, "listener": name, "networkProcessor": "0"}
                yield _name(**tags), {"expired-connections-killed-count": count}
        yield _name(), {"broker-connection-accept-rate": accepted}

    def _killed(self) -> int:
        return sum(one.traffic.killed for one in self._listeners)

    def _renewals(self, one: ServedListener) -> dict[str, Value]:
        times = one.traffic.renewal_times(self._clock.monotonic_ms() - WINDOW_MS)
        return {
            "expired-connections-killed-count": one.traffic.killed,
            "reauthentication-latency-avg": _mean(sum(times), len(times)),
            "reauthentication-latency-max": max(times, default=math.nan),
        }

    @staticmethod
    def _of(one: ServedListener, seconds: float, counted: list[int]) -> dict[str, Value]:
        found: dict[str, Value] = {"connection-count": len(one.connections)}
        by_name = dict(zip(_RATES, counted, strict=True))
        for name, read in _RATES.items():
            found[f"{name}-total"] = read(one)
            found[f"{name}-rate"] = by_name[name] / seconds
        found["request-size-avg"] = _mean(by_name["incoming-byte"], by_name["request"])
        found["request-size-max"] = one.requests.largest if by_name["request"] else math.nan
        return found


def _connections(one: ServedListener) -> Iterator[Bean]:
    """Count the connections of the moment by how they are encrypted, and by what their clients say they are."""
    ciphers: Counter[tuple[str, str]] = Counter()
    software: Counter[tuple[str, str]] = Counter()
    for connection in list(one.connections):
        client, cipher = connection.client, connection.cipher
        if client is None:
            continue
        software[client.software_name or UNKNOWN, client.software_version or UNKNOWN] += 1
        if cipher is not None:
            ciphers[cipher] += 1
    tags = {"listener": one.endpoint.listener_name, "networkProcessor": "0"}
    for (cipher_name, protocol), count in ciphers.items():
        yield _name(cipher=cipher_name, protocol=protocol, **tags), {"connections": count}
    for (name, version), count in software.items():
        told = {"clientSoftwareName": name, "clientSoftwareVersion": version}
        yield _name(**told, **tags), {"connections": count}


def _mean(total: float, count: int) -> float:
    return total / count if count else math.nan


def _name(**tags: str) -> str:
    return mbean("kafka.server", type="socket-server-metrics", **tags)
