"""What is under way to whom: one request a peer at a time, and a pause after one that failed."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.ready import Peer
from barnabas.core.raft.voters import Endpoint


@dataclass(frozen=True, slots=True)
class _Busy:
    """request_id: None while the peer is left alone after a failure; due_ms: when either ends by itself."""

    request_id: int | None
    due_ms: int


class Connections:
    """Requests under way, by node id; times are those of the node."""

    def __init__(self, timeout_ms: int, backoff_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._busy: dict[int, _Busy] = {}
        self._peers: dict[int, Peer] = {}

    def sent(self, peer: Peer, request_id: int, now_ms: int) -> None:
        """Take note of a request."""
        self._busy[peer.node_id] = _Busy(request_id, now_ms + self._timeout_ms)
        self._peers[request_id] = peer

    def can_send(self, node_id: int) -> bool:
        """Say whether nothing is under way to the node, and it needs no pause."""
        return node_id not in self._busy

    def is_backing_off(self, node_id: int) -> bool:
        """Say whether the last request to the node failed a moment ago."""
        busy = self._busy.get(node_id)
        return busy is not None and busy.request_id is None

    @property
    def any_in_flight(self) -> bool:
        """Say whether an answer of anybody is awaited."""
        return bool(self._peers)

    def peer_of(self, request_id: int) -> Peer | None:
        """Give whom the request went to, None when its answer is no longer of interest."""
        return self._peers.get(request_id)

    def done(self, request_id: int) -> None:
        """Take note that the request was answered well."""
        peer = self._peers.pop(request_id, None)
        if peer is not None:
            self._busy.pop(peer.node_id, None)

    def failed(self, request_id: int, now_ms: int) -> None:
        """Take note that the request came to nothing: its peer is left alone for a moment."""
        peer = self._peers.pop(request_id, None)
        if peer is not None:
            self._busy[peer.node_id] = _Busy(None, now_ms + self._backoff_ms)

    def give_up(self, endpoint: Endpoint, now_ms: int) -> None:
        """Take requests to an address for failed."""
        for request_id in [i for i, peer in self._peers.items() if peer.endpoint == endpoint]:
            self.failed(request_id, now_ms)

    def expire(self, now_ms: int) -> None:
        """End pauses that are over; fail requests that took too long."""
        for node_id, busy in list(self._busy.items()):
            if busy.due_ms > now_ms:
                continue
            if busy.request_id is None:
                del self._busy[node_id]
            else:
                self.failed(busy.request_id, now_ms)

    def reset(self) -> None:
        """Forget everything: the role changed, and what was asked before it does not count."""
        self._busy.clear()
        self._peers.clear()

    @property
    def next_due_ms(self) -> int | None:
        """The moment at which `expire` will change something."""
        if not self._busy:
            return None
        return min((busy.due_ms for busy in self._busy.values()), default=None)
