"""The network between the nodes of a test cluster and to its clients: partitions, slow links, lost answers.

Every listener stands behind a proxy, and a connection is told by who made it: by the process that holds the other end
(Linux), so that real nodes of any make can be told apart, or by the address that a node in the test's own process
connects from. Whoever is no node is `CLIENTS`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

import uvloop

from barnabas.testing.ports import HOST
from barnabas.testing.proxy import Connection, Cut, Proxy, Way
from barnabas.testing.shape import NodePlan
from barnabas.testing.socket_owner import owner_of

CLIENTS: Final = -1
"""Stands for everybody who is no node."""
_WAIT_SECONDS: Final = 60
T = TypeVar("T")
Parties = int | Iterable[int]


class _Link:
    """From one party to one node."""

    def __init__(self, out: Way, back: Way) -> None:
        self.out, self.back = out, back
        self.cuts: list[Cut] = []
        self.connections: set[Connection] = set()
        self.made = 0

    def entered(self, connection: Connection) -> None:
        self.connections.add(connection)
        self.made += 1

    def left(self, connection: Connection) -> None:
        self.connections.discard(connection)


class Network:
    """All links of a cluster. May be used from any thread; a fault is in force when its method returns.

    Parties are node ids, several at once as well, and `CLIENTS`.
    """

    def __init__(self, processes: Callable[[], Mapping[int, int]], addresses: Mapping[str, int] | None = None) -> None:
        """processes: gives node ids by process id. addresses: node ids by the address that they connect from."""
        self._processes = processes
        self._addresses: Mapping[str, int] = {} if addresses is None else addresses
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._proxies: dict[tuple[int, int], Proxy] = {}
        self._ways: dict[tuple[int, int], Way] = {}
        self._links: dict[tuple[int, int], _Link] = {}

    @property
    def running(self) -> bool:
        """Say whether it has been started and not stopped."""
        return self._thread.is_alive()

    def start(self, nodes: Iterable[NodePlan] = ()) -> None:
        """Listen for these nodes."""
        self._thread.start()
        for node in nodes:
            self.add(node)

    def add(self, node: NodePlan) -> None:
        """Listen for one more node."""
        for address in (node.client, node.controller):
            if address is not None and address.bound != address.told:
                self._run(self._listen(node.node_id, address.told, address.bound))

    def stop(self) -> None:
        """End every connection and every proxy."""
        if not self.running:
            return
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_SECONDS)
        self._loop.close()

    # --- faults

    def partition(self, some: Parties, others: Parties) -> None:
        """Let nothing through between these, in either direction, until `heal`."""
        self.hold(some, others)
        self.hold(others, some)

    def isolate(self, node: int) -> None:
        """Let nothing through between a node and the other nodes; clients still reach it."""
        self.partition(node, {n for n, _ in self._proxies} - {node})

    def hold(self, senders: Parties, receivers: Parties) -> None:
        """Let nothing through from some to others: a partition in one direction."""
        self._each(senders, receivers, Way.hold)

    def heal(self) -> None:
        """Undo every partition and every slow link; what was held arrives now."""

        def undo() -> None:
            for way in self._ways.values():
                way.delay_s = way.bytes_per_s = 0.0
                way.release()

        self._do(undo)

    def slow(self, some: Parties, others: Parties, *, delay_ms: float = 0.0, bytes_per_s: float = 0.0) -> None:
        """Delay everything between these by so much each way, and let so many bytes through a second, 0 for no limit.

        All connections of a pair share the limit of their direction.
        """

        def narrow(way: Way) -> None:
            way.delay_s, way.bytes_per_s = delay_ms / 1000, bytes_per_s

        self._each(some, others, narrow)
        self._each(others, some, narrow)

    def reset(self, some: Parties, others: Parties) -> int:
        """End every connection that there is between these, and give how many; new ones are welcome."""

        def end() -> int:
            pairs = _pairs(some, others) | _pairs(others, some)
            found = [c for pair in pairs if pair in self._links for c in self._links[pair].connections]
            for connection in found:
                connection.abort()
            return len(found)

        return self._do(end)

    def cut(self, sender: int, node: int, *, api_key: int = -1, count: int = 0, answered: bool = True) -> Cut:
        """End the connection at a request of `sender` to `node`; the result's `done` tells when it has happened.

        answered: the node serves the request and its answer gets lost; else the request never arrives. api_key: of the
        request, -1 for any. count: let so many pass before. Only where the nodes speak plaintext: frames are not seen
        through TLS.
        """
        cut = Cut(api_key, count, answered)
        self._do(lambda: self._link(sender, node).cuts.append(cut))
        return cut

    def connections(self, sender: int, node: int) -> tuple[int, int]:
        """Give how many connections `sender` has to `node` now, and how many it has ever made."""

        def count() -> tuple[int, int]:
            link = self._link(sender, node)
            return len(link.connections), link.made

        return self._do(count)

    # --- inner ends

    def _each(self, senders: Parties, receivers: Parties, change: Callable[[Way], None]) -> None:
        def change_all() -> None:
            for pair in _pairs(senders, receivers):
                change(self._way(*pair))

        self._do(change_all)

    def _way(self, sender: int, receiver: int) -> Way:
        return self._ways.setdefault((sender, receiver), Way())

    def _link(self, sender: int, node: int) -> _Link:
        found = self._links.get((sender, node))
        if found is None:
            found = self._links[sender, node] = _Link(self._way(sender, node), self._way(node, sender))
        return found

    async def _listen(self, node: int, told: int, bound: int) -> None:
        proxy = Proxy((HOST, told), (HOST, bound), lambda peer: self._link(self._party(peer, told), node))
        await proxy.start()
        self._proxies[node, told] = proxy

    async def _stop(self) -> None:
        for proxy in self._proxies.values():
            await proxy.stop()
        for link in self._links.values():
            for connection in tuple(link.connections):
                connection.abort()

    def _party(self, peer: tuple[str, int], told: int) -> int:
        by_address = self._addresses.get(peer[0])
        if by_address is not None:
            return by_address
        nodes = self._processes()
        found = owner_of(peer, (HOST, told), nodes) if nodes else None
        return CLIENTS if found is None else nodes[found]

    def _do(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self._run(run())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_SECONDS)


def _pairs(senders: Parties, receivers: Parties) -> set[tuple[int, int]]:
    one = (senders,) if isinstance(senders, int) else tuple(senders)
    other = (receivers,) if isinstance(receivers, int) else tuple(receivers)
    return {(a, b) for a in one for b in other if a != b}
