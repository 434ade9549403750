"""What a replica of the metadata log is told by its configuration, and the chance that it is lent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from barnabas.core.raft.voters import Endpoint


class Rng(Protocol):
    """Chance; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int:
        """Give a number of 0 to stop - 1."""
        ...


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """The keys of `controller.quorum.*`, times in ms, and what follows from `process.roles`.

    can_vote: the node has the role of a controller; listener: the name, in upper case, of the controller listener that
    others are called on; bootstrap: where the leader is asked for while it is not known (`bootstrap.servers`, or the
    addresses of the static voters).
    """

    listener: str = "CONTROLLER"
    can_vote: bool = True
    bootstrap: tuple[Endpoint, ...] = ()
    auto_join: bool = False
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 8 * 1024 * 1024
    fetch_snapshot_max_bytes: int = 8 * 1024 * 1024
    fetch_max_wait_ms: int = 500
