"""How many connections a node takes, from whom, and how fast: Kafka's ConnectionQuotas as plain accounting.

- `max.connections`, for the node and for each listener; the listener between brokers is not bound by the node's number
  while there is another listener: it may go over, and then `excess` asks other listeners to close a connection.
- `max.connections.per.ip` with `max.connections.per.ip.overrides`.
- `max.connection.creation.rate`, for the node and for each listener: connections wait their turn (KIP-612).
- the `connection_creation_rate` quota of an IP: connections beyond it are refused.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.model.addresses import host_text
from barnabas.model.config import ConfigError
from barnabas.server.quotas.rate import QuotaRate

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

NO_LIMIT: Final = 2**31 - 1
REFUSED: Final = -1
_RATES_KEPT: Final = 4096
"""How many addresses' rates are kept before those that have been quiet are forgotten."""


class Verdict(Enum):
    """What becomes of a new connection."""

    ADMITTED = auto()
    NO_SLOT = auto()
    TOO_MANY_FROM_IP = auto()
    TOO_FAST_FROM_IP = auto()


@dataclass(frozen=True, slots=True)
class Admission:
    """A decision. wait_ms: before the connection is served; for TOO_FAST_FROM_IP, before it is closed."""

    verdict: Verdict
    wait_ms: int = 0

    @property
    def counted(self) -> bool:
        """Whether the connection counts, so that `closed` is due when it ends."""
        return self.verdict is Verdict.ADMITTED


@dataclass(slots=True)
class _Listener:
    rate: QuotaRate
    max_connections: int = NO_LIMIT
    max_rate: int = NO_LIMIT
    count: int = 0
    free_at_ms: int = 0


@dataclass(slots=True)
class _Limits:
    max_connections: int
    max_rate: int
    per_ip: int
    per_ip_overrides: Mapping[str, int]


