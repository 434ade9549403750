"""How an answer's error fields become exceptions."""

from __future__ import annotations

from barnabas.client.cluster import Cluster
from barnabas.wire.errors import ApiError, ErrorCode


class ClusterAdmin:
    """What each group of operations stands on."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def timeout_ms(self) -> int:
        """Give how long a node may work on one request."""
        return self.cluster.config.integer("request.timeout.ms")


def refusal(code: int, message: str | None = None) -> ApiError | None:
    """Give the error that an answer's fields hold, or None."""
    return None if code == ErrorCode.NONE else ApiError(ErrorCode(code), message or None)


def check(code: int, message: str | None = None) -> None:
    """Raise the error that an answer's fields hold, if any."""
    error = refusal(code, message)
    if error is not None:
        raise error
