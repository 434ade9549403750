"""Who comes to one listener: connections and logins, counted as they come."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

MOST_SOFTWARE: Final = 100
"""Of how many kinds of clients it is known how many were cut off: a client may call itself what it likes."""
OTHERS: Final = "others"
_MOST_RENEWALS: Final = 10_000


class Traffic:
    """Counts since the node began; requests are counted by `request_metrics`."""

    __slots__ = (
        "accepted",
        "closed",
        "created",
        "failed_logins",
        "failed_renewals",
        "ip_waits",
        "ip_waits_ms",
        "killed",
        "killed_by_software",
        "latest_renewals",
        "logins",
        "logins_without_reauth",
        "renewals",
        "waits",
        "waits_ms",
    )

    def __init__(self) -> None:
        self.accepted = self.created = self.closed = 0
        """Sockets accepted; connections let in; those of them that have ended."""
        self.waits = self.waits_ms = self.ip_waits = self.ip_waits_ms = 0
        """Connections that were kept waiting as too many came at once (KIP-612), and how long; ip: from one IP."""
        self.logins = self.failed_logins = self.logins_without_reauth = 0
        """TLS handshakes where there is no SASL, else logins; without_reauth: those by SASL of clients that could never
        do it again on the same connection (KIP-368). Not the renewals of a session."""
        self.renewals = self.failed_renewals = 0
        """Further logins on the same connection."""
        self.latest_renewals: deque[tuple[int, int]] = deque(maxlen=_MOST_RENEWALS)
        """When (monotonic ms) and for how long (ms)."""
        self.killed = 0
        """Connections that were used after their session had ended."""
        self.killed_by_software: Counter[str] = Counter()

    def kept_waiting(self, wait_ms: int) -> None:
        """Count a connection that is served later."""
        self.waits += 1
        self.waits_ms += wait_ms

    def kept_ip_waiting(self, wait_ms: int) -> None:
        """Count a connection that is not served, and closed later."""
        self.ip_waits += 1
        self.ip_waits_ms += wait_ms

    def login(self, *, again: bool) -> None:
        """Count a login. again: whether the client could do it again on the same connection."""
        self.logins += 1
        self.logins_without_reauth += not again

    def renewed(self, now_ms: int, took_ms: int) -> None:
        """Count a session's renewal. now_ms: the monotonic clock."""
        self.renewals += 1
        self.latest_renewals.append((now_ms, max(1, took_ms)))

    def renewal_times(self, since_ms: int) -> Sequence[int]:
        """Give how long the renewals since then took, ms."""
        return [took_ms for when_ms, took_ms in self.latest_renewals if when_ms >= since_ms]

    def kill(self, software: str) -> None:
        """Count a connection that is closed because its session has ended. software: of the client."""
        self.killed += 1
        known = software in self.killed_by_software or len(self.killed_by_software) < MOST_SOFTWARE
        self.killed_by_software[software if known else OTHERS] += 1
