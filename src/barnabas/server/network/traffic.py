"""Who comes to one listener: connections and logins, counted as they come."""

from __future__ import annotations


class Traffic:
    """Counts since the node began; requests are counted by `request_metrics`."""

    __slots__ = (
        "accepted",
        "closed",
        "created",
        "failed_logins",
        "ip_waits",
        "ip_waits_ms",
        "logins",
        "logins_without_reauth",
        "waits",
        "waits_ms",
    )

    def __init__(self) -> None:
        self.accepted = self.created = self.closed = 0
        """Sockets accepted; connections let in; those of them that have ended."""
        self.waits = self.waits_ms = self.ip_waits = self.ip_waits_ms = 0
        """Connections that were kept waiting as too many came at once (KIP-612), and how long; ip: from one IP."""
        self.logins = self.failed_logins = self.logins_without_reauth = 0
        """TLS handshakes where there is no SASL, else logins; without_reauth: by clients that could never do it again
        on the same connection (KIP-368)."""

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