class ConnectionLimits:
    """The counts and the limits of one node."""

    __slots__ = (
        "_by_ip", "_default_ip_limit", "_ip_limits", "_ip_rates", "_limits", "_listeners", "_max_wait_ms", "_new_rate",
        "_protected", "_rate", "_total", "_when_freed",
    )  # fmt: skip

    def __init__(self, config: NodeConfig) -> None:
        window_ms: int = config["quota.window.size.seconds"] * 1000
        windows: int = config["quota.window.num"]
        self._new_rate = partial(QuotaRate, window_ms, windows)
        self._max_wait_ms = window_ms
        self._rate = self._new_rate()
        self._listeners = {e.listener_name: _Listener(self._new_rate()) for e in config.listeners}
        self._by_ip: Counter[str] = Counter()
        self._ip_rates: dict[str, QuotaRate] = {}
        self._total = 0
        self._when_freed: list[Callable[[], object]] = []
        self._default_ip_limit = NO_LIMIT
        self._ip_limits: dict[str, int] = {}
        self.configure(config)

    def configure(self, config: NodeConfig) -> None:
        """Take up the limits of a configuration; what was counted stays. ConfigError for a malformed override."""
        self._limits = _Limits(
            config["max.connections"],
            config["max.connection.creation.rate"],
            config["max.connections.per.ip"],
            parse_overrides(config["max.connections.per.ip.overrides"]),
        )
        for name, listener in self._listeners.items():
            listener.max_connections = config.on_listener(name, "max.connections")
            listener.max_rate = config.on_listener(name, "max.connection.creation.rate")
        self._protected = config.inter_broker_listener_name if len(self._listeners) > 1 else None
        self._tell_freed()

    def set_ip_rates(self, rates: Mapping[str, int], default: int | None = None) -> None:
        """Set every `connection_creation_rate`: by IP, and for all others; None is without limit."""
        self._default_ip_limit = NO_LIMIT if default is None else default
        self._ip_limits = {host_text(host): rate for host, rate in rates.items()}

    def admit(self, listener_name: str, host: str, now_ms: int) -> Admission:
        """Decide on a new connection from the IP `host`, and count it when it is admitted.

        now_ms: a clock that never goes back. NO_SLOT: Kafka accepts nothing more on this listener until a connection
        ends; whether to keep the new one waiting or close it is the caller's.
        """
        listener = self._listeners[listener_name]
        # Kafka's acceptor blocks while it waits, so one connection's turn begins where the last one's has ended.
        start_ms = max(now_ms, listener.free_at_ms)
        listener.free_at_ms = start_ms + self._record(listener_name, listener, start_ms)
        if not self.has_slot(listener_name):
            return Admission(Verdict.NO_SLOT)
        too_fast = self._record_ip(listener_name, listener, host, start_ms)
        if too_fast:
            return Admission(Verdict.TOO_FAST_FROM_IP, too_fast)
        if self._by_ip[host] >= self._limits.per_ip_overrides.get(host, self._limits.per_ip):
            return Admission(Verdict.TOO_MANY_FROM_IP)
        self._by_ip[host] += 1
        self._total += 1
        listener.count += 1
        return Admission(Verdict.ADMITTED, listener.free_at_ms - now_ms)

    def opened(self, listener_name: str, host: str, now_ms: int) -> int:
        """Do as `admit`; gives the ms to wait before serving, or REFUSED."""
        admission = self.admit(listener_name, host, now_ms)
        return admission.wait_ms if admission.counted else REFUSED

    def closed(self, listener_name: str, host: str) -> None:
        """Count an admitted connection out."""
        self._by_ip[host] -= 1
        if not self._by_ip[host]:
            del self._by_ip[host]
        self._total -= 1
        self._listeners[listener_name].count -= 1
        self._tell_freed()

    def when_freed(self, tell: Callable[[], object]) -> None:
        """Call `tell` once, as soon as a connection has ended or the limits have changed."""
        self._when_freed.append(tell)

    def _tell_freed(self) -> None:
        waiting, self._when_freed = self._when_freed, []
        for tell in waiting:
            tell()

    def has_slot(self, listener_name: str) -> bool:
        """Say whether a further connection fits on that listener."""
        listener = self._listeners[listener_name]
        if listener.count >= listener.max_connections:
            return False
        return listener_name == self._protected or self._total < self._limits.max_connections

    def excess(self, listener_name: str) -> bool:
        """Say whether that listener should close the connection it has not heard from for longest."""
        return self._total > self._limits.max_connections and listener_name != self._protected

    def count(self, listener_name: str | None = None) -> int:
        """Give the number of connections, of one listener or of all."""
        return self._total if listener_name is None else self._listeners[listener_name].count

    def _record(self, listener_name: str, listener: _Listener, now_ms: int) -> int:
        wait_ms = 0
        if listener_name != self._protected:
            self._rate.record(1, now_ms)
            wait_ms = self._rate.throttle_ms(self._limits.max_rate, now_ms)
        listener.rate.record(1, now_ms)
        return min(max(wait_ms, listener.rate.throttle_ms(listener.max_rate, now_ms)), self._max_wait_ms)

    def _record_ip(self, listener_name: str, listener: _Listener, host: str, now_ms: int) -> int:
        limit = self._ip_limits.get(host, self._default_ip_limit)
        if limit == NO_LIMIT:
            self._ip_rates.pop(host, None)
            return 0
        if host not in self._ip_rates and len(self._ip_rates) >= _RATES_KEPT:
            self._ip_rates = {ip: rate for ip, rate in self._ip_rates.items() if rate.measure(now_ms)}
        rate = self._ip_rates.setdefault(host, self._new_rate())
        rate.record(1, now_ms)
        wait_ms = min(rate.throttle_ms(limit, now_ms), self._max_wait_ms)
        if wait_ms:
            # It was not taken, so it counts nowhere.
            rate.record(-1, now_ms)
            listener.rate.record(-1, now_ms)
            if listener_name != self._protected:
                self._rate.record(-1, now_ms)
        return wait_ms


def parse_overrides(text: str) -> dict[str, int]:
    """Give IP -> number from `host:number,host:number`; names are looked up. ConfigError when malformed."""
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, number = item.rpartition(":")
        if not colon or not number.strip().isdigit():
            raise ConfigError(f"max.connections.per.ip.overrides={text}: {item!r} is not host:number")
        try:
            addresses = socket.getaddrinfo(host.strip().strip("[]"), None, type=socket.SOCK_STREAM)
        except OSError as e:
            raise ConfigError(f"max.connections.per.ip.overrides={text}: {host}: {e.strerror}") from None
        found.update({host_text(str(address[4][0])): int(number) for address in addresses})
    return found
